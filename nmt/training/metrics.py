"""What training reports: `metrics.jsonl`, TensorBoard scalars under the reference's names, and lines to read."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

from nmt.training.records import truncate


class Metrics:
    """Appends one JSON object per report, and the same figures as TensorBoard scalars."""

    def __init__(self, folder: Path, resumed_at: int) -> None:
        self.path = folder / "metrics.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        truncate(self.path, resumed_at)
        self.file = self.path.open("a", encoding="utf-8")
        self.writer = tf.summary.create_file_writer(str(folder / "tensorboard"))

    def add(self, kind: str, step: int, values: dict[str, Any], scalars: dict[str, float]) -> None:
        """Record `values` of one step; `scalars` go to TensorBoard under their names."""
        self.file.write(
            json.dumps({"kind": kind, "step": step, "time": time.time(), **values}, ensure_ascii=False) + "\n"
        )
        self.file.flush()
        with self.writer.as_default(step=step):
            for name, value in scalars.items():
                tf.summary.scalar(name, value)
        self.writer.flush()

    def close(self) -> None:
        """Finish both files."""
        self.file.close()
        self.writer.close()
