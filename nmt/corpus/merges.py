"""Learning BPE merges: subword-nmt's algorithm and its very merges, without its search.

subword-nmt looks for the most frequent pair by going through all pairs it has not set aside, once per
merge. Here a heap finds it. Everything that decides which pair that is has been kept: how counts are
updated around a merge (where a piece can be spelt in two ways they are not a plain recount), when rare
pairs are set aside, and when they are fetched back.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import pairwise

Pair = tuple[str, str]
Word = tuple[str, ...]
Counts = defaultdict[Pair, int]
Places = defaultdict[Pair, dict[int, int]]  # pair → words it is in, and how often


class Latest(tuple[str, str]):
    """A pair that sorts the other way round, so that of equally frequent pairs a heap gives the last one first."""

    __slots__ = ()
    __lt__ = tuple.__gt__


def learn_merges(
    words: Mapping[str, int], merges: int, min_frequency: int, advance: Callable[[int], None] = lambda _: None
) -> list[Pair]:
    """The merges of a vocabulary with counts, most frequent first; fewer than `merges` where pairs become rare."""
    vocabulary: list[Word] = [(*word[:-1], word[-1] + "</w>") for word in words]
    frequencies = list(words.values())
    counts, places = count_pairs(vocabulary, frequencies)
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
            counts = aside.copy()
            top = max(counts.values())
            threshold = top * number / (number + 10000.0)
            set_aside(counts, aside, threshold)
            heap = heap_of(counts)
            best = most_frequent(heap, counts)
        if best is None or counts[best] < min_frequency:
            break
        found.append(best)
        for pair in merge(best, vocabulary, frequencies, counts, places):
            heapq.heappush(heap, (-counts[pair], Latest(pair)))
        counts[best] = 0
        if number % 100 == 0:
            set_aside(counts, aside, threshold)
        advance(1)
    return found


def count_pairs(vocabulary: list[Word], frequencies: list[int]) -> tuple[Counts, Places]:
    """How often each pair of neighbours occurs, and in which words."""
    counts: Counts = defaultdict(int)
    places: Places = defaultdict(dict)
    for number, (word, frequency) in enumerate(zip(vocabulary, frequencies, strict=True)):
        for pair in pairwise(word):
            counts[pair] += frequency
            where = places[pair]
            where[number] = where.get(number, 0) + 1
    return counts, places


def heap_of(counts: Counts) -> list[tuple[int, Latest]]:
    """A heap whose first is the most frequent pair, and of several the last in order."""
    heap = [(-count, Latest(pair)) for pair, count in counts.items()]
    heapq.heapify(heap)
    return heap


def most_frequent(heap: list[tuple[int, Latest]], counts: Counts) -> Pair | None:
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


def merge(pair: Pair, vocabulary: list[Word], frequencies: list[int], counts: Counts, places: Places) -> set[Pair]:
    """Join `pair` wherever it stands, counts and places with it. Returns the pairs that became more frequent."""
    first, second = pair
    joined = first + second
    more: set[Pair] = set()
    where = places.pop(pair)
    counts[pair] = 0
    for number, times in where.items():
        if times < 1:
            continue
        old, frequency = vocabulary[number], frequencies[number]
        new, last, place = [], len(old) - 1, 0
        while place <= last:
            if old[place] != first or place == last or old[place + 1] != second:
                new.append(old[place])
                place += 1
                continue
            new.append(joined)
            if place:
                fewer(old[place - 1], first, number, frequency, counts, places)
            # The pair after this one goes too, unless it is also the pair before the next occurrence.
            if place < last - 1 and not (old[place + 2] == first and place < last - 2 and old[place + 3] == second):
                fewer(second, old[place + 2], number, frequency, counts, places)
            place += 2
        vocabulary[number] = tuple(new)
        end = len(new) - 1
        for place, piece in enumerate(new):
            # A piece that was spelt this way before is counted again, as subword-nmt does.
            if piece != joined:
                continue
            if place:
                more.add(added(new[place - 1], piece, number, frequency, counts, places))
            if place < end and new[place + 1] != joined:
                more.add(added(piece, new[place + 1], number, frequency, counts, places))
    places.pop(pair, None)
    return more


def fewer(left: str, right: str, number: int, frequency: int, counts: Counts, places: Places) -> None:
    """One occurrence of a pair in a word is gone."""
    pair = (left, right)
    counts[pair] -= frequency
    where = places[pair]
    where[number] = where.get(number, 0) - 1
    if not where[number]:
        del where[number]


def added(left: str, right: str, number: int, frequency: int, counts: Counts, places: Places) -> Pair:
    """One more occurrence of a pair in a word."""
    pair = (left, right)
    counts[pair] += frequency
    where = places[pair]
    where[number] = where.get(number, 0) + 1
    if not where[number]:
        del where[number]
    return pair
