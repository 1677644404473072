"""Learning BPE merges: subword-nmt's algorithm and its very merges, without its search.

subword-nmt looks for the most frequent pair by going through all pairs it has not set aside, once per
merge. Here a heap finds it. Everything that decides which pair that is has been kept: how counts are
updated around a merge, when rare pairs are set aside, and when they are fetched back.

A piece can be spelt in two ways (`ab c` and `a bc`). When such a piece appears a second time in a word,
subword-nmt counts the neighbours of the first one again; so do we. It remembers for each pair how often it is in
each word; we look where it may be, and keep the difference between its memory and the truth, which is
nearly always nothing, in `Vocabulary.off`.

All words lie in one array of pieces, linked to their neighbours, so that a merge is done in all its places at
once. The few that need a closer look, of three like pieces in a row or of a piece that existed before, go word by
word.
"""

from __future__ import annotations

import heapq
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Pair = tuple[str, str]
Word = tuple[str, ...]
Counts = defaultdict[Pair, int]
Positions = NDArray[np.int32]
Heap = list[tuple[int, "Latest"]]


GONE = -1
FEW = 48  # places up to which plain Python is quicker than numpy
FINAL = 0x200000  # added to the code of a word's last letter; beyond all of Unicode


class Latest(tuple[str, str]):
    """A pair that sorts the other way round, so that of equally frequent pairs a heap gives the last one first."""

    __slots__ = ()
    __lt__ = tuple.__gt__


def learn_merges(
    vocabulary: Vocabulary, merges: int, min_frequency: int, advance: Callable[[int], None] = lambda _: None
) -> list[Pair]:
    """The merges of a vocabulary, in order; fewer than `merges` where pairs become rare. Its words end up merged."""
    counts = vocabulary.counts
    if not counts:
        return []
    aside = counts.copy()  # all counts as last seen; `counts` holds the frequent ones
    threshold = max(counts.values()) / 10
    heap = heap_of(counts)
    found: list[Pair] = []
    for number in range(merges):
        best = most_frequent(heap, counts)
        if best is None or (number and counts[best] < threshold):
            set_aside(counts, counts.keys(), aside, threshold)
            threshold = max(aside.values()) * number / (number + 10000.0)
            vocabulary.counts = counts = fetched_back(aside, threshold)
            heap = heap_of(counts)
            best = most_frequent(heap, counts)
        if best is None or counts[best] < min_frequency:
            break
        found.append(best)
        for pair in vocabulary.merge(best):
            if counts[pair] >= threshold:  # below it, a pair's turn comes only when all counts are looked through again
                heapq.heappush(heap, (-counts[pair], Latest(pair)))
        counts[best] = 0
        vocabulary.touched.add(best)
        if number == 0:
            set_aside(counts, counts.keys(), aside, threshold)
        elif number % 100 == 0:  # what was not touched since was frequent then and still is
            set_aside(counts, vocabulary.touched, aside, threshold)
            vocabulary.touched.clear()
        advance(1)
    return found


def heap_of(counts: Counts) -> Heap:
    """A heap whose first is the most frequent pair, and of several the last in order."""
    heap = [(-count, Latest(pair)) for pair, count in counts.items()]
    heapq.heapify(heap)
    return heap


def most_frequent(heap: Heap, counts: Counts) -> Pair | None:
    """The most frequent pair. Entries whose pair has become rarer are put back with its count of now."""
    while heap:
        negative, entry = heap[0]
        now = counts.get(entry)
        if now == -negative:
            return (entry[0], entry[1])
        if now is None or now > -negative:  # set aside, or a newer entry stands higher
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (-now, entry))
    return None


def set_aside(counts: Counts, pairs: Iterable[Pair], aside: Counts, threshold: float) -> None:
    """Take those of `pairs` that are under the threshold out of `counts`.

    A negative count is that of a pair set aside before: a change since.
    """
    rare = [(pair, counts[pair]) for pair in pairs if pair in counts and counts[pair] < threshold]
    for pair, count in rare:
        del counts[pair]
        if count < 0:
            aside[pair] += count
        else:
            aside[pair] = count


def fetched_back(aside: Counts, threshold: float) -> Counts:
    """The counts that are frequent again; what stays aside stays as it is, but that a negative count is doubled."""
    counts: Counts = defaultdict(int)
    counts.update((pair, count) for pair, count in aside.items() if count >= threshold)
    for pair in [pair for pair, count in aside.items() if count < 0 and count < threshold]:
        aside[pair] *= 2  # as subword-nmt does: a copy of it is added to itself
    return counts


