"""The comparison that decides whether a champion falls: real translations, real paired test."""

import pytest

from nmt.scoring.compare import judge

REFERENCES = [f"der {word} Hund sieht heute {number} Katzen im Garten." for number in range(20) for word in "abcde"]
SPOILT = [line.replace("sieht heute", "heute") for line in REFERENCES]
SOME, OTHERS = SPOILT[:6] + REFERENCES[6:], REFERENCES[:90] + SPOILT[90:95] + REFERENCES[95:]


@pytest.mark.parametrize(
    ("new", "champion", "tolerance", "verdict"),
    [
        (REFERENCES, SPOILT, 0.5, "better"),
        (SPOILT, REFERENCES, 0.5, "worse"),
        (REFERENCES, REFERENCES, 0.5, "equal"),
        (SOME, OTHERS, 1.0, "equal"),  # six wrong beside five others: lower by what may be chance
        (SOME, OTHERS, 0.0, "worse"),  # but that can be asked to count
    ],
)
def test_judge(new, champion, tolerance, verdict):
    found = judge(new, champion, REFERENCES, tolerance)
    assert found.verdict == verdict
    assert found.sentences == 100 and "tok:13a" in found.signature and 0 <= found.p_value <= 1
    assert f"{found.bleu:.2f} beside the champion's {found.champion_bleu:.2f}" in found.words()


def test_where_nothing_ties_the_chance_is_sacrebleus():
    """Five lines wrong beside six others, each in its own way."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.significance import PairedTest

    left, right = list(REFERENCES), list(REFERENCES)
    for number in range(6):
        left[number] = " ".join(left[number].split()[: 3 + number % 4])
        right[50 + number] = " ".join(reversed(right[50 + number].split()[: 8 - number]))
    found = judge(left, right, REFERENCES, 0.5)
    systems = [("champion", right), ("new", left)]
    _, theirs = PairedTest(systems, {"BLEU": BLEU()}, [REFERENCES], test_type="ar", n_samples=10_000)()
    assert found.p_value == pytest.approx(theirs["BLEU"][1].p_value, abs=0.02)
    assert 0.001 < found.p_value < 0.999


@pytest.mark.parametrize(
    ("new", "champion", "references"),
    [
        (REFERENCES, REFERENCES, REFERENCES),
        ([SPOILT[0], *REFERENCES[1:]], REFERENCES, REFERENCES),  # one sentence: either order is as likely
        (SPOILT[:1], REFERENCES[:1], REFERENCES[:1]),
    ],
)
def test_one_sentence_proves_nothing(new, champion, references):
    assert judge(new, champion, references, 100.0).p_value == 1.0
    assert judge(new, champion, references, 100.0).verdict == "equal"


def test_the_scores_are_sacrebleus():
    from sacrebleu import corpus_bleu

    found = judge(SPOILT, REFERENCES, REFERENCES, 0.5)
    assert found.bleu == round(corpus_bleu(SPOILT, [REFERENCES]).score, 2)
    assert found.champion_bleu == 100.0 and found.p_value < 0.05
