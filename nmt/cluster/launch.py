"""Starting the training processes, passing on what they say, and leaving none behind."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

from nmt.errors import TrainingError

OWNER = "WMTFLOW_OWNER"  # the process whose end ends every rank
GRACE = 10  # seconds between asking and killing; horovodrun takes 5 to end its workers
PREFIX = re.compile(r"^\[[\d,]+\]<std(out|err)>: ?")  # what horovodrun puts before a rank's line
FAILURE = re.compile(r"^[\w.]*(Error|Exception)\b.*?: ")  # how Python, and our own ranks, name what went wrong
PR_SET_PDEATHSIG = 1


def training_command(ranks: int, job: Path) -> list[str]:
    """The command that trains `job` on `ranks` processes of this machine."""
    python = [sys.executable, "-m", "nmt.training", str(job)]
    if ranks == 1:
        return python
    horovodrun = str(Path(sys.executable).with_name("horovodrun"))
    return [sys.executable, horovodrun, "--gloo", "-np", str(ranks), "-H", f"localhost:{ranks}", *python]


def run(command: list[str], say: Callable[[str], None]) -> None:
    """Run a command to its end, passing each line it prints to `say`.

    Whatever ends this call early (an error, a signal, a cancel) ends the command and its children too.
    """
    say("$ " + shlex.join(command))
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={"TF_CPP_MIN_LOG_LEVEL": "2"} | os.environ | {OWNER: str(os.getpid()), "PYTHONUNBUFFERED": "1"},
        preexec_fn=die_with_parent,
    )
    last: deque[str] = deque(maxlen=5)
    failure = None
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if text := PREFIX.sub("", line.rstrip()):
                say(text)
                last.append(text)
                # The first rank to fail says why; the others only say that it has gone.
                failure = failure or (text if FAILURE.match(text) else None)
        status = process.wait()
    finally:
        end(process)
    if status:
        raise TrainingError(f"training ended with status {status}: {failure or ' | '.join(last)}")


def end(process: subprocess.Popen[str]) -> None:
    """Ask a process to end, wait, then make it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout:
        process.stdout.close()


def die_with_parent() -> None:
    """In the child: have the kernel end it when its parent is gone, even by SIGKILL."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def owner_is_gone() -> bool:
    """In a rank on the owner's machine: whether the process it works for has ended."""
    owner = os.environ.get(OWNER)
    return owner is not None and not Path("/proc", owner).exists()
