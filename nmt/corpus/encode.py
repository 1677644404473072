"""shuffle: tokens and merges in → the training and dev pairs as piece ids in memory-mapped numpy files.

For each of `train` and `dev`, and each of `source` and `target`:

    <split>.<side>.ids.npy       all ids, one sentence after the other, each closed by </s>
    <split>.<side>.offsets.npy   where each sentence begins in it, and where the last one ends
    <split>.order.npy            the line each pair came from

Training pairs lie in an order drawn from the seed, the same on every machine; dev pairs keep theirs. Ids go
to disk as they are made and are put in order from there, so memory does not grow with the corpus.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.config import ShuffleSettings
from nmt.corpus.blocks import Block, Workers, paired
from nmt.corpus.bpe import END, REMEMBERED, UNKNOWN, Segmenter, read_vocabulary
from nmt.corpus.text import read_lines
from nmt.errors import CorpusError
from nmt.progress import progress

SIDES = ("source", "target")
GATHERED = 200_000  # sentences put in order at once

Array = NDArray[Any]


@dataclass(frozen=True)
class Encoded:
    """Encoded pairs of one split, read from disk as needed."""

    source: Array
    target: Array
    source_offsets: NDArray[np.int64]
    target_offsets: NDArray[np.int64]
    order: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.order)

    def pair(self, index: int) -> tuple[Array, Array]:
        """The ids of one pair, each side closed by </s>."""
        return (
            self.source[self.source_offsets[index] : self.source_offsets[index + 1]],
            self.target[self.target_offsets[index] : self.target_offsets[index + 1]],
        )


class Encoder:
    """Lines of tokens to ids, by merges and vocabulary."""

    def __init__(self, bpe: Path) -> None:
        self.bpe = bpe  # output of learn_bpe
        self.pieces = read_vocabulary(bpe / "vocabulary.tsv")
        self.ids = {piece: number for number, piece in enumerate(self.pieces)}
        self.unknown, self.end = self.ids[UNKNOWN], self.ids[END]
        self.words = WordIds(self, Segmenter(bpe / "codes", self.pieces))

    @property
    def dtype(self) -> type[np.uint16] | type[np.uint32]:
        """The smallest type that holds every id."""
        return np.uint16 if len(self.pieces) <= 2**16 else np.uint32

    def __call__(self, line: str) -> list[int]:
        """The ids of a line of tokens, closed by </s>."""
        words = self.words
        return [number for word in line.split(" ") if word for number in words[word]] + [self.end]


class WordIds(dict[str, tuple[int, ...]]):
    """Word → the ids of its pieces; frequent words are looked up once."""

    def __init__(self, encoder: Encoder, segmenter: Segmenter) -> None:
        self.encoder, self.segmenter = encoder, segmenter
        for line in islice(read_lines(encoder.bpe / "words.tsv"), REMEMBERED):  # most frequent first
            word, _, pieces = line.split("\t")
            self[word] = tuple(map(encoder.ids.__getitem__, pieces.split(" ")))

    def __missing__(self, word: str) -> tuple[int, ...]:
        ids, unknown = self.encoder.ids, self.encoder.unknown
        found = tuple(ids.get(piece, unknown) for piece in self.segmenter.word(word))
        if len(self) < REMEMBERED:
            self[word] = found
        return found


@dataclass(frozen=True)
class EncodedBlock:
    """What a worker sends back: both sides' ids and lengths, and which of its lines they are."""

    ids: tuple[Array, Array]
    lengths: tuple[NDArray[np.int32], NDArray[np.int32]]
    lines: NDArray[np.int64]
    read: int
    unknown: int


def encode(
    split: str, files: tuple[Path, Path], encoder: Encoder, out: Path, seed: int | None, settings: ShuffleSettings
) -> dict[str, int]:
    """Encode one split into `out`; with a seed, shuffled and without pairs over `max_pieces`. Returns counts."""
    most = settings.max_pieces if seed is not None else None
    jobs = ((left, right, encoder.bpe, most) for left, right in paired(*files))
    raw = [out / f".{split}.{side}.raw" for side in SIDES]
    done: list[EncodedBlock] = []
    with (
        Workers(settings.workers, files) as workers,
        progress(f"encode {split}", None) as advance,
        raw[0].open("wb") as left,
        raw[1].open("wb") as right,
    ):
        for block in workers.map(encode_block, jobs):
            for file, ids in zip((left, right), block.ids, strict=True):
                file.write(ids.tobytes())
            done.append(EncodedBlock((ids[:0], ids[:0]), block.lengths, block.lines, block.read, block.unknown))
            advance(block.read)
    lines = numbered(done)
    read = sum(block.read for block in done)
    if not len(lines):
        raise CorpusError(f"no {split} pair is left after encoding ({read:,} were over max_pieces)")
    order = np.random.default_rng(seed).permutation(len(lines)) if seed is not None else np.arange(len(lines))
    np.save(out / f"{split}.order.npy", lines[order])
    sizes = [
        put_in_order(
            path, np.concatenate([block.lengths[side] for block in done]), order, out / f"{split}.{name}", encoder
        )
        for side, (name, path) in enumerate(zip(SIDES, raw, strict=True))
    ]
    return {
        "pairs": len(lines),
        "too_long": read - len(lines),
        "unknown": sum(block.unknown for block in done),
        "source_pieces": sizes[0] - len(lines),
        "target_pieces": sizes[1] - len(lines),
    }


