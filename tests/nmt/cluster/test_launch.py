"""Starting processes: what they say is passed on, why they failed is told, and none outlives its owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmt.cluster import launch
from nmt.cluster.launch import OWNER, cycle_ms, owner_is_gone, run, training_command
from nmt.config import ROOT, TrainSettings
from nmt.errors import TrainingError
from nmt.training.job import Job

CHILD_WITH_GRANDCHILD = """
import os, subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("pids", os.getpid(), grandchild.pid, flush=True)
time.sleep(60)
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead but not yet collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def soon(condition: Callable[[], bool], seconds: float = 15) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def end(*pids: int) -> None:
    """Whatever a failed test has left must not live on."""
    for pid in pids:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_lines_are_passed_on_in_order_and_without_horovods_prefixes():
    said: list[str] = []
    run(
        python(r"print('[0]<stdout>: step 1\n[1,3]<stderr>:loss 2\n\nplain [0]<stdout>: text\n  kept   ')"), said.append
    )
    assert said[0].startswith("$ ") and sys.executable in said[0]
    assert said[1:] == ["step 1", "loss 2", "plain [0]<stdout>: text", "  kept"]


def test_both_streams_are_heard_and_odd_bytes_do_no_harm():
    said: list[str] = []
    run(python(r"import sys; sys.stderr.write('err\n'); sys.stdout.buffer.write(b'\xff\n')"), said.append)
    assert sorted(said[1:]) == ["err", "\ufffd"]


def test_lines_come_while_the_command_still_runs():
    times: list[float] = []
    run(python("import time; print('a'); time.sleep(0.4); print('b')"), lambda _: times.append(time.monotonic()))
    assert times[2] - times[1] > 0.2


def test_a_command_gets_no_input_and_knows_its_owner():
    said: list[str] = []
    run(python(f"import os, sys; print(repr(sys.stdin.read()), os.environ['{OWNER}'])"), said.append)
    assert said[1] == f"'' {os.getpid()}"


def test_a_failure_is_told_with_its_status_and_the_first_reason():
    code = r"""
print('starting')
print('[1]<stderr>:Traceback (most recent call last):')
print('[1]<stderr>:ValueError: the loss is not a number')
print('[0]<stderr>:horovod.common.exceptions.HorovodInternalError: rank 1 has gone')
for number in range(9): print('noise', number)
raise SystemExit(3)
"""
    with pytest.raises(TrainingError) as caught:
        run(python(code), lambda _: None)
    assert str(caught.value) == "training ended with status 3: ValueError: the loss is not a number"


def test_a_failure_without_a_reason_is_told_with_the_last_lines():
    with pytest.raises(TrainingError, match=r"status 1: noise 4 \| noise 5 \| noise 6 \| noise 7 \| noise 8$"):
        run(python("for number in range(9): print('noise', number)\nraise SystemExit(1)"), lambda _: None)


def test_a_silent_failure_and_a_signal_are_failures():
    with pytest.raises(TrainingError, match="status 7"):
        run(python("raise SystemExit(7)"), lambda _: None)
    with pytest.raises(TrainingError, match="status -9: it was ended by SIGKILL, as the system does"):
        run(python("import os; os.kill(os.getpid(), 9)"), lambda _: None)


