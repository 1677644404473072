"""Which pairs are in which update: a function of the data and the seed alone.

An epoch is planned as a list of groups, one group per update. Pairs of like length are grouped, so little
is padded; the groups come in random order. Rank r of R takes every R-th pair of a group, so each pair is
seen once per epoch by exactly one rank, the ranks of an update have equal work, and R ranks with batches
of n make the same updates as one rank with batches of R x n.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.config import TrainSettings
from nmt.corpus.encode import Encoded
from nmt.errors import CorpusError

Ids = NDArray[np.int32]
AHEAD = 8  # batches made ready before they are asked for


@dataclass(frozen=True)
class Position:
    """Where in the data a training is: the next update takes group `group` of epoch `epoch`."""

    epoch: int = 0
    group: int = 0


@dataclass(frozen=True)
class Batch:
    """One rank's share of an update, and the position after it."""

    source: Ids
    target: Ids
    pairs: NDArray[np.int64]
    after: Position

    @property
    def padding(self) -> float:
        """The share of the target positions that hold no piece."""
        return float(1 - np.count_nonzero(self.target) / self.target.size)


class Batches:
    """The endless stream of one rank's batches."""

    def __init__(self, data: Encoded, settings: TrainSettings, seed: int, rank: int, ranks: int) -> None:
        self.data, self.settings, self.seed, self.rank, self.ranks = data, settings, seed, rank, ranks
        source, target = np.diff(data.source_offsets), np.diff(data.target_offsets)
        self.longer = np.maximum(source, target)
        self.target_lengths = target
        self.usable = np.flatnonzero(self.longer <= settings.max_length + 1)  # </s> does not count
        if not len(self.usable):
            raise CorpusError(f"no training pair has at most train.max_length = {settings.max_length} pieces")

    def plan(self, epoch: int) -> list[NDArray[np.int64]]:
        """The groups of an epoch, in the order they are trained on."""
        generator = np.random.default_rng([self.seed, epoch])
        drawn = generator.permutation(self.usable)
        # Sorting is stable, so pairs of equal length keep their random order: other groups every epoch.
        drawn = drawn[np.lexsort((self.target_lengths[drawn], self.longer[drawn]))]
        groups = list(self.cut(drawn))
        return [groups[index] for index in generator.permutation(len(groups))]

    def cut(self, pairs: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Sorted pairs as groups, each as large as an update may be."""
        lengths, start = self.longer[pairs], 0
        while start < len(pairs):
            count = self.fitting(lengths, start)
            yield pairs[start : start + count]
            start += count

    def fitting(self, lengths: NDArray[np.int64], start: int) -> int:
        """How many pairs from `start` on go into one update (at least one)."""
        budget = self.settings.batch * self.ranks
        if self.settings.batch_unit == "pairs":
            return budget
        count = max(budget // int(lengths[start]), 1)
        while True:  # the longest pair decides; it lies at the end of the group
            longest = int(lengths[min(start + count, len(lengths)) - 1])
            fits = max(budget // longest, 1)
            if fits >= count:
                return count
            count = fits

    def __call__(self, position: Position) -> Iterator[Batch]:
        """Batches from `position` on, for ever."""
        while True:
            groups = self.plan(position.epoch)
            for index in range(position.group, len(groups)):
                last = index + 1 == len(groups)
                after = Position(position.epoch + 1, 0) if last else Position(position.epoch, index + 1)
                yield self.batch(groups[index][self.rank :: self.ranks], after)
            position = Position(position.epoch + 1, 0)

    def batch(self, pairs: NDArray[np.int64], after: Position) -> Batch:
        """Padded ids of some pairs. A rank that a short last group leaves without pairs gets one of padding only."""
        sides = [self.data.pair(int(index)) for index in pairs] or [(np.zeros(1), np.zeros(1))]
        return Batch(pad([source for source, _ in sides]), pad([target for _, target in sides]), pairs, after)


def pad(sentences: list[NDArray[Any]]) -> Ids:
    """Sentences as rows of one array, zeros (the padding id) after each."""
    padded = np.zeros((len(sentences), max(map(len, sentences))), np.int32)
    for row, ids in zip(padded, sentences, strict=True):
        row[: len(ids)] = ids
    return padded


def ahead(batches: Iterator[Batch]) -> Generator[Batch, None, None]:
    """The same batches, made ready by a thread while the model is busy."""
    ready: queue.Queue[Batch | BaseException] = queue.Queue(AHEAD)
    stop = threading.Event()

    def put(item: Batch | BaseException) -> None:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.2)
            except queue.Full:
                continue
            return

    def work() -> None:
        try:
            for batch in batches:
                put(batch)
                if stop.is_set():
                    return
        except BaseException as error:  # handed to the thread that waits for batches
            put(error)

    threading.Thread(target=work, daemon=True, name="batches").start()
    try:
        while True:
            item = ready.get()
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
