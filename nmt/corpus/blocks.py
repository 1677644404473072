"""Work on large text files by blocks of lines, on all cores.

A block is a byte range that holds whole lines, so a worker reads its own part of a file and only results
travel between processes. Results come back in order, and few are under way at a time, so memory stays flat
however long the files are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nmt import cores
from nmt.corpus.text import not_parallel

Result = TypeVar("Result")

LINES = 20_000  # in a block: some 3 MB of text
READ = 8 * 1024 * 1024
SMALL = 4 * 1024 * 1024  # bytes of text below which starting processes costs more than they save
NEWLINE = 10


@dataclass(frozen=True)
class Block:
    """Some whole lines of a file."""

    path: Path
    start: int
    end: int
    lines: int

    def read(self) -> bytes:
        """The lines as they stand in the file, without the last newline."""
        with self.path.open("rb") as file:
            file.seek(self.start)
            return file.read(self.end - self.start).removesuffix(b"\n")

    def text(self) -> list[str]:
        """The lines as text; what is not UTF-8 becomes U+FFFD."""
        return self.read().decode("utf-8", errors="replace").split("\n") if self.lines else []


def blocks(path: Path, lines: int = LINES) -> list[Block]:
    """A file as blocks of `lines` lines, the last one shorter. A missing last newline is not a missing line."""
    found: list[Block] = []
    start = position = count = 0
    last = b"\n"
    with path.open("rb") as file:
        while chunk := file.read(READ):
            ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == NEWLINE)
            for end in (ends[lines - 1 - count % lines :: lines] + position + 1).tolist():
                found.append(Block(path, start, end, lines))
                start = end
            count += len(ends)
            position += len(chunk)
            last = chunk[-1:]
    if start < position:
        found.append(Block(path, start, position, count % lines + (last != b"\n")))
    return found


def paired(source: Path, target: Path, lines: int = LINES) -> list[tuple[Block, Block]]:
    """The blocks of two parallel files, side by side; files of different length are an error."""
    left, right = blocks(source, lines), blocks(target, lines)
    if [block.lines for block in left] != [block.lines for block in right]:
        raise not_parallel(source, target)
    return list(zip(left, right, strict=True))


@dataclass(frozen=True)
class Elsewhere:
    """Processes that are not ours: where to send work, and how many there are."""

    executor: Executor
    count: int


_elsewhere: ContextVar[Elsewhere | None] = ContextVar("elsewhere", default=None)


@contextmanager
def elsewhere(executor: Executor, count: int) -> Iterator[None]:
    """Inside the block, `Workers` sends its work to `executor`, which does `count` things at a time."""
    before = _elsewhere.set(Elsewhere(executor, count))
    try:
        yield
    finally:
        _elsewhere.reset(before)


class Workers:
    """Processes that stay for one stage. With one worker, or little to do, the work is done right here."""

    def __init__(self, workers: int, files: Iterable[Path]) -> None:
        other = _elsewhere.get()
        small = sum(path.stat().st_size for path in files) < SMALL
        self.count = other.count if other else 1 if small else workers or cores.available()
        self.pool: Executor | None = other.executor if other else None
        self.owned = other is None and self.count > 1
        if self.owned:
            # forkserver: a fork of a process with threads (Prefect's are many) can deadlock.
            self.pool = ProcessPoolExecutor(self.count, mp_context=get_context("forkserver"))

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool and self.owned:
            self.pool.shutdown(cancel_futures=True)

    def map(self, work: Callable[..., Result], jobs: Iterable[tuple[Any, ...]]) -> Iterator[Result]:
        """`work(*job)` for each job, in order."""
        if self.pool is None:
            yield from (work(*job) for job in jobs)
            return
        under_way: deque[Future[Result]] = deque()
        for job in jobs:
            under_way.append(self.pool.submit(work, *job))
            if len(under_way) > 2 * self.count:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
