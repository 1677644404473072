"""Files that are whole at any moment: a reader sees the old one or the new one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Put `text` into `path`; several processes may at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def copy(source: Path, path: Path) -> None:
    """Put the bytes of `source` into `path`. What a killed copy left, which may be large, the next one overwrites."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.partial")
    shutil.copyfile(source, temporary)
    temporary.replace(path)
