"""Checkpoints: everything a training needs to go on as if it had never stopped.

    checkpoints/step-00000500/
        weights.index, weights.data-00000-of-00001    weights and both of Adam's moments, TensorFlow's format
        state.json                                    step, data position, scores, patience; size and hash of the others

A folder is written under another name and renamed when complete. One that does not match its hashes is
passed over on loading, and the one before it is used.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from nmt.config import TrainSettings
from nmt.errors import TrainingError
from nmt.store.manifest import FileRecord, record
from nmt.store.store import remove, replace
from nmt.training.interval import Opened

STATE = "state.json"


class State(BaseModel):
    """What a checkpoint holds beside weights. Dropout masks follow from seed and step, so they need no state."""

    step: int = 0
    regular: bool = True  # due by its step, not by the clock or an evaluation
    epoch: int = 0
    group: int = 0
    seconds: float = 0.0  # spent training, over all sittings
    bleu: float | None = None  # on the dev set at this very step, if it was evaluated
    best_bleu: float | None = None
    best_step: int | None = None
    stale: int = 0  # evaluations since the best one
    opened: Opened = Opened()  # the updates since the last line of progress
    files: dict[str, FileRecord] = {}


def save(folder: Path, state: State, write: Callable[[str], Any], keep: int, keep_best: int = 0) -> Path:
    """Write a checkpoint by `write(prefix)` and `state`, then drop all but the newest and the best.

    The one before the newest always stays: should the machine fail now, the newest may not be whole.
    """
    final = folder / f"step-{state.step:08d}"
    temporary = folder / f".{final.name}.partial"
    for left_behind in folder.glob(".step-*"):  # by a kill while saving
        remove(left_behind)
    temporary.mkdir(parents=True)
    write(str(temporary / "weights"))
    files = {path.name: record(path) for path in sorted(temporary.iterdir()) if path.name != "checkpoint"}
    (temporary / "checkpoint").unlink(missing_ok=True)
    # Not pydantic's JSON: it writes an overflowed norm as null, which cannot be read back.
    text = json.dumps(state.model_copy(update={"files": files}).model_dump(), indent=1)
    (temporary / STATE).write_text(f"{text}\n", encoding="utf-8")
    for path in (*temporary.iterdir(), temporary):
        sync(path)
    replace(temporary, final)
    sync(folder)
    kept = {*last(folder, keep), *best(folder, keep_best), *listed(folder)[-2:]}
    for old in set(listed(folder)) - kept:
        remove(old)
    return final


def sync(path: Path) -> None:
    """Have the system put a file or folder on the disk, lest a power cut leave its name without its content."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def listed(folder: Path) -> list[Path]:
    """All checkpoints, oldest first."""
    return sorted(folder.glob("step-*"))


def last(folder: Path, count: int) -> list[Path]:
    """The newest checkpoint and the newest regular ones, oldest first: the same however fast the machine is."""
    *before, newest = listed(folder)
    regular = [path for path in before if (state := read_state(path)) and state.regular]
    return [*regular, newest][-count:]


def best(folder: Path, count: int) -> list[Path]:
    """The checkpoints with the best dev BLEU, best first, of equal ones the later; only those that were evaluated."""
    scored = [
        (state.bleu, state.step, path)
        for path in listed(folder)
        if (state := read_state(path)) and state.bleu is not None
    ]
    return [path for *_, path in sorted(scored, reverse=True)[:count]]


def to_average(folder: Path, settings: TrainSettings) -> list[Path]:
    """The checkpoints that the finished model is the mean of; an error if one that must be there is not, or not whole.

    A training that is over early has fewer than `average`; one that was made with a smaller `keep` has lost some.
    """
    of_last = settings.average_of == "last"
    chosen = (last if of_last else best)(folder, settings.average)
    states = [(path, read_state(path)) for path in chosen]
    damaged = [path.name for path, state in states if state is None or damage(path, state)]
    done = int(listed(folder)[-1].name.removeprefix("step-"))
    made = math.ceil(done / (settings.checkpoint_every if of_last else settings.eval_every))
    if damaged or len(chosen) < min(settings.average, made):
        trouble = f"{', '.join(damaged)} damaged" if damaged else f"only {len(chosen)} kept while training"
        raise TrainingError(
            f"train.average: {settings.average} checkpoints ({settings.average_of}) cannot be averaged: {trouble}. "
            "Ask for more train.steps, or for a smaller train.average."
        )
    return chosen


def newest(folder: Path, say: Callable[[str], None], at_most: int | None = None) -> tuple[Path, State] | None:
    """The newest whole checkpoint (not past step `at_most`) and its state; damaged ones are named and passed over."""
    there = listed(folder)
    for path in reversed(there):
        state = read_state(path)
        if state is not None and at_most is not None and state.step > at_most:
            continue
        wrong = "state.json cannot be read" if state is None else damage(path, state)
        if state is not None and wrong is None:
            return path, state
        instead = "there is none before it: beginning at step 0" if path == there[0] else "using the one before it"
        say(f"checkpoint {path.name} is damaged ({wrong}); {instead}")
    return None


def read_state(checkpoint: Path) -> State | None:
    """The state in a checkpoint's folder, if it can be read."""
    try:
        return State.model_validate(json.loads((checkpoint / STATE).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def damage(checkpoint: Path, state: State) -> str | None:
    """The first file that is not as it was written, or None."""
    for name, expected in state.files.items():
        path = checkpoint / name
        if not path.is_file() or record(path).sha256 != expected.sha256:
            return f"{name} is missing or altered"
    return None


def average(checkpoints: list[Path], names: list[str]) -> dict[str, NDArray[np.float32]]:
    """The mean of the named weights over some checkpoints."""
    import tensorflow as tf

    total: dict[str, NDArray[np.float64]] = {}
    for path in checkpoints:
        reader = tf.train.load_checkpoint(str(path / "weights"))
        for name in names:
            value = reader.get_tensor(tensor_name(name)).astype(np.float64)
            total[name] = total[name] + value if name in total else value
    return {name: (value / len(checkpoints)).astype(np.float32) for name, value in total.items()}


def tensor_name(weight: str) -> str:
    """What TensorFlow calls a weight inside a checkpoint whose root has a dictionary `weights`."""
    return f"weights/{weight.replace('.', '..').replace('/', '.S')}/.ATTRIBUTES/VARIABLE_VALUE"
