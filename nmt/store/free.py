"""Freeing disk: outputs that no kept run is made of."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from nmt import runs
from nmt.store.manifest import Key
from nmt.store.plan import STAGES, work_folder
from nmt.store.store import Store, remove


def free(data: Path, keep: int, dry_run: bool) -> tuple[list[str], list[Path], int]:
    """Remove stage outputs that the `keep` most recent runs do not need.

    Returns the runs kept, the folders removed (or that would be), and their size. A run that is removed
    loses its `result.json` too: what is listed can always be used. Nothing is removed while a run uses the
    store.
    """
    store = Store(data / "store")
    with store.in_use(alone=True):
        return free_alone(store, keep, dry_run)


def free_alone(store: Store, keep: int, dry_run: bool) -> tuple[list[str], list[Path], int]:
    """What `free` does once nobody else uses the store."""
    by_age = sorted(runs.names(), key=lambda name: (runs.folder(name) / "result.json").stat().st_mtime)
    kept = by_age[len(by_age) - min(keep, len(by_age)) :]
    needed = {output for name in kept for output in outputs(store, runs.read(name).stage_keys)}
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
    return kept, unneeded + stale, size


def outputs(store: Store, keys: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The folders a run is made of, with the one its training would go on in."""
    for stage, key in keys.items():
        yield stage, key
        manifest = store.find(stage, key) if stage == "train" else None
        if manifest:
            name = work_folder(Key.model_validate(manifest.model_dump(include=set(Key.model_fields))))
            yield from ((stage, folder.name) for folder in (store.root / stage).glob(f"{name}*"))


def disk_use(folder: Path) -> int:
    """Bytes that removing a folder gives back; files that live on elsewhere by a hard link give nothing."""
    found = (os.lstat(Path(place, name)) for place, _, names in os.walk(folder) for name in names)
    return sum(status.st_size for status in found if status.st_nlink == 1)
