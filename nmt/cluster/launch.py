"""Starting the training processes, passing on what they say, and leaving none behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import Path

import psutil

from nmt.errors import TrainingError

OWNER = "WMTFLOW_OWNER"  # the process whose end ends every rank
FAMILY = "WMTFLOW_FAMILY"  # marks all processes that one command has started, whatever session they moved to
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
    token = uuid.uuid4().hex
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={"TF_CPP_MIN_LOG_LEVEL": "2"}
        | os.environ
        | {OWNER: str(os.getpid()), FAMILY: token, "PYTHONUNBUFFERED": "1"},
        preexec_fn=die_with_parent,
    )
    watcher = threading.Thread(target=end_family_after, args=(process, token), daemon=True)
    watcher.start()
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
        watcher.join()
    if status:
        raise TrainingError(f"training ended with status {status}: {failure or ' | '.join(last)}")


def end_family_after(process: subprocess.Popen[str], token: str) -> None:
    """Once a command has ended, end what it started and left behind; else its open pipe would be waited on for ever."""
    process.wait()
    family = [one for one in psutil.process_iter() if belongs(one, token)]
    for one in family:
        with contextlib.suppress(psutil.Error):
            one.terminate()
    for one in psutil.wait_procs(family, GRACE)[1]:
        with contextlib.suppress(psutil.Error):
            one.kill()


def belongs(process: psutil.Process, token: str) -> bool:
    """Whether a process bears a family's mark; those of other users cannot be read and are not ours."""
    try:
        return process.environ().get(FAMILY) == token
    except (psutil.Error, OSError):
        return False


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
