"""The manifest of a stage's output: what it is, what it was made from, and what every file should hold."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import socket
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

NAME = "manifest.json"
SMALL = 64 * 1024**2  # files up to this size are hashed whenever they are reused; it takes milliseconds
CHUNK = 1024 * 1024


class FileRecord(BaseModel):
    """What a stored file held when it was written."""

    model_config = ConfigDict(frozen=True)

    bytes: int
    sha256: str
    lines: int | None = None  # of text files
    modified_ns: int = 0


class Key(BaseModel):
    """Everything a stage's key covers. Two equal `Key`s have the same digest and the same output."""

    model_config = ConfigDict(frozen=True)

    stage: str
    settings: dict[str, Any]
    inputs: dict[str, str]
    code: dict[str, str]
    libraries: dict[str, str]

    @property
    def digest(self) -> str:
        """The name of the output's folder."""
        return short_digest(self.model_dump(mode="json"))


class Manifest(BaseModel):
    """One stage's output, as written beside its files."""

    model_config = ConfigDict(frozen=True)

    stage: str
    key: str
    settings: dict[str, Any]
    inputs: dict[str, str]
    code: dict[str, str]
    libraries: dict[str, str]
    outputs: dict[str, FileRecord]
    counts: dict[str, Any] = Field(default_factory=dict)
    seconds: float
    host: str
    created: str
    versions: dict[str, str]

    @property
    def bytes(self) -> int:
        """Size of all files together."""
        return sum(record.bytes for record in self.outputs.values())


def key_of(manifest: Manifest) -> Key:
    """What an output was made of."""
    return Key.model_validate(manifest.model_dump(include=set(Key.model_fields)))


def write(folder: Path, key: Key, counts: dict[str, Any], seconds: float) -> Manifest:
    """Record every file of `folder`, write its manifest, and see both to the disk."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != NAME)
    manifest = Manifest(
        **key.model_dump(),
        key=key.digest,
        outputs={str(path.relative_to(folder)): record(path) for path in files},
        counts=counts,
        seconds=round(seconds, 3),
        host=socket.gethostname(),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        versions={"python": platform.python_version(), "wmtflow": version("wmtflow")},
    )
    with (folder / NAME).open("w", encoding="utf-8") as file:
        file.write(manifest.model_dump_json(indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return manifest


def read(folder: Path) -> Manifest | None:
    """The manifest in `folder`; None where there is none that can be read."""
    try:
        return Manifest.model_validate_json((folder / NAME).read_bytes())
    except (OSError, ValueError):
        return None


def problem(folder: Path, manifest: Manifest, thorough: bool = False) -> str | None:
    """What is wrong with the stored files, in a few words; None when they are as recorded.

    Sizes are always compared. Contents are hashed for small files, for files that were touched since, and,
    when `thorough`, for all of them.
    """
    for name, expected in manifest.outputs.items():
        path = folder / name
        try:
            status = path.stat()
        except OSError:
            return f"file {name} is missing"
        if status.st_size != expected.bytes:
            return f"file {name} has {status.st_size:,} bytes instead of {expected.bytes:,}"
        look = thorough or status.st_size <= SMALL or status.st_mtime_ns != expected.modified_ns
        if look and record(path).sha256 != expected.sha256:
            return f"file {name} was altered"
    return None


def record(path: Path) -> FileRecord:
    """Size, hash and number of lines of a file, in one reading."""
    digest, lines, text = hashlib.sha256(), 0, is_text(path)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            lines += chunk.count(b"\n") if text else 0
    status = path.stat()
    return FileRecord(
        bytes=status.st_size,
        sha256=digest.hexdigest(),
        lines=lines if text else None,
        modified_ns=status.st_mtime_ns,
    )


def is_text(path: Path) -> bool:
    """Whether counting lines says anything about this file."""
    return path.suffix not in {".npy", ".bin", ".index"} and ".data-" not in path.name and "tfevents" not in path.name


def short_digest(value: Any) -> str:
    """16 hexadecimal digits that stand for a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=True).encode()).hexdigest()[:16]


def version(package: str) -> str:
    """The installed version of a package, or 'none'."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"
