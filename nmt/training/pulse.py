"""Signs of life: each rank says where it is, and whoever started them sees when nothing moves any more.

    pulse/rank-1.json    written every second by a thread of rank 1, also while the rank itself is waiting

A rank that waits for another still beats; one that was stopped, or that is stuck inside a library, does not. So
when all stand still, it can be told which one the others are waiting for.
"""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from nmt import atomic

READING, UPDATING, EVALUATING, SAVING, EXPORTING, STARTING = (
    "waiting for a batch",
    "in its update",
    "evaluating",
    "writing a checkpoint",
    "writing the finished model",
    "starting",
)
INTERVAL = 1.0  # seconds between beats
SILENT = 10.0  # seconds without a beat after which a rank does not answer


class Sign(BaseModel):
    """What a rank says of itself."""

    rank: int
    pid: int
    host: str
    step: int = 0
    doing: str = STARTING
    moves: int = 0
    beats: int = 0


class Pulse:
    """The pulse of this rank, for the time of a block."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.path = folder / f"rank-{rank}.json"
        self.sign = Sign(rank=rank, pid=os.getpid(), host=platform.node())
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True, name="pulse")

    def __enter__(self) -> Pulse:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()

    def at(self, step: int, doing: str) -> None:
        """Say that the rank has moved on."""
        self.sign = self.sign.model_copy(update={"step": step, "doing": doing, "moves": self.sign.moves + 1})

    def beat(self) -> None:
        """Write the sign, again and again, and once more at the end."""
        beats, ending = 0, False
        while not ending:
            ending = beats > 0 and self.stop.wait(INTERVAL)
            beats += 1
            with contextlib.suppress(OSError):  # a disk that is full for a moment must not silence a rank for good
                atomic.write_text(self.path, self.sign.model_copy(update={"beats": beats}).model_dump_json())


@dataclass
class Seen:
    """A rank's sign, and when it last changed by the watcher's own clock."""

    sign: Sign
    moved: float
    beaten: float


class Watch:
    """Looks at the pulses of all ranks."""

    def __init__(self, folder: Path, ranks: int, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder, self.ranks, self.limit, self.clock = folder, ranks, limit, clock
        self.began = self.looked = clock()
        self.seen: dict[int, Seen] = {}
        for old in folder.glob("rank-*"):  # of a training before
            old.unlink()

    @property
    def step(self) -> int:
        """How far the training is."""
        return max((seen.sign.step for seen in self.seen.values()), default=0)

    def look(self) -> str | None:
        """What is wrong, once nothing has moved for too long; else None."""
        now = self.clock()
        if (pause := now - self.looked) > SILENT:  # this process stood still itself, with its ranks perhaps (Ctrl-Z)
            self.began += pause
            for seen in self.seen.values():
                seen.moved, seen.beaten = seen.moved + pause, seen.beaten + pause
        self.looked = now
        for rank in range(self.ranks):
            self.read(rank, now)
        moved = max((seen.moved for seen in self.seen.values()), default=self.began)
        return self.verdict(now) if now - moved > self.limit else None

    def read(self, rank: int, now: float) -> None:
        """Take note of what a rank says."""
        try:
            sign = Sign.model_validate_json((self.folder / f"rank-{rank}.json").read_text(encoding="utf-8"))
        except (OSError, ValidationError):
            return
        before = self.seen.get(rank)
        if before is None:
            self.seen[rank] = Seen(sign, now, now)
            return
        if sign.moves != before.sign.moves:
            before.moved = now
        if sign.beats != before.sign.beats:
            before.beaten = now
        before.sign = sign

    def verdict(self, now: float) -> str:
        """Which ranks the others are waiting for."""
        missing = [f"rank {rank} has never said a word" for rank in range(self.ranks) if rank not in self.seen]
        silent = [
            f"{self.named(seen.sign)} does not answer any more; it was {place(seen.sign)}"
            for seen in self.seen.values()
            if now - seen.beaten > min(SILENT, self.limit)
        ]
        signs = [seen.sign for seen in self.seen.values()]
        behind = min(((sign.step, sign.doing == UPDATING) for sign in signs), default=None)
        last = [
            f"{self.named(sign)} is {place(sign)}" for sign in signs if (sign.step, sign.doing == UPDATING) == behind
        ]
        return f"nothing has moved for {self.limit:,.0f} seconds: " + "; ".join(missing or silent or last)

    @staticmethod
    def named(sign: Sign) -> str:
        """A rank by all that helps to find it."""
        return f"rank {sign.rank} (process {sign.pid} on {sign.host})"


def place(sign: Sign) -> str:
    """Where a rank is."""
    return f"{sign.doing} at step {sign.step:,}"
