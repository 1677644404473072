"""The learning rate over the steps: a linear rise, then a fall with the inverse square root or in a straight line."""

from __future__ import annotations


def learning_rate(step: int, factor: float, width: int, warmup: int, ends: int = 0) -> float:
    """The rate of the update that follows `step` updates: factor * width^-0.5 * min((s+1) w^-1.5, (s+1)^-0.5).

    With `ends` it falls from its peak in a straight line instead, and the update after so many would not move at all.
    """
    rise, root = (step + 1) * warmup**-1.5, (step + 1) ** -0.5
    fall = warmup**-0.5 * (ends - step) / (ends - warmup + 1) if ends else root
    return float(factor * width**-0.5 * min(rise, fall))
