"""The learning rate over the steps: a linear rise, then a fall with the inverse square root."""

from __future__ import annotations


def learning_rate(step: int, factor: float, width: int, warmup: int) -> float:
    """The rate of the update that follows `step` updates: factor * width^-0.5 * min((s+1) w^-1.5, (s+1)^-0.5)."""
    return float(factor * width**-0.5 * min((step + 1) * warmup**-1.5, (step + 1) ** -0.5))