def encode_block(source: Block, target: Block, bpe: Path, most: int | None) -> EncodedBlock:
    """The ids of one block of pairs, without those that have more than `most` pieces on a side."""
    encode_line = encoder_of(bpe)
    ids: tuple[list[int], list[int]] = ([], [])
    lengths: tuple[list[int], list[int]] = ([], [])
    lines = []
    pairs = zip(source.text(), target.text(), strict=True)
    for number, sides in enumerate((encode_line(left), encode_line(right)) for left, right in pairs):
        if most is not None and max(len(sides[0]), len(sides[1])) > most + 1:
            continue
        lines.append(number)
        for found, total, length in zip(sides, ids, lengths, strict=True):
            total.extend(found)
            length.append(len(found))
    return EncodedBlock(
        (np.array(ids[0], encode_line.dtype), np.array(ids[1], encode_line.dtype)),
        (np.array(lengths[0], np.int32), np.array(lengths[1], np.int32)),
        np.array(lines, np.int64),
        source.lines,
        sum(side.count(encode_line.unknown) for side in ids),
    )


@lru_cache(maxsize=1)
def encoder_of(bpe: Path) -> Encoder:
    """An encoder; each process makes it once and keeps the words it has met."""
    return Encoder(bpe)


def numbered(blocks: list[EncodedBlock]) -> NDArray[np.int64]:
    """The line numbers of all kept pairs, counted from the start of the file."""
    starts = np.cumsum([0, *(block.read for block in blocks[:-1])])
    return np.concatenate([block.lines + start for block, start in zip(blocks, starts, strict=True)])


def put_in_order(raw: Path, lengths: NDArray[np.int32], order: NDArray[np.int64], out: Path, encoder: Encoder) -> int:
    """Write a side's ids (`<out>.ids.npy`) and offsets in the given order; `raw` is removed. Returns how many ids."""
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[order], dtype=np.int64)])
    np.save(out.with_name(f"{out.name}.offsets.npy"), offsets)
    total = int(offsets[-1])
    unordered = np.memmap(raw, encoder.dtype, mode="r", shape=(total,))
    ordered: Array = np.lib.format.open_memmap(  # type: ignore[no-untyped-call]
        out.with_name(f"{out.name}.ids.npy"), mode="w+", dtype=encoder.dtype, shape=(total,)
    )
    for start in range(0, len(order), GATHERED):
        chosen = order[start : start + GATHERED]
        first, last = offsets[start], offsets[start + len(chosen)]
        # Id k of the output belongs to sentence i and was at begins[order[i]] + (k - offsets[i]).
        shift = begins[chosen] - offsets[start : start + len(chosen)]
        where = np.repeat(shift, lengths[chosen]) + np.arange(first, last)
        ordered[first:last] = unordered[where]
    ordered.flush()  # type: ignore[attr-defined]
    raw.unlink()
    return total


def load(folder: Path, split: str) -> Encoded:
    """Open one split of a shuffle output; nothing is read before it is used."""

    def open_array(name: str) -> Array:
        array: Array = np.load(folder / f"{split}.{name}.npy", mmap_mode="r")
        return array

    return Encoded(
        open_array("source.ids"),
        open_array("target.ids"),
        open_array("source.offsets"),
        open_array("target.offsets"),
        open_array("order"),
    )


def text_lines(data: Encoded, side: str, pieces: list[str]) -> Iterator[str]:
    """The encoded sentences of one side as pieces, joined by spaces, in their stored order."""
    ids, offsets = (data.source, data.source_offsets) if side == "source" else (data.target, data.target_offsets)
    for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        yield " ".join([pieces[number] for number in ids[start : end - 1].tolist()])
