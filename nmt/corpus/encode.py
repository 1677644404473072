"""shuffle: tokens and merges in → the training and dev pairs as piece ids in memory-mapped numpy files.

For each of `train` and `dev`, and each of `source` and `target`:

    <split>.<side>.ids.npy       all ids, one sentence after the other, each closed by </s>
    <split>.<side>.offsets.npy   where each sentence begins in it, and where the last one ends
    <split>.order.npy            the line each pair came from

Training pairs lie in an order drawn from the seed, the same on every machine; dev pairs keep theirs. Ids go
to disk as they are made and are put in order from there, so memory does not grow with the corpus.

With BPE dropout the training text is segmented by subword-nmt with some merges left out at random, `copies` times over:
the same words in other pieces each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.config import ShuffleSettings
from nmt.corpus.blocks import Block, Workers, paired
from nmt.corpus.bpe import END, UNKNOWN, Segmenter, read_vocabulary
from nmt.corpus.text import chunks, read_lines
from nmt.errors import CorpusError
from nmt.progress import progress

SIDES = ("source", "target")
NEWLINE = "\n"  # no word can be this
PARSED = 50_000  # words of the table taken up at once
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

    @property
    def dtype(self) -> type[np.uint16] | type[np.uint32]:
        """The smallest type that holds every id."""
        return np.uint16 if len(self.pieces) <= 2**16 else np.uint32

    @cached_property
    def words(self) -> Words:
        """The ids of every word of the training text; read when the first line is encoded."""
        return Words(self)

    def __call__(self, lines: list[str]) -> tuple[Array, NDArray[np.int64]]:
        """The ids of some lines of tokens, one line after the other, each closed by </s>; and how many each has."""
        text = f" {NEWLINE} ".join([*lines, ""])  # a line's end is a word of its own, whose id is that of </s>
        words = np.fromiter(map(self.words.__getitem__, text.split(" ")), np.int64)
        flat, starts = self.words.arrays()
        sizes = starts[words + 1] - starts[words]
        ends = np.cumsum(sizes)
        # Id k of the result belongs to word i and is number k - ends[i] + sizes[i] of that word's.
        ids = flat[np.repeat(starts[words + 1] - ends, sizes) + np.arange(ends[-1])]
        return ids, np.diff(ends[words == self.words[NEWLINE]], prepend=0)

    def dropped(self, lines: list[str], share: float, seed: str) -> tuple[Array, NDArray[np.int64]]:
        """The same with a share of the merges left out at random: word by word, for no two occurrences are alike."""
        split, number = self.words.segmenter.dropped(lines, share, seed), self.ids.get
        rows = [[*(number(piece, self.unknown) for piece in pieces), self.end] for pieces in split]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return np.fromiter(chain.from_iterable(rows), self.dtype, int(lengths.sum())), lengths


class Words(dict[str, int]):
    """Word → its number in arrays that hold the ids of all words, so that a line is encoded without a loop."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        flat, sizes = [np.empty(0, encoder.dtype)], list[int]()
        for lines in chunks(read_lines(encoder.bpe / "words.tsv"), PARSED):
            segments = []
            for line in lines:
                word, _, pieces = line.split("\t")
                self[word] = len(self)
                sizes.append(pieces.count(" ") + 1)
                segments.append(pieces)
            flat.append(np.fromiter(map(encoder.ids.__getitem__, " ".join(segments).split(" ")), encoder.dtype))
        self.flat = np.concatenate(flat)
        self.starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
        self.new: list[list[int]] = []  # the ids of words met since
        self.add("", [])
        self.add(NEWLINE, [encoder.end])

    def add(self, word: str, ids: list[int]) -> int:
        """Remember a word; returns its number."""
        self[word] = number = len(self)
        self.new.append(ids)
        return number

    def __missing__(self, word: str) -> int:
        ids, unknown = self.encoder.ids, self.encoder.unknown
        return self.add(word, [ids.get(piece, unknown) for piece in self.segmenter.word(word)])

    @cached_property
    def segmenter(self) -> Segmenter:
        """For words that the training text does not have."""
        return Segmenter(self.encoder.bpe / "codes", self.encoder.pieces)

    def arrays(self) -> tuple[Array, NDArray[np.int64]]:
        """The ids of all words, one word after the other, and where each begins and the last ends."""
        if self.new:
            added = np.array([number for ids in self.new for number in ids], self.encoder.dtype)
            ends = self.starts[-1] + np.cumsum([len(ids) for ids in self.new])
            self.flat, self.starts = np.concatenate([self.flat, added]), np.concatenate([self.starts, ends])
            self.new = []
        return self.flat, self.starts


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
    draws: list[Draw | None] = [None]
    if seed is not None:
        draws = [Draw(settings.max_pieces, settings.bpe_dropout, seed, copy) for copy in range(settings.copies)]
    jobs = ((left, right, encoder.bpe, draw) for draw in draws for left, right in paired(*files))
    raw = [out / f".{split}.{side}.raw" for side in SIDES]
    done: list[EncodedBlock] = []
    with (
        Workers(settings.workers, files * len(draws)) as workers,
        progress(f"encode {split}", None) as advance,
        raw[0].open("wb") as left,
        raw[1].open("wb") as right,
    ):
        for block in workers.map(encode_block, jobs):
            for file, ids in zip((left, right), block.ids, strict=True):
                file.write(ids.tobytes())
            done.append(EncodedBlock((ids[:0], ids[:0]), block.lengths, block.lines, block.read, block.unknown))
            advance(block.read)
    read = sum(block.read for block in done)
    lines = numbered(done) % max(read // len(draws), 1)
    if not len(lines):
        for path in raw:
            path.unlink()
        raise CorpusError(f"no {split} pair is left after encoding, of {read:,}; the others are over max_pieces")
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


@dataclass(frozen=True)
class Draw:
    """How training text is encoded, and that of no other split."""

    max_pieces: int
    bpe_dropout: float
    seed: int
    copy: int

    def __call__(self, encoder: Encoder, block: Block) -> tuple[Array, NDArray[np.int64]]:
        """A block's ids and their numbers; the same whichever process does it."""
        if not self.bpe_dropout:
            return encoder(block.text())
        return encoder.dropped(block.text(), self.bpe_dropout, f"{self} {block.path.name} {block.start}")


def encode_block(source: Block, target: Block, bpe: Path, draw: Draw | None) -> EncodedBlock:
    """The ids of one block of pairs; of training text, without those that have too many pieces on a side."""
    encoder = encoder_of(bpe)
    sides = [draw(encoder, block) if draw else encoder(block.text()) for block in (source, target)]
    keep = np.ones(source.lines, np.bool_)
    if draw:
        keep = (sides[0][1] <= draw.max_pieces + 1) & (sides[1][1] <= draw.max_pieces + 1)  # </s> does not count
    (left, left_sizes), (right, right_sizes) = ((ids[np.repeat(keep, sizes)], sizes[keep]) for ids, sizes in sides)
    return EncodedBlock(
        (left, right),
        (left_sizes.astype(np.int32), right_sizes.astype(np.int32)),
        np.flatnonzero(keep),
        source.lines,
        sum(int(np.count_nonzero(side == encoder.unknown)) for side in (left, right)),
    )


@lru_cache(maxsize=1)
def encoder_of(bpe: Path) -> Encoder:
    """An encoder; each process makes it once and keeps the words it has met."""
    return Encoder(bpe)


def numbered(blocks: list[EncodedBlock]) -> NDArray[np.int64]:
    """The line numbers of all kept pairs, counted from the start of the file."""
    ends = np.cumsum([block.read for block in blocks], dtype=np.int64)
    found = [block.lines + end - block.read for block, end in zip(blocks, ends, strict=True)]
    return np.concatenate([np.empty(0, np.int64), *found])


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
