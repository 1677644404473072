"""How many threads a rank has, and in how many lanes."""

import pytest

from nmt.config import TrainSettings
from nmt.training.threads import Threads, shared_out


@pytest.mark.parametrize(
    ("cores", "ranks", "asked", "gpu", "found"),
    [
        (1, 1, 0, False, Threads(1, 1, 1)),
        (2, 1, 0, False, Threads(2, 2, 1)),
        (2, 2, 0, False, Threads(1, 1, 1)),
        (2, 4, 0, False, Threads(1, 1, 1)),
        (16, 2, 0, False, Threads(8, 8, 1)),
        (12, 1, 0, False, Threads(12, 8, 12)),  # one pool for all lanes: none of the twelve may idle
        (64, 1, 0, False, Threads(64, 8, 64)),
        (64, 1, 3, False, Threads(3, 3, 1)),
        (16, 2, 0, True, Threads(8, 1, 8)),  # a GPU goes through a batch at once
    ],
)
def test_threads_are_shared_out(cores, ranks, asked, gpu, found):
    assert shared_out(TrainSettings(ranks=ranks, threads=asked), gpu, cores) == found
