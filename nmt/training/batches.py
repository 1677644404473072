"""Which pairs are in which update: a function of the data and the seed alone.

An epoch is planned as a list of groups, one group per update. Pairs of like lengths in both languages are grouped, so
little is padded; the groups come in random order. A group is shared out among P = ranks x accumulate parts: part p
takes every P-th pair, and rank r of R does parts r, r + R, r + 2R ... one after the other. So each pair is seen once
per epoch by exactly one rank, parts have equal work, and P parts of n are the same updates as one of P x n, whoever
does them.
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
AHEAD = 8  # updates made ready before they are asked for


@dataclass(frozen=True)
class Position:
    """Where in the data a training is: the next update takes group `group` of epoch `epoch`."""

    epoch: int = 0
    group: int = 0


@dataclass(frozen=True)
class Batch:
    """Padded ids of some pairs."""

    source: Ids
    target: Ids
    pairs: NDArray[np.int64]


@dataclass(frozen=True)
class Update:
    """One rank's share of an update, the pairs of all ranks, and the position after it."""

    batches: list[Batch]
    group: NDArray[np.int64]
    after: Position

    @property
    def padding(self) -> float:
        """The share of the positions, of both languages, that hold no piece."""
        sides = [side for batch in self.batches for side in (batch.source, batch.target)]
        return 1 - sum(int(np.count_nonzero(side)) for side in sides) / sum(side.size for side in sides)


class Batches:
    """The endless stream of one rank's updates."""

    def __init__(self, data: Encoded, settings: TrainSettings, seed: int, rank: int, ranks: int) -> None:
        self.data, self.settings, self.seed, self.rank = data, settings, seed, rank
        self.ranks, self.parts = ranks, ranks * settings.accumulate
        source, target = np.diff(data.source_offsets), np.diff(data.target_offsets)
        self.longer = np.maximum(source, target)
        # Lengths at which the target's lead over the source rises take turns with such at which it falls, so that in
        # sorted order neighbours are alike in both languages, even where one length ends and the next begins.
        self.lead = np.where(self.longer % 2, target - source, source - target)
        self.usable = np.flatnonzero(self.longer <= settings.max_length + 1)  # </s> does not count
        if not len(self.usable):
            raise CorpusError(f"no training pair has at most train.max_length = {settings.max_length} pieces")

    def plan(self, epoch: int) -> list[NDArray[np.int64]]:
        """The groups of an epoch, in the order they are trained on."""
        generator = np.random.default_rng([self.seed, epoch])
        drawn = generator.permutation(self.usable)
        # Sorting is stable, so pairs of equal lengths keep their random order: other groups every epoch.
        drawn = drawn[np.lexsort((self.lead[drawn], self.longer[drawn]))]
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
        budget = self.settings.batch * self.parts
        if self.settings.batch_unit == "pairs":
            return budget
        count = max(budget // int(lengths[start]), 1)
        while True:  # the longest pair decides; it lies at the end of the group
            longest = int(lengths[min(start + count, len(lengths)) - 1])
            fits = max(budget // longest, 1)
            if fits >= count:
                return count
            count = fits

    def __call__(self, position: Position) -> Iterator[Update]:
        """Updates from `position` on, for ever."""
        while True:
            groups = self.plan(position.epoch)
            for index in range(position.group, len(groups)):
                last = index + 1 == len(groups)
                after = Position(position.epoch + 1, 0) if last else Position(position.epoch, index + 1)
                parts = [groups[index][part :: self.parts] for part in range(self.rank, self.parts, self.ranks)]
                yield Update([self.batch(pairs) for pairs in parts], groups[index], after)
            position = Position(position.epoch + 1, 0)

    def batch(self, pairs: NDArray[np.int64]) -> Batch:
        """Padded ids of some pairs. A part that a short last group leaves without pairs is one of padding only."""
        sides = [self.data.pair(int(index)) for index in pairs] or [(np.zeros(1), np.zeros(1))]
        return Batch(pad([source for source, _ in sides]), pad([target for _, target in sides]), pairs)


def pad(sentences: list[NDArray[Any]]) -> Ids:
    """Sentences as rows of one array, zeros (the padding id) after each."""
    padded = np.zeros((len(sentences), max(map(len, sentences))), np.int32)
    for row, ids in zip(padded, sentences, strict=True):
        row[: len(ids)] = ids
    return padded


def ahead(batches: Iterator[Update]) -> Generator[Update, None, None]:
    """The same updates, made ready by a thread while the model is busy."""
    ready: queue.Queue[Update | BaseException] = queue.Queue(AHEAD)
    stop = threading.Event()

    def put(item: Update | BaseException) -> None:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.2)
            except queue.Full:
                continue
            return

    def work() -> None:
        try:
            for update in batches:
                put(update)
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
