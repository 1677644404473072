"""Learning BPE merges: subword-nmt's algorithm and its very merges, without its search.

subword-nmt looks for the most frequent pair by going through all pairs it has not set aside, once per
merge. Here a heap finds it. Everything that decides which pair that is has been kept: how counts are
updated around a merge, when rare pairs are set aside, and when they are fetched back.

A piece can be spelt in two ways (`ab c` and `a bc`). When such a piece appears a second time in a word,
subword-nmt counts the neighbours of the first one again; so do we. It remembers for each pair how often it is in
each word; we keep only in which words it may be (4 bytes each instead of some 60) and look, and
keep the difference between its memory and the truth, which is nearly always nothing, in `Vocabulary.off`.
"""

from __future__ import annotations

import heapq
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

Pair = tuple[str, str]
Word = tuple[str, ...]
Counts = defaultdict[Pair, int]
Heap = list[tuple[int, "Latest"]]


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
            set_aside(counts, aside, threshold)
            vocabulary.counts = counts = aside.copy()
            threshold = max(counts.values()) * number / (number + 10000.0)
            set_aside(counts, aside, threshold)
            heap = heap_of(counts)
            best = most_frequent(heap, counts)
        if best is None or counts[best] < min_frequency:
            break
        found.append(best)
        for pair in vocabulary.merge(best):
            heapq.heappush(heap, (-counts[pair], Latest(pair)))
        counts[best] = 0
        if number % 100 == 0:
            set_aside(counts, aside, threshold)
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


def set_aside(counts: Counts, aside: Counts, threshold: float) -> None:
    """Take the pairs under the threshold out of `counts`. A negative one was set aside before and is a change since."""
    rare = [(pair, count) for pair, count in counts.items() if count < threshold]
    for pair, count in rare:
        del counts[pair]
        if count < 0:
            aside[pair] += count
        else:
            aside[pair] = count


class Vocabulary:
    """Words as sequences of pieces, with the counts of neighbouring pairs and where to look for each."""

    def __init__(self, words: Iterable[tuple[str, int]]) -> None:
        self.words: list[Word] = []
        self.frequencies = array("q")
        self.counts: Counts = defaultdict(int)
        self.places: defaultdict[Pair, array[int]] = defaultdict(lambda: array("i"))
        self.off: defaultdict[Pair, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
        self.merged: set[Pair] = set()
        self.late: set[int] = set()  # words in which a pair came up after its turn
        one: dict[str, str] = {}  # one string for each piece, however many words it is in
        for number, (text, frequency) in enumerate(words):
            pieces = (*text[:-1], text[-1] + "</w>")
            word = tuple(one.setdefault(piece, piece) for piece in pieces)
            self.words.append(word)
            self.frequencies.append(frequency)
            for pair in pairwise(word):
                self.counts[pair] += frequency
                self.places[pair].append(number)

    def segments(self) -> Iterator[Word | None]:
        """How applying the merges splits each word, in order; None where that has to be worked out.

        Learning applies each merge once, in turn; applying them takes the earliest that fits, again and again.
        The two part only where a merge brings up a pair whose turn is over.
        """
        for number, word in enumerate(self.words):
            yield None if number in self.late else (*word[:-1], word[-1].removesuffix("</w>"))

    def merge(self, pair: Pair) -> set[Pair]:
        """Join `pair` wherever it stands. Returns the pairs that became more frequent."""
        first, second = pair
        joined = first + second
        self.merged.add(pair)
        off = self.off.pop(pair, None)
        words, frequencies, counts, places = self.words, self.frequencies, self.counts, self.places
        more: set[Pair] = set()
        numbers = set(places.pop(pair, ()))
        if off:
            numbers.update(off)
        merged = self.merged
        for number in numbers:
            old = words[number]
            place = position(old, first, second)
            if place < 0 and not off:
                continue
            rest = old[place + 2 :]
            if off or first == second or joined in old or position(rest, first, second) >= 0:
                times = sum(neighbours == pair for neighbours in pairwise(old)) + (off[number] if off else 0)
                if times > 0:
                    self.merge_word(pair, number, more)
                continue
            # Nearly always: one occurrence, and nothing that could be counted twice.
            frequency = frequencies[number]
            words[number] = (*old[:place], joined, *rest)
            if place:
                counts[old[place - 1], first] -= frequency
                before = (old[place - 1], joined)
                counts[before] += frequency
                places[before].append(number)
                more.add(before)
                if before in merged:
                    self.late.add(number)
            if rest:
                counts[second, rest[0]] -= frequency
                after = (joined, rest[0])
                counts[after] += frequency
                places[after].append(number)
                more.add(after)
                if after in merged:
                    self.late.add(number)
        return more

    def merge_word(self, pair: Pair, number: int, more: set[Pair]) -> None:
        """Join `pair` in one word; counts and places follow."""
        first, second = pair
        joined = first + second
        old = self.words[number]
        new: list[str] = []
        fresh: set[int] = set()  # where in `new` the piece was made just now
        last, place = len(old) - 1, 0
        while place <= last:
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
        self.words[number] = tuple(new)
        for place in range(len(new)):
            if new[place] != joined:
                continue
            if place:
                more.add(self.added(new[place - 1], joined, number, place in fresh or place - 1 in fresh))
            if place < len(new) - 1 and new[place + 1] != joined:
                more.add(self.added(joined, new[place + 1], number, place in fresh))

    def gone(self, left: str, right: str, number: int, merged: Pair) -> None:
        """Count one occurrence less. The merged pair itself is forgotten by now: what overlaps it falls below zero."""
        self.counts[left, right] -= self.frequencies[number]
        if (left, right) == merged:
            self.off[merged][number] -= 1

    def added(self, left: str, right: str, number: int, real: bool) -> Pair:
        """Count one more occurrence of a pair in a word; one that is not `real` was counted before."""
        pair = (left, right)
        if pair in self.merged:
            self.late.add(number)
        self.counts[pair] += self.frequencies[number]
        if real:
            self.places[pair].append(number)
        else:
            self.off[pair][number] += 1
        return pair


def position(word: Word, first: str, second: str) -> int:
    """Where `first` is followed by `second`; -1 if nowhere."""
    if first not in word or second not in word:
        return -1
    place = word.index(first)
    end = len(word) - 1
    while place < end:
        if word[place + 1] == second and word[place] == first:
            return place
        place += 1
    return -1
