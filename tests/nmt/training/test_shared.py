"""Memory that several ranks see: with threads for ranks, and as TensorFlow reads it."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from nmt.training.ranks import in_memory
from nmt.training.shared import SharedSum, path_of, reserve


@pytest.mark.parametrize(
    ("ranks", "shapes"), [(2, [(1,)]), (2, [(10, 100), (3,), ()]), (3, [(2, 5), (40,)]), (5, [(3,)])]
)
def test_every_rank_gets_the_sum_of_all_again_and_again(ranks, shapes):
    views = opened(ranks, shapes)
    generator = np.random.default_rng(ranks)
    numbers = [[[generator.normal(size=s).astype(np.float32) for s in shapes] for _ in range(ranks)] for _ in range(20)]

    def turns(rank):
        return [[total.copy() for total in views[rank](*turn[rank])] for turn in numbers]

    with ThreadPoolExecutor(ranks) as pool:
        found = list(pool.map(turns, range(ranks)))
    for mine in found:
        for turn, sums in zip(numbers, mine, strict=True):
            for place, total in enumerate(sums):
                expected = turn[0][place].copy()
                for other in turn[1:]:
                    expected += other[place]  # in the order of the ranks, to the bit
                np.testing.assert_array_equal(total, expected)


def test_tensorflow_reads_sums_in_their_place_and_leaves_them_as_they_are():
    """Where it may, it computes in the place of its inputs; the other ranks still read these."""
    shapes = [(16, 16), (7,)]
    views = opened(2, shapes)
    given = [np.full(shape, 2.0, np.float32) for shape in shapes]

    @tf.function
    def halves():
        return [total * 0.5 for total in in_memory(views[0], [tf.constant(value) for value in given])]

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(views[1], *given)
        for half in halves():
            np.testing.assert_array_equal(half, np.full(half.shape, 2.0))
        for total in other.result():
            np.testing.assert_array_equal(total, np.full(total.shape, 4.0))


def test_another_process_opens_it():
    handle = reserve(2, [(8,)])
    view = f"SharedSum(Path({path_of(handle)!r}), 1, 2, [(8,)])"
    code = f"from nmt.training.shared import Path, SharedSum; {view}.mine[0][:] = 5"
    subprocess.run([sys.executable, "-c", code], check=True)
    np.testing.assert_array_equal(SharedSum(Path(path_of(handle)), 0, 2, [(8,)]).places[1, :8], 5)
    os.close(handle)


def opened(ranks, shapes):
    handle = reserve(ranks, shapes)
    views = [SharedSum(Path(path_of(handle)), rank, ranks, shapes) for rank in range(ranks)]
    os.close(handle)
    return views
