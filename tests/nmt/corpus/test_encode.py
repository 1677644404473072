"""shuffle: pairs as ids, none lost, none parted, in an order that the seed alone decides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import LearnBpeSettings, ShuffleSettings
from nmt.corpus import blocks
from nmt.corpus import encode as stage
from nmt.corpus.bpe import END, UNKNOWN, join, learn
from nmt.corpus.builtin import generate
from nmt.corpus.encode import Encoded, Encoder, encode, load, text_lines
from nmt.corpus.text import read_lines, read_pairs
from nmt.errors import CorpusError

PAIRS = 200
SETTINGS = ShuffleSettings()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text, codes and vocabulary."""
    folder = tmp_path_factory.mktemp("encode")
    generate(folder, seed=3, train=PAIRS, dev=20, test=0, workers=1)
    learn([folder / "train.en", folder / "train.de"], folder, LearnBpeSettings(merges=100))
    return folder


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Encoder:
    return Encoder(folder)


def files(folder: Path, split: str = "train") -> tuple[Path, Path]:
    return folder / f"{split}.en", folder / f"{split}.de"


def ids_of(encoder: Encoder, line: str) -> list[int]:
    ids, (size,) = encoder([line])
    assert size == len(ids)
    return ids.tolist()


def decoded(encoder: Encoder, ids: np.ndarray) -> str:
    """Ids as text, without the closing </s>."""
    assert encoder.pieces[ids[-1]] == END and encoder.end not in ids[:-1]
    return join([encoder.pieces[number] for number in ids[:-1]])


def pairs_of(encoder: Encoder, found: Encoded) -> list[tuple[str, str]]:
    return [(decoded(encoder, left), decoded(encoder, right)) for left, right in map(found.pair, range(len(found)))]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.npy")}


def test_ids_spell_the_line_again(folder: Path, encoder: Encoder):
    for path in (*files(folder), *files(folder, "dev")):
        for line in read_lines(path):
            ids = np.array(ids_of(encoder, line))
            assert encoder.unknown not in ids
            assert decoded(encoder, ids) == line


@given(st.text(st.sampled_from("aeinrst ."), max_size=30))
def test_any_words_in_known_letters_can_be_encoded(encoder: Encoder, text: str):
    ids = np.array(ids_of(encoder, text))
    assert decoded(encoder, ids) == " ".join(text.split())


@given(st.lists(st.text(st.sampled_from("aeinrst ☃"), max_size=12), min_size=1, max_size=9))
def test_lines_are_encoded_together_as_each_alone(folder: Path, texts: list[str]):
    ids, sizes = Encoder(folder)(texts)
    ends = np.cumsum(sizes).tolist()
    alone = Encoder(folder)
    assert [ids[end - size : end].tolist() for end, size in zip(ends, sizes, strict=True)] == [
        ids_of(alone, text) for text in texts
    ]


def test_a_letter_never_seen_is_unknown_and_the_rest_of_the_line_is_not(encoder: Encoder):
    ids = ids_of(encoder, "the ☃ house")
    assert [encoder.pieces[number] for number in ids].count(UNKNOWN) == 1
    assert ids_of(encoder, "☃") == [encoder.unknown, encoder.end]
    assert ids_of(encoder, "") == [encoder.end]


def test_training_pairs_are_shuffled_together_and_none_is_lost(folder: Path, encoder: Encoder, tmp_path: Path):
    counts = encode("train", files(folder), encoder, tmp_path, 1, SETTINGS)
    found = load(tmp_path, "train")
    assert len(found) == counts["pairs"] == PAIRS
    assert (counts["too_long"], counts["unknown"]) == (0, 0)
    assert sorted(found.order) == list(range(PAIRS)) != found.order.tolist()
    lines = list(read_pairs(*files(folder)))
    assert pairs_of(encoder, found) == [lines[number] for number in found.order]


def test_dev_pairs_keep_their_order(folder: Path, encoder: Encoder, tmp_path: Path):
    encode("dev", files(folder, "dev"), encoder, tmp_path, None, SETTINGS)
    found = load(tmp_path, "dev")
    assert found.order.tolist() == list(range(20))
    assert pairs_of(encoder, found) == list(read_pairs(*files(folder, "dev")))


