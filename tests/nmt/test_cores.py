"""Cores: those that may be used, not those that are there."""

import os
import subprocess
import sys

import pytest

from nmt.cores import available


@pytest.mark.parametrize(("written", "cores"), [("150000 100000\n", 2), ("100000 100000", 1), ("5000 100000", 1)])
def test_a_quota_is_kept_to(tmp_path, written, cores):
    quota = tmp_path / "cpu.max"
    quota.write_text(written)
    assert available(quota) == min(cores, len(os.sched_getaffinity(0)))


@pytest.mark.parametrize("written", ["max 100000\n", "nonsense", None])
def test_without_a_quota_all_cores_it_may_run_on_are_its_own(tmp_path, written):
    quota = tmp_path / "cpu.max"
    if written is not None:
        quota.write_text(written)
    assert available(quota) == len(os.sched_getaffinity(0))


def test_a_process_kept_to_one_core_has_one():
    core = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, [{core}]); from nmt.cores import available; print(available())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "1\n"
