from itertools import pairwise

import pytest

from nmt.model.schedule import learning_rate


def test_reference_values():
    # 2.0 * 512^-0.5 * 8000^-0.5 at the peak
    assert learning_rate(7_999, 2.0, 512, 8_000) == pytest.approx(9.882e-4, rel=1e-3)
    assert learning_rate(0, 2.0, 512, 8_000) == pytest.approx(2.0 * 512**-0.5 * 8_000**-1.5)
    assert learning_rate(49_999, 2.0, 512, 8_000) == pytest.approx(2.0 * 512**-0.5 * 50_000**-0.5)


def test_it_rises_then_falls():
    rates = [learning_rate(step, 1.0, 128, 50) for step in range(200)]
    rising = [a < b for a, b in pairwise(rates)]
    assert rising == [True] * 49 + [False] * 150


def test_it_can_fall_in_a_straight_line_to_nothing():
    rates = [learning_rate(step, 1.0, 128, 50, ends=200) for step in range(201)]
    assert rates[:50] == [learning_rate(step, 1.0, 128, 50) for step in range(50)]  # the same rise, the same peak
    falls = [a - b for a, b in pairwise(rates[49:])]
    assert falls == pytest.approx([rates[49] / 151] * 151)
    assert rates[199] > rates[200] == 0
