"""Trainings that were stopped before their end: what is kept of them, and why a new one does not go on with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nmt import atomic
from nmt.store.manifest import Key, key_of
from nmt.store.plan import SHOWN, differences, shown, work_folder
from nmt.store.store import Store

KEY = "key.json"  # in a work folder: what the training there is of


class Unfinished(NamedTuple):
    """A work folder with checkpoints, the newest of them, and what it is of, where that can be read."""

    folder: Path
    step: int
    key: Key | None


def unfinished(store: Store) -> list[Unfinished]:
    """The trainings that have gone further than any output that was made of them."""
    finished: dict[str, int] = {}
    for manifest in store.manifests("train"):
        name = work_folder(key_of(manifest))
        finished[name] = max(finished.get(name, 0), manifest.counts.get("steps", 0))
    found = []
    for folder in sorted((store.root / "train").glob("work-*")):
        steps = [int(path.name.removeprefix("step-")) for path in (folder / "checkpoints").glob("step-*")]
        name = "-".join(folder.name.split("-")[:2])  # without the steps of one that was asked for fewer
        if max(steps, default=0) > finished.get(name, 0):
            found.append(Unfinished(folder, max(steps), read(folder)))
    return found


def read(folder: Path) -> Key | None:
    """What the training in a work folder is of."""
    try:
        return Key.model_validate_json((folder / KEY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def begin(store: Store, folder: Path, key: Key) -> str | None:
    """Note what a training is of. If it begins at step 0 beside unfinished ones: why it goes on with none of them."""
    others = unfinished(store)
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write_text(folder / KEY, key.model_dump_json(indent=1) + "\n")
    if not others or any((folder / "checkpoints").glob("step-*")):
        return None
    told = "; ".join(f"{one.folder.name} (step {one.step:,}): {why_not(one.key, key)}" for one in others)
    return f"beginning at step 0. Unfinished and left as they are, for they differ: {told}"


def why_not(before: Key | None, key: Key) -> str:
    """How a training differs from another."""
    if before is None:
        return "by settings, data or code"
    parts = [f"{name} {shown(old)} → {shown(new)}" for name, old, new in differences(before, key)]
    parts += [f"output of {stage}" for stage, digest in key.inputs.items() if before.inputs.get(stage) != digest]
    return ", ".join(parts[:SHOWN] + ([f"and {len(parts) - SHOWN} more"] if len(parts) > SHOWN else []))


def needed(store: Store, one: Unfinished) -> Iterator[tuple[str, str]]:
    """The outputs without which a training cannot go on at once, as (stage, key); its own folder first."""
    yield "train", one.folder.name
    waiting = list(one.key.inputs.items()) if one.key else []
    while waiting:
        stage, digest = waiting.pop()
        yield stage, digest
        manifest = store.find(stage, digest)
        waiting += manifest.inputs.items() if manifest else []
