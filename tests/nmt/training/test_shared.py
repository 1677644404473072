"""Memory that several ranks see, with threads for ranks."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nmt.training import shared
from nmt.training.shared import SharedSum, reserve


@pytest.mark.parametrize(("ranks", "count"), [(2, 1), (2, 1_000), (3, 10), (5, 3)])
def test_every_rank_gets_the_sum_of_all_again_and_again(tmp_path, monkeypatch, ranks, count):
    monkeypatch.setattr(shared, "PLACE", tmp_path)
    path = reserve(ranks, count)
    views = [SharedSum(path, rank, ranks, count) for rank in range(ranks)]
    numbers = np.random.default_rng(count).normal(size=(20, ranks, count)).astype(np.float32)
    with ThreadPoolExecutor(ranks) as pool:
        found = list(pool.map(lambda rank: [views[rank](numbers[turn, rank]) for turn in range(20)], range(ranks)))
    expected = numbers[:, 0].copy()
    for rank in range(1, ranks):
        expected += numbers[:, rank]  # in the order of the ranks, to the bit
    for mine in found:
        np.testing.assert_array_equal(mine, expected)


def test_no_room_or_no_place_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(shared, "PLACE", tmp_path / "none")
    assert "cannot be used: No such file" in reserve(2, 10)
    monkeypatch.setattr(shared, "PLACE", tmp_path)
    assert "has no room for" in reserve(2, 2**58)
    assert not list(tmp_path.iterdir())
