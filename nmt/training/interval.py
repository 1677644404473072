"""What happened since the last line of progress."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from nmt.training.batches import Update

LOSS, NLL, PIECES, NORM, SCALE = range(5)  # what a step gives, in this order


class Opened(BaseModel):
    """An interval that a checkpoint fell into: what it held so far."""

    figures: list[list[float]] = []
    padding: list[float] = []
    seconds: float = 0.0


class Interval:
    """The figures of some updates. On a GPU they are fetched only when somebody asks, so that its queue stays full."""

    def __init__(self, before: Opened | None = None) -> None:
        before = before or Opened()
        self.figures: list[Any] = [np.array(row, np.float32) for row in before.figures]
        self.padding = [*before.padding]
        self.groups: list[NDArray[np.int64]] = [np.empty(0, np.int64) for _ in before.figures]  # those were good
        self.seconds = before.seconds
        self.began = 0.0

    def opened(self) -> Opened:
        """The interval so far, for a checkpoint."""
        return Opened(
            figures=self.rows().tolist() if self.figures else [],
            padding=self.padding,
            seconds=self.seconds,
        )

    def begin(self) -> None:
        """An update starts: waiting for its batch is part of it."""
        self.began = time.monotonic()

    def end(self, figures: Any, update: Update) -> None:
        """An update was handed to TensorFlow; on a CPU it is also done."""
        self.figures.append(figures)
        self.padding.append(update.padding)
        self.groups.append(update.group)
        self.seconds += time.monotonic() - self.began

    def rows(self) -> NDArray[np.float32]:
        """The figures of each update, one row each, once the device has worked them all off."""
        waited = time.monotonic()
        self.figures = [np.asarray(figures) for figures in self.figures]
        self.seconds += time.monotonic() - waited
        return np.stack(self.figures)

    def bad(self, may_overflow: bool) -> int | None:
        """Which update first had a loss or gradient that is no finite number, counted from 0; None if all are well.

        With loss scaling a gradient may overflow: that update is left out, and the scale lowered as long as it can be.
        """
        rows = self.rows()
        wrong = ~np.isfinite(rows[:, LOSS])
        wrong |= ~np.isfinite(rows[:, NORM]) & (not may_overflow or rows[:, SCALE] <= 1)
        return int(np.flatnonzero(wrong)[0]) if wrong.any() else None

    def summary(self) -> dict[str, Any]:
        """Means over the interval, and rates; the gradient's norm is None where every update was left out."""
        rows = self.rows()
        made = rows[np.isfinite(rows[:, NORM])]  # the others were left out
        return {
            "loss": float(rows[:, LOSS].mean()),
            "nll": float(rows[:, NLL].mean()),
            "gradient_norm": float(made[:, NORM].mean()) if len(made) else None,
            "tokens_per_second": round(float(rows[:, PIECES].sum()) / self.seconds, 1),
            "step_seconds": self.seconds / len(rows),
            "pieces_per_step": float(rows[:, PIECES].mean()),
            "padding": float(np.mean(self.padding)),
            "loss_scale": float(rows[-1, SCALE]),
            "left_out": len(rows) - len(made),
        }
