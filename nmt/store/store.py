"""The store: `<root>/<stage>/<key>/` holds a stage's files and their manifest.

A folder is filled under another name and renamed when complete, so one that exists is whole. Whoever
makes a key holds its lock (`flock`: free at once when the holder dies), so two runs that want the same
output wait for each other instead of writing twice.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nmt.errors import RequestError, StoreError
from nmt.store import manifest as manifests
from nmt.store.manifest import Key, Manifest

Say = Callable[[str], None]


class Store:
    """Stage outputs below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, stage: str, key: str) -> Path:
        """Where an output is, or will be."""
        return self.root / stage / key

    def find(self, stage: str, key: str) -> Manifest | None:
        """The manifest of an output that exists, unchecked."""
        return manifests.read(self.folder(stage, key))

    def problem(self, manifest: Manifest, thorough: bool = False) -> str | None:
        """What is wrong with an output's files, or None."""
        return manifests.problem(self.folder(manifest.stage, manifest.key), manifest, thorough)

    def file(self, manifest: Manifest, name: str) -> Path:
        """The path of one of an output's files; an error names what to do if it is not there."""
        path = self.folder(manifest.stage, manifest.key) / name
        if name not in manifest.outputs or not path.exists():
            raise StoreError(f"{path} is missing. Run the experiment again: stage {manifest.stage} will be redone.")
        return path

    def build(
        self, key: Key, work: Callable[[Path], dict[str, Any]], say: Say, force: bool = False
    ) -> tuple[Manifest, bool]:
        """The output for `key` and whether it was there already.

        `work` fills the folder it is given and returns counts for the manifest. It is called only when
        there is no whole output yet, or when `force` says to make it again.
        """
        stage, digest = key.stage, key.digest
        with self.lock(stage, digest, say):
            existing = self.find(stage, digest)
            if existing and not force:
                broken = self.problem(existing)
                if broken is None:
                    return existing, True
                say(f"{stage}: {broken}; making it again")
            final = self.folder(stage, digest)
            temporary = final.parent / f".{digest}.partial"
            remove(temporary)  # left by a run that was killed: nobody else can be here, we hold the lock
            temporary.mkdir(parents=True)
            try:
                began = time.monotonic()
                counts = work(temporary)
                written = manifests.write(temporary, key, counts, time.monotonic() - began)
                replace(temporary, final)
            finally:
                remove(temporary)
            return written, False

    @contextmanager
    def lock(self, stage: str, name: str, say: Say) -> Iterator[None]:
        """Hold the lock on one output; says so when it has to wait for another process."""
        descriptor = self.open_lock(f"{stage}-{name}")
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"{stage}: another run is making {name}; waiting for it")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def in_use(self, alone: bool = False) -> Iterator[None]:
        """Use the store's outputs; any number of runs may at once, but who removes outputs must be `alone`."""
        descriptor = self.open_lock("in-use")
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise RequestError("the store is in use by another command. Try again when it has ended.") from None
        finally:
            os.close(descriptor)

    def open_lock(self, name: str) -> int:
        """A descriptor of the file that a lock is taken on; children do not inherit it."""
        path = self.root / ".locks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def manifests(self, stage: str) -> list[Manifest]:
        """All outputs of a stage, oldest first."""
        folder = self.root / stage
        names = (
            [path.name for path in folder.iterdir() if not path.name.startswith((".", "work-"))]
            if folder.is_dir()
            else []
        )
        found = [manifest for name in names if (manifest := self.find(stage, name))]
        return sorted(found, key=lambda manifest: manifest.created)


def replace(new: Path, final: Path) -> None:
    """Put folder `new` at `final`; what was there is removed after the new one is in place."""
    old = final.parent / f".{final.name}.old"
    remove(old)
    if final.exists():
        final.rename(old)
    new.rename(final)
    remove(old)


def remove(folder: Path) -> None:
    """Delete a folder if it is there."""
    if folder.exists():
        shutil.rmtree(folder)


def link_tree(source: Path, target: Path) -> None:
    """Copy a folder by hard links, so that gigabytes cost nothing."""
    shutil.copytree(source, target, copy_function=link)


def link(original: str | Path, copy: str | Path) -> None:
    """Give a file a second name; a real copy where links cannot be made."""
    try:
        os.link(original, copy)
    except OSError:
        shutil.copy2(original, copy)
