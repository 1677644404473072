"""Scores: sacreBLEU's own, never without their signature."""

from __future__ import annotations

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from nmt.scoring.metrics import piece_bleu, score

REFERENCES = ["Der Hund bellt laut im Garten.", "Heute kaufen wir 1.000 Äpfel.", "„Guten Tag“, sagte Dr. Müller."]
TABLE: dict[str, list[str]] = {
    "identical": REFERENCES,
    "one word off": ["Der Hund bellt leise im Garten.", *REFERENCES[1:]],
    "other case": [line.lower() for line in REFERENCES],
    "tokenized": [
        "Der Hund bellt laut im Garten .",
        "Heute kaufen wir 1.000 Äpfel .",
        "„ Guten Tag “ , sagte Dr. Müller .",
    ],
    "shuffled": REFERENCES[::-1],
    "empty": ["", "", ""],
}
GOLDEN = {"identical": 100.0, "empty": 0.0}


@pytest.mark.parametrize("name", TABLE)
def test_scores_are_those_of_sacrebleu(name: str):
    hypotheses = TABLE[name]
    found = score(hypotheses, REFERENCES)
    assert found.bleu == round(sacrebleu.corpus_bleu(hypotheses, [REFERENCES]).score, 2)
    assert found.chrf == round(sacrebleu.corpus_chrf(hypotheses, [REFERENCES]).score, 2)
    assert found.sentences == 3
    assert found.bleu == GOLDEN.get(name, found.bleu)


def test_worse_translations_score_less():
    scores = [score(TABLE[name], REFERENCES).bleu for name in ("identical", "one word off", "shuffled")]
    assert scores == sorted(scores, reverse=True) and len(set(scores)) == 3


def test_case_counts():
    assert score(TABLE["other case"], REFERENCES).bleu < 100


def test_signatures_say_how_it_was_counted():
    found = score(REFERENCES, REFERENCES)
    assert found.signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert found.chrf_signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{sacrebleu.__version__}"


def test_a_golden_score():
    # words 9/10, pairs 6/8, triples 4/6, fours 2/4, no brevity penalty: (0.9 x 0.75 x 2/3 x 0.5) ** 0.25
    assert score(["the cat sat on the mat", "a b c d"], ["the cat sat on a mat", "a b c d"]).bleu == 68.87


@given(
    st.lists(
        st.lists(st.sampled_from(["der", "Hund", "bellt", "laut", "."]), min_size=4, max_size=9), min_size=1, max_size=5
    )
)
def test_identical_text_scores_100(sentences: list[list[str]]):
    lines = [" ".join(words) for words in sentences]
    found = score(lines, lines)
    assert (found.bleu, found.chrf) == (100.0, 100.0)
    assert piece_bleu(sentences, sentences) == 100.0


def test_piece_bleu_counts_pieces_as_they_are():
    references = [["der", "H@@", "und", "bel@@", "lt", "&apos;s", "."], ["a@@", "b", "c", "d", "e"]]
    hypotheses = [["der", "H@@", "und", "bel@@", "len", "&apos;s", "."], ["a@@", "b", "c", "d", "e"]]
    lines = [[" ".join(pieces) for pieces in side] for side in (hypotheses, references)]
    expected = sacrebleu.corpus_bleu(lines[0], [lines[1]], tokenize="none", force=True).score
    assert piece_bleu(hypotheses, references) == round(expected, 2) < 100
    assert piece_bleu([[], []], references) == 0.0
