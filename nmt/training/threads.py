"""How the CPU threads of a rank share its work. No TensorFlow, so that the launcher and preflight may ask."""

from __future__ import annotations

from typing import NamedTuple

from nmt.config import TrainSettings
from nmt.cores import available

MOST_LANES = 8  # each holds its own gradients


class Threads(NamedTuple):
    """The threads of a rank, the lanes in which they go through a batch, and how many one operation may use."""

    all: int
    lanes: int
    operation: int


def shared_out(settings: TrainSettings, gpu: bool, cores: int | None = None) -> Threads:
    """Of the cores of a machine, those of one rank; a lane for each of them, up to MOST_LANES.

    With more threads than lanes every operation may use all: TensorFlow has one pool of them for all lanes.
    """
    threads = settings.threads or max((cores or available()) // settings.ranks, 1)
    lanes = 1 if gpu else min(threads, MOST_LANES)
    return Threads(threads, lanes, 1 if lanes == threads else threads)
