"""How many cores there are to work with: fewer than the machine has in a container, under taskset or in Slurm."""

from __future__ import annotations

import math
import os
from pathlib import Path

QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds of work in each period, or "max"


def available(quota: Path = QUOTA) -> int:
    """Cores that this process may use: those it may run on, and no more than a container's quota is worth."""
    allowed = len(os.sched_getaffinity(0))
    try:
        work, period = quota.read_text(encoding="ascii").split()
        return max(min(allowed, math.ceil(int(work) / int(period))), 1)
    except (OSError, ValueError):
        return allowed
