"""Reading what training recorded. No TensorFlow, so that reports and status need not wait for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nmt import atomic


def truncate(path: Path, step: int) -> None:
    """Drop what was recorded after the checkpoint that training resumes from, and any half-written line."""
    kept = [json.dumps(row, ensure_ascii=False) for row in read(path) if row["step"] <= step]
    atomic.write_text(path, "".join(f"{line}\n" for line in kept))


def read(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics file; a line that a kill cut short is passed over."""
    rows = []
    # Not splitlines: samples are people's text, and it would cut a row at a U+2028 in one.
    for line in path.read_text(encoding="utf-8").split("\n") if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def duration(seconds: float) -> str:
    """`3725` as `1:02:05`, `65` as `1:05`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
