"""How training scales over Horovod ranks: the same updates made by one rank with one thread, and by two with one each.

    python bench/scaling.py [--turns 9] [--precision float32] [--no-shared-memory]

Updates of two sizes: of two batches of 4,096 tokens, and of six, close to the 25,000 tokens an update has in the paper
on the Transformer. One rank accumulates them all, two do half each. Beside them, what the machine itself allows: two
trainings that have nothing to do with each other, each of half the batches.

A machine that others share is fast in one minute and slow in the next. So all are real trainings, started as the
pipeline starts them, that live side by side: one at a time goes on for some updates while the others stand still
(SIGSTOP), turn by turn. A turn's first update, in which the pause and cold caches fall, is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median
from typing import Any

from side import ONLY_STEPS, SIZES, corpus, job

from nmt.cluster.launch import run, training_command
from nmt.errors import TrainingError
from nmt.training.records import read

TINY = SIZES["tiny"]
PARTS = (2, 6)  # batches in an update
WARM = 12  # batches, in which TensorFlow compiles
TIMED = 24  # batches in a turn of one rank


class Paused:
    """A training that stands still but when it is let go on."""

    def __init__(self, folder: Path, work: Path, **settings: Any) -> None:
        self.job = job(folder, TINY, work, log_every=1, steps=10**6, threads=1, **ONLY_STEPS, **settings)
        self.over, self.failed = False, ""
        self.thread = threading.Thread(target=self.run)

    def __enter__(self) -> Paused:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.signal(signal.SIGCONT)
        self.over = True
        self.thread.join()

    def run(self) -> None:
        """The training itself, until it is over."""
        path = self.job.work / "job.json"
        path.write_text(self.job.model_dump_json(), encoding="utf-8")
        try:
            run(training_command(self.job, path), lambda _: None, lambda: "over" if self.over else None)
        except TrainingError as error:
            self.failed = str(error)

    def signal(self, which: signal.Signals) -> None:
        """Stop all ranks, or let them go on."""
        for sign in (self.job.work / "pulse").glob("rank-*.json"):
            with suppress(ProcessLookupError):
                os.kill(json.loads(sign.read_text())["pid"], which)

    def updates(self) -> list[dict[str, Any]]:
        """The updates made so far."""
        if self.failed:
            raise TrainingError(self.failed)
        return [row for row in read(self.job.work / "metrics.jsonl") if row["kind"] == "train"]


def turn(trainings: list[Paused], count: int) -> float:
    """Let trainings go on together for `count` updates and one before; their target pieces per second, added up."""
    before = [len(training.updates()) for training in trainings]
    for training in trainings:
        training.signal(signal.SIGCONT)
    while any(len(t.updates()) <= done + count for t, done in zip(trainings, before, strict=True)):
        time.sleep(0.25)
    for training in trainings:
        training.signal(signal.SIGSTOP)
    speed = 0.0
    for training, done in zip(trainings, before, strict=True):
        first, *rows = training.updates()[done:]
        speed += sum(row["pieces_per_step"] for row in rows) / (rows[-1]["time"] - first["time"])
    return speed


def measure(folder: Path, place: Path, parts: int, turns: int, settings: dict[str, Any]) -> dict[str, Any]:
    """One rank, two ranks, and two trainings apart, in turn; the medians of what two are to one."""
    with ExitStack() as stack:

        def training(name: str, **how: Any) -> Paused:
            found = stack.enter_context(Paused(folder, place / f"{parts}-{name}", **settings, **how))
            turn([found], WARM // parts)
            return found

        one = [training("one", accumulate=parts)]
        two = [training("two", ranks=2, accumulate=parts // 2)]
        apart = [training(name, accumulate=parts // 2) for name in ("left", "right")]
        precision = one[0].job.train.precision
        ratios: dict[str, list[float]] = {"two": [], "apart": []}
        for number in range(turns):
            alone, together, unrelated = (turn(side, TIMED // parts) for side in (one, two, apart))
            ratios["two"].append(together / alone)
            ratios["apart"].append(unrelated / alone)
            print(
                f"turn {number + 1}, {precision}, {TINY.tokens * parts:,} tokens an update: one rank {alone:,.0f} "
                f"pieces/s, two {together:,.0f}, {together / alone:.2f} x; two apart {unrelated / alone:.2f} x",
                flush=True,
            )
    return {"precision": precision, **ratios, **{f"{name}_median": median(found) for name, found in ratios.items()}}


def main() -> None:
    """Both sizes, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--precision", choices=["auto", "float32", "bfloat16"], default="auto", help="train.precision")
    how = argparse.BooleanOptionalAction
    parser.add_argument("--shared-memory", action=how, default=True, help="train.shared_memory")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    settings = {"precision": options.precision, "shared_memory": options.shared_memory}
    with tempfile.TemporaryDirectory(prefix="wmtflow-bench-") as place:
        folder = corpus(Path(place, "corpus"), TINY)
        found = {TINY.tokens * parts: measure(folder, Path(place), parts, options.turns, settings) for parts in PARTS}
    for tokens, figures in found.items():
        print(
            f"{figures['precision']}, updates of {tokens:,} tokens: two ranks are {figures['two_median']:.2f} x one, "
            f"two trainings apart {figures['apart_median']:.2f} x; the medians of {options.turns} turns"
        )
    if options.json:
        options.json.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
