"""shuffle: tokens and merges in → the training and dev pairs as piece ids in memory-mapped numpy files.

For each of `train` and `dev`, and each of `source` and `target`:

    <split>.<side>.ids.npy       all ids, one sentence after the other, each closed by </s>
    <split>.<side>.offsets.npy   where each sentence begins in it, and where the last one ends
    <split>.order.npy            the line each pair came from

Training pairs lie in an order drawn from the seed, the same on every machine; dev pairs keep theirs.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.config import ShuffleSettings
from nmt.corpus.bpe import END, UNKNOWN, Segmenter, read_vocabulary
from nmt.corpus.text import read_pairs
from nmt.errors import CorpusError
from nmt.progress import progress

SIDES = ("source", "target")


@dataclass(frozen=True)
class Encoded:
    """Encoded pairs of one split, read from disk as needed."""

    source: NDArray[Any]
    target: NDArray[Any]
    source_offsets: NDArray[np.int64]
    target_offsets: NDArray[np.int64]
    order: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.order)

    def pair(self, index: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The ids of one pair, each side closed by </s>."""
        return (
            self.source[self.source_offsets[index] : self.source_offsets[index + 1]],
            self.target[self.target_offsets[index] : self.target_offsets[index + 1]],
        )


class Encoder:
    """Lines of tokens to ids, by merges and vocabulary."""

    def __init__(self, codes: Path, vocabulary: Path) -> None:
        self.segmenter = Segmenter(codes)
        self.pieces = read_vocabulary(vocabulary)
        self.ids = {piece: number for number, piece in enumerate(self.pieces)}
        self.unknown, self.end = self.ids[UNKNOWN], self.ids[END]
        self.words: dict[str, tuple[int, ...]] = {}

    def __call__(self, line: str) -> list[int]:
        """The ids of a line of tokens, closed by </s>."""
        found = [number for word in line.split(" ") if word for number in self.word(word)]
        found.append(self.end)
        return found

    def word(self, word: str) -> tuple[int, ...]:
        """The ids of one token."""
        numbers = self.words.get(word)
        if numbers is None:
            pieces = self.segmenter.word(word)
            numbers = self.words[word] = tuple(self.ids.get(piece, self.unknown) for piece in pieces)
        return numbers


def encode(
    split: str, files: tuple[Path, Path], encoder: Encoder, out: Path, seed: int | None, settings: ShuffleSettings
) -> dict[str, int]:
    """Encode one split into `out`; with a seed, shuffled and without pairs over `max_pieces`. Returns counts."""
    dtype = np.uint16 if len(encoder.pieces) <= 2**16 else np.uint32
    ids = tuple(array(np.dtype(dtype).char) for _ in SIDES)
    ends = tuple(array("q", [0]) for _ in SIDES)
    lines = array("q")
    unknown = skipped = 0
    with progress(f"encode {split}", None) as advance:
        for number, pair in enumerate(read_pairs(*files)):
            sides = [encoder(line) for line in pair]
            advance(1)
            if seed is not None and max(map(len, sides)) > settings.max_pieces + 1:
                skipped += 1
                continue
            lines.append(number)
            for encoded, store, end in zip(sides, ids, ends, strict=True):
                store.extend(encoded)
                end.append(len(store))
                unknown += encoded.count(encoder.unknown)
    if not lines:
        raise CorpusError(f"no {split} pair is left after encoding ({skipped:,} were over max_pieces)")
    order = np.random.default_rng(seed).permutation(len(lines)) if seed is not None else np.arange(len(lines))
    np.save(out / f"{split}.order.npy", np.frombuffer(lines, dtype=np.int64)[order])
    for side, store, end in zip(SIDES, ids, ends, strict=True):
        reordered, offsets = gather(np.frombuffer(store, dtype=dtype), np.frombuffer(end, dtype=np.int64), order)
        np.save(out / f"{split}.{side}.ids.npy", reordered)
        np.save(out / f"{split}.{side}.offsets.npy", offsets)
    return {
        "pairs": len(lines),
        "too_long": skipped,
        "unknown": unknown,
        "source_pieces": len(ids[0]) - len(lines),
        "target_pieces": len(ids[1]) - len(lines),
    }


def gather(
    ids: NDArray[Any], ends: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Sentences in another order: their ids one after the other, and the new offsets."""
    lengths = np.diff(ends)[order]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    # Position k of sentence i was at ends[order[i]] + (k - offsets[i]) before.
    where = np.repeat(ends[order] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return ids[where], offsets


def load(folder: Path, split: str) -> Encoded:
    """Open one split of a shuffle output; nothing is read before it is used."""

    def open_array(name: str) -> NDArray[Any]:
        array: NDArray[Any] = np.load(folder / f"{split}.{name}.npy", mmap_mode="r")
        return array

    return Encoded(
        open_array("source.ids"),
        open_array("target.ids"),
        open_array("source.offsets"),
        open_array("target.offsets"),
        open_array("order"),
    )