class Vocabulary:
    """Words as linked pieces in arrays, with the counts of neighbouring pairs and where to look for each."""

    def __init__(self, words: Iterable[tuple[str, int]]) -> None:
        texts, frequencies = [], []
        for text, frequency in words:
            texts.append(text)
            frequencies.append(frequency)
        self.frequencies = np.array(frequencies, np.int64)
        self.counts: Counts = defaultdict(int)
        self.places: defaultdict[Pair, bytes] = defaultdict(
            bytes
        )  # positions where its left piece may be; small as bytes
        self.off: defaultdict[Pair, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
        self.merged: set[Pair] = set()
        self.late: set[int] = set()  # words in which a pair came up after its turn
        self.touched: set[Pair] = set()  # pairs whose count has changed since the rare ones were set aside
        lengths = np.array([len(text) for text in texts], np.int64)
        self.starts = np.cumsum(lengths) - lengths
        letters = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32).astype(np.int64)
        letters[self.starts + lengths - 1] += FINAL
        seen = np.zeros(2 * FINAL, np.bool_)
        seen[letters] = True
        kinds = np.flatnonzero(seen).tolist()
        self.names = [chr(kind) if kind < FINAL else chr(kind - FINAL) + "</w>" for kind in kinds]
        self.ids = {name: number for number, name in enumerate(self.names)}
        size = len(letters)
        self.piece = (np.cumsum(seen, dtype=np.int32) - 1)[
            letters
        ]  # at each position; GONE where it was joined to the one before
        self.word = np.repeat(np.arange(len(texts), dtype=np.int32), lengths)
        self.before = np.arange(-1, size - 1, dtype=np.int32)
        self.after = np.arange(1, size + 1, dtype=np.int32)
        self.mark = np.zeros(size, np.bool_)
        self.before[self.starts] = GONE
        self.after[self.starts + lengths - 1] = GONE
        self.count_pairs()

    def count_pairs(self) -> None:
        """Find all pairs of neighbours, how often they occur, and where."""
        left = np.flatnonzero(self.after >= 0).astype(np.int32)
        if not len(left):
            return
        small = np.uint16 if len(self.names) < 2**16 else np.uint32  # numpy sorts 16 bits in linear time
        order = np.lexsort((self.piece[left + 1].astype(small), self.piece[left].astype(small)))
        left = left[order]
        pairs = self.piece[left], self.piece[left + 1]
        begins = np.flatnonzero(np.append(True, (np.diff(pairs[0]) != 0) | (np.diff(pairs[1]) != 0)))
        totals = np.add.reduceat(self.frequencies[self.word[left]], begins).tolist()
        for begin, total, places in zip(begins.tolist(), totals, np.split(left, begins[1:]), strict=True):
            pair = self.names[pairs[0][begin]], self.names[pairs[1][begin]]
            self.counts[pair] = total
            self.places[pair] = places.tobytes()

    def segments(self) -> Iterator[Word | None]:
        """How applying the merges splits each word, in order; None where that has to be worked out.

        Learning applies each merge once, in turn; applying them takes the earliest that fits, again and again.
        The two part only where a merge brings up a pair whose turn is over.
        """
        left = np.flatnonzero(self.piece >= 0)
        pieces = [self.names[number] for number in self.piece[left].tolist()]
        ends = np.cumsum(np.bincount(self.word[left], minlength=len(self.starts))).tolist()
        for number, (start, end) in enumerate(pairwise([0, *ends])):
            word = pieces[start:end]
            yield None if number in self.late else (*word[:-1], word[-1].removesuffix("</w>"))

    def merge(self, pair: Pair) -> set[Pair]:
        """Join `pair` wherever it stands. Returns the pairs that became more frequent."""
        first, second = (self.ids[name] for name in pair)
        joined = pair[0] + pair[1]
        self.merged.add(pair)
        off = self.off.pop(pair, None)
        places = np.unique(np.frombuffer(self.places.pop(pair, b""), np.int32))
        places = places[(self.piece[places] == first) & (self.after[places] >= 0)]
        places = places[self.piece[self.after[places]] == second]
        tangled = places  # in words that need a closer look
        if joined not in self.ids:
            self.ids[joined] = len(self.names)
            self.names.append(joined)
            if not off:
                tangled = self.overlapping(places) if first == second else places[:0]
        more: set[Pair] = set()
        times = defaultdict(int, off or {})
        for number in self.word[tangled].tolist():
            times[number] += 1
        for number, count in times.items():
            if count > 0:
                self.merge_word(pair, number, more)
        if len(tangled) < len(places):
            self.merge_everywhere(pair, np.setdiff1d(places, tangled) if len(tangled) else places, more)
        return more

    def overlapping(self, places: Positions) -> Positions:
        """Those of the places of a pair of like pieces that are in words with three of them in a row."""
        self.mark[places] = True
        words = self.word[places[self.mark[self.after[places]]]]
        self.mark[places] = False
        return places[np.isin(self.word[places], words)] if len(words) else places[:0]

    def merge_everywhere(self, pair: Pair, places: Positions, more: set[Pair]) -> None:
        """Join two pieces, at all `places` of the first, into one that is new."""
        piece, before, after = self.piece, self.before, self.after
        first, second = pair
        joined = first + second
        seconds = after[places]
        lefts, rights = before[places], after[seconds]
        weights = self.frequencies[self.word[places]]
        has_left, has_right = lefts >= 0, rights >= 0
        self.mark[places] = True
        followed = self.mark[rights] & has_right  # by another occurrence
        self.mark[places] = False
        # The pair between two occurrences is counted with the second of them.
        on_left = list(self.grouped(lefts, weights, has_left, lefts))
        on_right = list(self.grouped(rights, weights, has_right & ~followed, places))
        for name, weight, _ in on_left:
            self.less(name, first, weight)
        for name, weight, _ in on_right:
            self.less(second, name, weight)
        piece[places], piece[seconds] = self.ids[joined], GONE
        after[places] = rights
        before[rights[has_right]] = places[has_right]
        if followed.any():  # then some have another neighbour now
            lefts = before[places]
            on_left = list(self.grouped(lefts, weights, has_left, lefts))
        more.update(self.added((name, joined), weight, found) for name, weight, found in on_left)
        more.update(self.added((joined, name), weight, found) for name, weight, found in on_right)

    def grouped(
        self, where: Positions, weights: NDArray[np.int64], chosen: NDArray[np.bool_], places: Positions
    ) -> Iterator[tuple[str, int, bytes]]:
        """For each distinct piece at the `chosen` of `where`: its name, its weight, and its part of `places`."""
        pieces, weights, places = self.piece[where[chosen]], weights[chosen], places[chosen]
        if len(pieces) < FEW:
            groups: dict[int, tuple[list[int], list[int]]] = {}
            for kind, weight, place in zip(pieces.tolist(), weights.tolist(), places.tolist(), strict=True):
                group = groups.setdefault(kind, ([], []))
                group[0].append(weight)
                group[1].append(place)
            for kind, (heavy, found) in groups.items():
                yield self.names[kind], sum(heavy), array("i", found).tobytes()
            return
        order = np.argsort(pieces, kind="stable")
        pieces, places = pieces[order], places[order]
        begins = np.flatnonzero(np.concatenate([[True], pieces[1:] != pieces[:-1]]))
        totals = np.add.reduceat(weights[order], begins).tolist()
        ends = [*begins[1:].tolist(), len(places)]
        for kind, total, begin, end in zip(pieces[begins].tolist(), totals, begins.tolist(), ends, strict=True):
            yield self.names[kind], total, places[begin:end].tobytes()

    def less(self, left: str, right: str, weight: int) -> None:
        """Count fewer occurrences of a pair."""
        self.counts[left, right] -= weight
        self.touched.add((left, right))

    def added(self, pair: Pair, weight: int, places: bytes) -> Pair:
        """Count new occurrences of a pair."""
        self.counts[pair] += weight
        self.touched.add(pair)
        self.places[pair] += places
        return pair

    def merge_word(self, pair: Pair, number: int, more: set[Pair]) -> None:
        """Join `pair` in one word, with all that subword-nmt does there."""
        first, second = pair
        joined, frequency = first + second, int(self.frequencies[number])
        where = self.positions(number)
        old = [self.names[self.piece[place]] for place in where]
        new: list[str] = []
        kept: list[int] = []  # positions of `new`
        fresh: set[int] = set()  # where in `new` the piece was made just now
        last, place = len(old) - 1, 0
        while place <= last:
            kept.append(where[place])
            if old[place] != first or place == last or old[place + 1] != second:
                new.append(old[place])
                place += 1
                continue
            fresh.add(len(new))
            new.append(joined)
            if place:
                self.gone(old[place - 1], first, number, pair)
            # The pair after this one goes too, unless it is also the pair before the next occurrence.
            if place < last - 1 and not (old[place + 2] == first and place < last - 2 and old[place + 3] == second):
                self.gone(second, old[place + 2], number, pair)
            place += 2
        self.relink(where, kept, new)
        for place in range(len(new)):
            if new[place] != joined:
                continue
            neighbours = []
            if place:
                neighbours.append((place - 1, place in fresh or place - 1 in fresh))
            if place < len(new) - 1 and new[place + 1] != joined:
                neighbours.append((place, place in fresh))
            for left, real in neighbours:
                found = (new[left], new[left + 1])
                if found in self.merged:
                    self.late.add(number)
                if not real:  # it was counted before
                    self.off[found][number] += 1
                more.add(self.added(found, frequency, array("i", [kept[left]] if real else []).tobytes()))

    def gone(self, left: str, right: str, number: int, merged: Pair) -> None:
        """Count one occurrence less. The merged pair itself is forgotten by now: what overlaps it falls below zero."""
        self.less(left, right, int(self.frequencies[number]))
        if (left, right) == merged:
            self.off[merged][number] -= 1

    def positions(self, number: int) -> list[int]:
        """Where the pieces of a word are."""
        found, place = [], int(self.starts[number])
        while place >= 0:
            found.append(place)
            place = int(self.after[place])
        return found

    def relink(self, where: list[int], kept: list[int], pieces: list[str]) -> None:
        """Put new pieces at the positions of a word that are kept."""
        self.piece[where] = GONE
        self.piece[kept] = [self.ids[piece] for piece in pieces]
        self.before[kept] = [GONE, *kept[:-1]]
        self.after[kept] = [*kept[1:], GONE]
