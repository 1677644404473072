"""learn_bpe: subword-nmt's merges, and a vocabulary that can write every word in the letters it has seen."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from nmt.config import LearnBpeSettings
from nmt.corpus.bpe import SPECIALS, Segmenter, join, learn, read_vocabulary
from nmt.corpus.builtin import generate
from nmt.errors import CorpusError

SETTINGS = LearnBpeSettings(merges=150)
ODD = "z.B. größer &apos;s 1.000,50 @-@ naïve ☃ Ωμέγα\n"


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A small text in two files."""
    folder = tmp_path_factory.mktemp("text")
    generate(folder, seed=3, train=300, dev=0, test=0, workers=1)
    with (folder / "train.en").open("a", encoding="utf-8") as file:
        file.write(ODD)
    return [folder / "train.en", folder / "train.de"]


@pytest.fixture(scope="module")
def learnt(texts: list[Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of codes and vocabulary, and the counts."""
    out = tmp_path_factory.mktemp("bpe")
    return out, learn(texts, out, SETTINGS)


@pytest.fixture(scope="module")
def segmenter(learnt: tuple[Path, dict[str, Any]]) -> Segmenter:
    return Segmenter(learnt[0] / "codes")


def everything(texts: list[Path]) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in texts)


def test_the_codes_are_those_of_subword_nmt(texts: list[Path], learnt: tuple[Path, dict[str, Any]]):
    codes = io.StringIO()
    with contextlib.redirect_stderr(io.StringIO()):
        learn_bpe(io.StringIO(everything(texts)), codes, SETTINGS.merges, SETTINGS.min_frequency)
    assert (learnt[0] / "codes").read_text(encoding="utf-8") == codes.getvalue()
    assert learnt[1]["merges"] == codes.getvalue().count("\n") - 1 == SETTINGS.merges


def test_segments_are_those_of_subword_nmt(
    texts: list[Path], learnt: tuple[Path, dict[str, Any]], segmenter: Segmenter
):
    with (learnt[0] / "codes").open(encoding="utf-8") as file:
        theirs = BPE(file)
    for line in everything(texts).splitlines():
        assert " ".join(segmenter.line(line)) == theirs.process_line(line)


WORD = st.text(
    st.sampled_from("abcdefgäöüßAÜ0123.,-;&☃") | st.characters(categories=["L", "N", "S"]), min_size=1, max_size=12
)


@given(st.lists(WORD.filter(lambda word: "@" not in word), max_size=8))
def test_joining_undoes_segmenting(segmenter: Segmenter, words: list[str]):
    line = " ".join(words)
    assert join(segmenter.line(line)) == line


def test_joining_undoes_segmenting_of_the_training_text(texts: list[Path], segmenter: Segmenter):
    for line in everything(texts).splitlines():
        assert join(segmenter.line(line)) == line


@pytest.mark.parametrize("line", ["", "a", "@-@", "a @-@ b", "@ @", "me@example.org @you"])
def test_joining_undoes_segmenting_of_at_signs(segmenter: Segmenter, line: str):
    assert join(segmenter.line(line)) == line


def test_the_vocabulary_begins_with_the_specials_and_has_a_round_size(learnt: tuple[Path, dict[str, Any]]):
    pieces = read_vocabulary(learnt[0] / "vocabulary.tsv")
    assert tuple(pieces[:4]) == SPECIALS
    assert len(pieces) % 8 == 0 and len(pieces) == learnt[1]["vocabulary"]
    assert len(set(pieces)) == len(pieces)


@pytest.mark.parametrize("multiple", [1, 7, 64])
def test_the_vocabulary_is_padded_as_asked(multiple: int, texts: list[Path], tmp_path: Path):
    counts = learn(texts, tmp_path, LearnBpeSettings(merges=20, pad_vocabulary_to=multiple))
    pieces = read_vocabulary(tmp_path / "vocabulary.tsv")
    assert len(pieces) == counts["vocabulary"] and len(pieces) % multiple == 0
    assert sum(piece.startswith("<unused") for piece in pieces) < multiple


def test_counts_are_of_the_segmented_text(texts: list[Path], learnt: tuple[Path, dict[str, Any]], segmenter: Segmenter):
    lines = everything(texts).splitlines()
    assert learnt[1]["pieces"] == sum(len(segmenter.line(line)) for line in lines)
    assert learnt[1]["words"] == len({word for line in lines for word in line.split()})
    table = (learnt[0] / "vocabulary.tsv").read_text(encoding="utf-8").splitlines()
    counts = [int(line.split("\t")[1]) for line in table]
    assert counts[4:] == sorted(counts[4:], reverse=True)


def test_every_piece_of_the_training_text_is_in_the_vocabulary(
    texts: list[Path], learnt: tuple[Path, dict[str, Any]], segmenter: Segmenter
):
    known = set(read_vocabulary(learnt[0] / "vocabulary.tsv"))
    assert {piece for line in everything(texts).splitlines() for piece in segmenter.line(line)} <= known


def test_every_letter_seen_can_be_written_at_any_place_of_a_word(
    texts: list[Path], learnt: tuple[Path, dict[str, Any]], segmenter: Segmenter
):
    known = set(read_vocabulary(learnt[0] / "vocabulary.tsv"))
    letters = sorted(set(everything(texts)) - set(" \n"))
    assert "☃" in letters and "ω" not in letters
    for letter in letters:
        assert {letter, f"{letter}@@"} <= known
        assert set(segmenter.line(f"{letter}☃{letter} {letter}")) <= known


@pytest.mark.parametrize("text", ["", "\n\n", "a b c\n"])
def test_a_text_with_nothing_to_merge_is_an_error(text: str, tmp_path: Path):
    path = tmp_path / "text"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CorpusError, match="nothing to merge"):
        learn([path], tmp_path, SETTINGS)


@pytest.mark.filterwarnings("default")
def test_more_merges_than_the_text_has_are_not_an_error(tmp_path: Path):
    path = tmp_path / "text"
    path.write_text("ab ab ab\n", encoding="utf-8")
    counts = learn([path], tmp_path, LearnBpeSettings(merges=1_000))
    assert counts["merges"] == 1
    assert Segmenter(tmp_path / "codes").line("ab") == ["ab"]


def test_words_are_separated_by_spaces_and_by_nothing_else(tmp_path: Path):
    path = tmp_path / "text"
    path.write_text("ab\u2028ab ab\u00a0ab ab\u3000ab\n" * 3, encoding="utf-8")
    learn([path], tmp_path, SETTINGS)
    segmenter = Segmenter(tmp_path / "codes")
    line = "ab\u2028ab ab\u00a0ab"
    assert join(segmenter.line(line)) == line


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ab cd ef\n", "no two letters stand side by side 2 times"),
        ("a b c\n", "no word of two letters"),
        ("aa aa </s>\n", "'</s>' cannot be a word"),
        ("aa aa a\tb\n", r"'a\\tb' cannot be a word"),
    ],
)
def test_text_that_cannot_be_learnt_from_is_refused(tmp_path: Path, text: str, told: str):
    (tmp_path / "train.en").write_text(text, encoding="utf-8")
    with pytest.raises(CorpusError, match=told):
        learn([tmp_path / "train.en"], tmp_path, LearnBpeSettings(workers=1))


def test_a_minimum_that_no_piece_reaches_leaves_letters(tmp_path: Path):
    (tmp_path / "train.en").write_text("abab abab abab\n" * 2, encoding="utf-8")
    learn([tmp_path / "train.en"], tmp_path, LearnBpeSettings(workers=1, min_count=100))
    assert "abab" not in read_vocabulary(tmp_path / "vocabulary.tsv")


def test_a_table_of_merges_that_is_none_is_named(tmp_path: Path):
    (tmp_path / "codes").write_text("#version: 0.2\nfoo\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="codes is not a table of merges"):
        Segmenter(tmp_path / "codes")
