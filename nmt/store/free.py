"""Freeing disk: outputs that no kept run is made of."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nmt import runs
from nmt.store.manifest import key_of
from nmt.store.plan import STAGES, work_folder
from nmt.store.store import Store, remove
from nmt.store.unfinished import Unfinished, unfinished
from nmt.store.unfinished import needed as needed_by


class Freed(NamedTuple):
    """What was kept, what was removed (or would be), and the bytes of that."""

    runs: list[str]
    unfinished: list[Unfinished]
    folders: list[Path]
    size: int


def free(data: Path, keep: int, dry_run: bool, unfinished_too: bool = False) -> Freed:
    """Remove stage outputs that neither the `keep` most recent runs nor unfinished trainings need.

    A run that is removed loses its `result.json` too: what is listed can always be used. Nothing is removed
    while a run uses the store. Trainings that were stopped stay, days of work as they may be, unless they are
    to go too.
    """
    store = Store(data / "store")
    with store.in_use(alone=True):
        return free_alone(store, keep, dry_run, [] if unfinished_too else unfinished(store))


def free_alone(store: Store, keep: int, dry_run: bool, going_on: list[Unfinished]) -> Freed:
    """What `free` does once nobody else uses the store."""
    by_age = sorted(runs.names(), key=lambda name: (runs.folder(name) / "result.json").stat().st_mtime)
    kept = by_age[len(by_age) - min(keep, len(by_age)) :]
    needed = {output for name in kept for output in outputs(store, runs.read(name).stage_keys)}
    needed |= {output for one in going_on for output in needed_by(store, one)}
    unneeded = [
        folder
        for stage in STAGES
        for folder in sorted((store.root / stage.name).glob("*"))
        if (stage.name, folder.name) not in needed
    ]
    stale = [runs.folder(name) for name in by_age if name not in kept]
    size = sum(disk_use(folder) for folder in unneeded + stale)
    if not dry_run:
        for folder in stale + unneeded:  # results first: a run without outputs must not be listed
            remove(folder)
    return Freed(kept, going_on, unneeded + stale, size)


def outputs(store: Store, keys: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The folders a run is made of, with the one its training would go on in."""
    for stage, key in keys.items():
        yield stage, key
        manifest = store.find(stage, key) if stage == "train" else None
        if manifest:
            name = work_folder(key_of(manifest))
            yield from ((stage, folder.name) for folder in (store.root / stage).glob(f"{name}*"))


def disk_use(folder: Path) -> int:
    """Bytes that removing a folder gives back; files that live on elsewhere by a hard link give nothing."""
    found = (os.lstat(Path(place, name)) for place, _, names in os.walk(folder) for name in names)
    return sum(status.st_size for status in found if status.st_nlink == 1)
