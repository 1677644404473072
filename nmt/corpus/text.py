r"""Reading and writing parallel text. The one place where two files are walked side by side.

A line ends at "\n" and nowhere else: CR, U+2028 and U+0085 stand inside lines of real corpora, and
Python's own `splitlines` would shift every pair after them. Bytes that are not UTF-8 become U+FFFD, and a
missing last newline is not a missing line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from nmt.errors import CorpusError

Pair = tuple[str, str]
Item = TypeVar("Item")

SPACES = re.compile(r"\s+")
# C0 and C1 controls that are not white space, and the byte-order mark: no part of any word.
CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff]")


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, without their newlines."""
    with path.open("rb") as file:
        for line in file:
            yield line.removesuffix(b"\n").decode("utf-8", errors="replace")


def read_pairs(source: Path, target: Path) -> Iterator[Pair]:
    """The lines of two parallel files, side by side; files of different length are an error."""
    try:
        yield from zip(read_lines(source), read_lines(target), strict=True)
    except ValueError:
        raise not_parallel(source, target) from None


def not_parallel(source: Path, target: Path) -> CorpusError:
    """The error about two files that should be parallel and are not."""
    counts = [count_lines(path) for path in (source, target)]
    return CorpusError(
        f"{source} and {target} are not parallel: line counts differ "
        f"({source.name} {counts[0]:,}; {target.name} {counts[1]:,}). Line n must translate line n."
    )


def count_lines(path: Path) -> int:
    """How many lines `read_lines` gives."""
    return sum(1 for _ in read_lines(path))


def fold(line: str) -> str:
    """Runs of white space as one space, control characters gone, ends trimmed."""
    return SPACES.sub(" ", CONTROLS.sub("", line)).strip()


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """`items` in lists of `size`, the last one shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
