"""Checkpoints: everything a training needs to go on as if it had never stopped.

    checkpoints/step-00000500/
        weights.index, weights.data-00000-of-00001    weights and both of Adam's moments, TensorFlow's format
        state.json                                    step, data position, scores, patience; size and hash of the others

A folder is written under another name and renamed when complete. One that does not match its hashes is
passed over on loading, and the one before it is used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

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
    """Write a checkpoint by `write(prefix)` and `state`, then drop all but the newest and the best."""
    final = folder / f"step-{state.step:08d}"
    temporary = folder / f".{final.name}.partial"
    remove(temporary)
    temporary.mkdir(parents=True)
    write(str(temporary / "weights"))
    files = {path.name: record(path) for path in sorted(temporary.iterdir()) if path.name != "checkpoint"}
    (temporary / "checkpoint").unlink(missing_ok=True)
    with (temporary / STATE).open("w", encoding="utf-8") as file:
        file.write(state.model_copy(update={"files": files}).model_dump_json(indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    replace(temporary, final)
    for old in set(listed(folder)) - set(last(folder, keep)) - set(best(folder, keep_best)):
        remove(old)
    return final


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


def newest(folder: Path, say: Callable[[str], None], at_most: int | None = None) -> tuple[Path, State] | None:
    """The newest whole checkpoint (not past step `at_most`) and its state; damaged ones are named and passed over."""
    for path in reversed(listed(folder)):
        state = read_state(path)
        if state is not None and at_most is not None and state.step > at_most:
            continue
        wrong = "state.json cannot be read" if state is None else damage(path, state)
        if state is not None and wrong is None:
            return path, state
        say(f"checkpoint {path.name} is damaged ({wrong}); using the one before it")
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