def test_the_seed_decides_the_bytes(folder: Path, encoder: Encoder, tmp_path: Path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        encode("train", files(folder), encoder, tmp_path / name, seed, SETTINGS)
    a, b, c = (content(tmp_path / name) for name in "abc")
    assert len(a) == 5 and a == b
    assert a["train.order.npy"] != c["train.order.npy"] and a["train.source.ids.npy"] != c["train.source.ids.npy"]


def test_the_order_of_seed_1_is_what_it_has_always_been(encoder: Encoder, tmp_path: Path):
    for side in ("en", "de"):
        (tmp_path / f"train.{side}").write_text("a\n" * 8, encoding="utf-8")
    encode("train", files(tmp_path), encoder, tmp_path, 1, SETTINGS)
    assert load(tmp_path, "train").order.tolist() == np.random.default_rng(1).permutation(8).tolist()


def test_counts_are_of_pieces_without_the_ends(folder: Path, encoder: Encoder, tmp_path: Path):
    counts = encode("train", files(folder), encoder, tmp_path, 1, SETTINGS)
    for side, path in zip(("source", "target"), files(folder), strict=True):
        assert counts[f"{side}_pieces"] == sum(len(ids_of(encoder, line)) - 1 for line in read_lines(path))


def test_training_pairs_over_max_pieces_are_left_out_and_counted(folder: Path, encoder: Encoder, tmp_path: Path):
    lengths = [max(len(ids_of(encoder, side)) - 1 for side in pair) for pair in read_pairs(*files(folder))]
    limit = int(np.median(lengths))
    counts = encode("train", files(folder), encoder, tmp_path, 1, ShuffleSettings(max_pieces=limit))
    expected = [number for number, length in enumerate(lengths) if length <= limit]
    assert sorted(load(tmp_path, "train").order) == expected
    assert counts["too_long"] == PAIRS - len(expected) > 0


def test_dev_pairs_are_kept_whatever_their_length(folder: Path, encoder: Encoder, tmp_path: Path):
    counts = encode("dev", files(folder, "dev"), encoder, tmp_path, None, ShuffleSettings(max_pieces=2))
    assert (counts["pairs"], counts["too_long"]) == (20, 0)


def test_no_pair_left_is_an_error(folder: Path, encoder: Encoder, tmp_path: Path):
    with pytest.raises(CorpusError, match="no train pair is left after encoding, of 200;"):
        encode("train", files(folder), encoder, tmp_path, 1, ShuffleSettings(max_pieces=2))


def test_no_pair_at_all_is_an_error(encoder: Encoder, tmp_path: Path):
    for language in ("en", "de"):
        (tmp_path / f"dev.{language}").write_bytes(b"")
    with pytest.raises(CorpusError, match="no dev pair is left after encoding, of 0;"):
        encode("dev", files(tmp_path, "dev"), encoder, tmp_path, None, SETTINGS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev.de", "dev.en"]


def test_sides_of_different_length_are_an_error(folder: Path, encoder: Encoder, tmp_path: Path):
    with pytest.raises(CorpusError, match="line counts differ"):
        encode("train", (folder / "train.en", folder / "dev.de"), encoder, tmp_path, 1, SETTINGS)


@pytest.mark.parametrize(("size", "dtype"), [(2**16, np.uint16), (2**16 + 8, np.uint32)])
def test_ids_take_two_bytes_while_they_fit(folder: Path, tmp_path: Path, size: int, dtype: type):
    table = (folder / "vocabulary.tsv").read_text(encoding="utf-8")
    letters = table.count("\n")
    padding = "".join(f"<unused-{number}>\t0\n" for number in range(size - letters - 1))
    (tmp_path / "vocabulary.tsv").write_text(table + padding + "☃\t0\n", encoding="utf-8")
    for name in ("codes", "words.tsv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    encoder = Encoder(tmp_path)
    assert ids_of(encoder, "☃") == [size - 1, encoder.end]
    for side in ("en", "de"):
        (tmp_path / f"train.{side}").write_text("☃\na\n", encoding="utf-8")
    encode("train", files(tmp_path), encoder, tmp_path, None, SETTINGS)
    found = load(tmp_path, "train")
    assert found.source.dtype == found.target.dtype == dtype
    assert found.pair(0)[0].tolist() == [size - 1, encoder.end]


def test_arrays_are_memory_maps_that_cannot_be_written(folder: Path, encoder: Encoder, tmp_path: Path):
    encode("dev", files(folder, "dev"), encoder, tmp_path, None, SETTINGS)
    found = load(tmp_path, "dev")
    for array in (found.source, found.target, found.source_offsets, found.target_offsets, found.order):
        assert isinstance(array, np.memmap) and not array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        found.source[0] = 0


@pytest.mark.parametrize("gathered", [1, 7, 1_000])
def test_order_does_not_depend_on_how_much_is_moved_at_once(
    folder: Path, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gathered: int
):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    encode("train", files(folder), encoder, whole, 5, SETTINGS)
    monkeypatch.setattr(stage, "GATHERED", gathered)
    encode("train", files(folder), encoder, parts, 5, SETTINGS)
    assert {path.name for path in parts.iterdir()} == {path.name for path in whole.iterdir()}
    for path in whole.iterdir():
        assert path.read_bytes() == (parts / path.name).read_bytes()


def test_several_processes_and_blocks_write_the_same_bytes(
    folder: Path, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    alone, together = tmp_path / "alone", tmp_path / "together"
    alone.mkdir()
    together.mkdir()
    encode("train", files(folder), encoder, alone, 5, ShuffleSettings(max_pieces=20))
    monkeypatch.setattr(blocks, "SMALL", 0)
    monkeypatch.setattr(stage, "paired", lambda left, right: blocks.paired(left, right, 7))
    encode("train", files(folder), encoder, together, 5, ShuffleSettings(max_pieces=20, workers=2))
    for path in alone.iterdir():
        assert path.read_bytes() == (together / path.name).read_bytes()


def test_the_text_of_encoded_pairs_is_their_segmentation(folder: Path, encoder: Encoder, tmp_path: Path):
    encode("train", files(folder), encoder, tmp_path, 5, SETTINGS)
    data = load(tmp_path, "train")
    for side, path in zip(("source", "target"), files(folder), strict=True):
        lines = list(read_lines(path))
        expected = [encoder.words.segmenter.text(lines[number]) for number in data.order]
        assert list(text_lines(data, side, encoder.pieces)) == expected


DROPOUT = ShuffleSettings(bpe_dropout=0.2, copies=3)


def test_bpe_dropout_stores_each_pair_again_in_other_pieces(folder: Path, encoder: Encoder, tmp_path: Path):
    usual, dropped = tmp_path / "usual", tmp_path / "dropped"
    usual.mkdir()
    dropped.mkdir()
    before = encode("train", files(folder), encoder, usual, 1, SETTINGS)
    counts = encode("train", files(folder), encoder, dropped, 1, DROPOUT)
    found, lines = load(dropped, "train"), list(read_pairs(*files(folder)))
    assert counts["pairs"] == 3 * PAIRS and counts["unknown"] == 0
    assert counts["target_pieces"] > 3.1 * before["target_pieces"]
    assert sorted(found.order) == sorted([*range(PAIRS)] * 3)
    assert pairs_of(encoder, found) == [lines[number] for number in found.order]
    longest = max(range(PAIRS), key=lambda number: len(lines[number][1]))
    copies = {tuple(found.pair(index)[1].tolist()) for index in np.flatnonzero(found.order == longest)}
    assert len(copies) == 3


def test_bpe_dropout_leaves_dev_text_and_later_segmentation_alone(folder: Path, tmp_path: Path):
    encoder, fresh = Encoder(folder), Encoder(folder)
    encode("train", files(folder), encoder, tmp_path, 1, DROPOUT)
    encode("dev", files(folder, "dev"), encoder, tmp_path, None, DROPOUT)
    for (left, right), texts in zip(
        map(load(tmp_path, "dev").pair, range(20)), read_pairs(*files(folder, "dev")), strict=True
    ):
        assert [left.tolist(), right.tolist()] == [ids_of(fresh, text) for text in texts]
    encoder.dropped(["thereupon"], 0.9, "seed")
    assert encoder.words.segmenter.word("thereupon") == fresh.words.segmenter.word("thereupon")


def test_the_more_merges_are_dropped_the_smaller_the_pieces(encoder: Encoder, folder: Path):
    lines = list(read_lines(folder / "train.de"))
    few, many, all_but = (encoder.dropped(lines, share, "seed")[1].sum() for share in (0.01, 0.3, 0.999))
    letters = sum(len(line.replace(" ", "")) for line in lines) + len(lines)
    assert encoder(lines)[1].sum() < few < many < all_but <= letters < 1.02 * all_but


def test_bpe_dropout_does_not_depend_on_who_does_what(
    folder: Path, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stage, "paired", lambda left, right: blocks.paired(left, right, 7))
    for name, small, seed in (("alone", blocks.SMALL, 1), ("together", 0, 1), ("other", blocks.SMALL, 2)):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(blocks, "SMALL", small)
        settings = DROPOUT.model_copy(update={"workers": 2})
        encode("train", files(folder), encoder, tmp_path / name, seed, settings)
    alone, together, other = (content(tmp_path / name) for name in ("alone", "together", "other"))
    assert alone == together
    assert alone["train.target.ids.npy"] != other["train.target.ids.npy"]
