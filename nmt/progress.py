"""A progress bar for long work: shown on a terminal, silent anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


def nothing(count: int) -> None:
    """An `Advance` that shows nothing."""


def watched() -> bool:
    """Whether somebody sits at a terminal and sees the bars."""
    return sys.stderr.isatty()


@contextmanager
def progress(what: str, total: int | None, unit: str = "pairs") -> Iterator[Advance]:
    """Give a function to call, from any thread, with the number of units just done; bytes come with their rate."""
    if not watched():
        yield nothing
        return
    from rich import progress as rich
    from rich.console import Console

    amount = (
        (rich.DownloadColumn(), rich.TransferSpeedColumn())
        if unit == "bytes"
        else (rich.MofNCompleteColumn(), rich.TextColumn(unit))
    )
    columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), *amount, rich.TimeRemainingColumn())
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=total)
        yield lambda count: bars.advance(task, count)