def test_a_line_that_only_mentions_an_error_is_no_failure():
    said: list[str] = []
    run(python("print('ValueError: caught and handled')"), said.append)
    assert said[1:] == ["ValueError: caught and handled"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_while_listening_ends_the_child_and_its_children(error: type[BaseException]):
    pids: list[int] = []

    def say(line: str) -> None:
        if line.startswith("pids"):
            pids.extend(map(int, line.split()[1:]))
            raise error

    try:
        with pytest.raises(error):
            run(python(CHILD_WITH_GRANDCHILD), say)
        assert len(pids) == 2
        assert not alive(pids[0])
        assert soon(lambda: not alive(pids[1]), 3), "the grandchild lives on"
    finally:
        end(*pids)


def test_a_failed_child_is_told_even_while_its_own_child_lives_on_and_that_one_is_ended():
    code = CHILD_WITH_GRANDCHILD.replace("sleep(60)", "sleep(15)", 1).replace("time.sleep(60)", "raise SystemExit(3)")
    said: list[str] = []
    began = time.monotonic()
    with pytest.raises(TrainingError, match="status 3"):
        run(python(code), said.append)
    pid = int(said[1].split()[2])
    try:
        assert time.monotonic() - began < 12, "waited for the grandchild instead of ending it"
        assert soon(lambda: not alive(pid), 1)
    finally:
        end(pid)


def test_a_child_that_will_not_end_is_killed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(launch, "GRACE", 0.3)
    pids: list[int] = []
    code = "import os, signal, time; signal.signal(15, signal.SIG_IGN); print('pids', os.getpid()); time.sleep(60)"

    def say(line: str) -> None:
        if line.startswith("pids"):
            pids.append(int(line.split()[1]))
            raise ValueError

    try:
        with pytest.raises(ValueError, match=r"^$"):
            run(python(code), say)
        assert not alive(pids[0])
    finally:
        end(*pids)


def test_a_child_ends_when_its_owner_is_killed(tmp_path: Path):
    log = tmp_path / "log"
    deaf = "import os, pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"  # as horovodrun may be
    child = f"{deaf}; pathlib.Path({str(log)!r}).write_text(str(os.getpid())); time.sleep(60)"
    owner = f"import sys; from nmt.cluster.launch import run; run([sys.executable, '-c', {child!r}], print)"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    pid = 0
    with subprocess.Popen(python(owner), env=env, stdout=subprocess.DEVNULL) as process:
        try:
            assert soon(lambda: log.exists() and log.read_text(encoding="utf-8") != "")
            pid = int(log.read_text(encoding="utf-8"))
            assert alive(pid)
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert soon(lambda: not alive(pid), 5)
        finally:
            process.kill()
            end(*filter(None, [pid]))


def test_a_rank_knows_when_its_owner_has_gone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(OWNER, raising=False)
    assert not owner_is_gone()
    monkeypatch.setenv(OWNER, str(os.getpid()))
    assert not owner_is_gone()
    gone = subprocess.Popen(python(""))
    gone.wait()
    monkeypatch.setenv(OWNER, str(gone.pid))
    assert owner_is_gone()


ALONE = [sys.executable, "-m", "nmt.training", "job.json"]


def job(**settings: Any) -> Job:
    """What decides a command: settings, and the size of the model."""
    return Job.model_construct(train=TrainSettings(**settings), vocabulary_size=10_000)


def test_one_rank_needs_no_horovod():
    assert training_command(job(ranks=1), Path("job.json")) == ALONE


def test_several_ranks_are_started_by_horovodrun():
    command = training_command(job(ranks=3, fusion_mb=32, cycle_ms=2.5), Path("job.json"))
    assert "horovodrun" in command[1] and command[-4:] == ALONE
    assert command[command.index("-np") + 1] == "3" and "localhost:3" in command
    assert command[command.index("--fusion-threshold-mb") + 1] == "32"
    assert command[command.index("--cycle-time-ms") + 1] == "2.5"


def test_on_a_cpu_horovod_wakes_as_often_as_suits_the_length_of_an_update(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(launch, "GPU", tmp_path / "none")
    tiny = {"ranks": 2, "threads": 1, "layers": 4, "width": 128, "heads": 4, "feed_forward": 256}
    assert cycle_ms(job(**tiny)) == 50  # there is little to send where gradients are summed in memory
    tiny["shared_memory"] = False
    cycles = {tokens: cycle_ms(job(**tiny, batch=tokens, batch_unit="tokens")) for tokens in (64, 1_024, 4_096, 10**6)}
    assert cycles[64] < 5 and cycles[10**6] == 100  # for short updates often, and never hardly ever
    assert 8 <= cycles[1_024] <= 15 and 16 <= cycles[4_096] <= 30  # where each was measured to be best
    assert cycle_ms(job(**tiny, batch=1_024, batch_unit="tokens", accumulate=4)) == cycles[4_096]
    assert cycle_ms(job(**tiny, batch=128)) > cycle_ms(job(**tiny, batch=128, batch_unit="tokens"))
    monkeypatch.setattr(launch, "GPU", tmp_path)
    assert cycle_ms(job(**tiny)) == 1


def test_or_by_mpirun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    started = job(ranks=3, launcher="mpi", fusion_mb=32, cycle_ms=2.5)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TrainingError, match=r"no mpirun. Install Open MPI .* or set train.launcher to gloo"):
        training_command(started, Path("job.json"))
    (tmp_path / "mpirun").write_text("#!/bin/sh\n")
    (tmp_path / "mpirun").chmod(0o755)
    command = training_command(started, Path("job.json"))
    assert command[0] == str(tmp_path / "mpirun") and command[-4:] == ALONE
    assert command[command.index("-np") + 1] == "3"
    assert "HOROVOD_FUSION_THRESHOLD=33554432" in command and "HOROVOD_CYCLE_TIME=2.5" in command


def test_trouble_ends_the_command_and_all_it_started():
    said: list[str] = []
    trouble = iter([None, "rank 1 sleeps"])
    with pytest.raises(TrainingError, match=r"^rank 1 sleeps\. All ranks were ended; run again to go on"):
        run(python(CHILD_WITH_GRANDCHILD), said.append, lambda: next(trouble, None))
    pids = [int(pid) for pid in said[1].split()[1:]]
    assert soon(lambda: not any(map(alive, pids))), end(*pids)
