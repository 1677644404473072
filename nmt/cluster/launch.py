"""Starting the training processes, passing on what they say, and leaving none behind."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import re
import shlex
import shutil
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
from nmt.training.job import Job
from nmt.training.threads import shared_out

OWNER = "WMTFLOW_OWNER"  # the process whose end ends every rank
FAMILY = "WMTFLOW_FAMILY"  # marks all processes that one command has started, whatever session they moved to
GRACE = 10  # seconds between asking and killing; horovodrun takes 5 to end its workers
PREFIX = re.compile(r"^\[[\d,]+\]<std(out|err)>: ?")  # what horovodrun puts before a rank's line
FAILURE = re.compile(r"^[\w.]*(Error|Exception)\b.*?: ")  # how Python, and our own ranks, name what went wrong
ENDED = re.compile(r"^Process (\d+) exit with status code (\d+)")  # what horovodrun says of a rank
PR_SET_PDEATHSIG = 1
GPU = Path("/dev/nvidia0")  # there where NVIDIA's driver is
CORE_RATE = 6e10  # operations per second of a core in training, roughly: it decides only how often Horovod wakes
SELDOM_MS = 50.0  # where Horovod sends nothing but what an evaluation found
WAKING_MS = 0.25  # of a core, for Horovod to find that there is nothing to send


def training_command(job: Job, path: Path) -> list[str]:
    """The command that trains `job`, written at `path`, on the ranks that are set, all on this machine."""
    settings, ranks = job.train, job.train.ranks
    python = [sys.executable, "-m", "nmt.training", str(path)]
    if ranks == 1:
        return python
    if settings.launcher == "mpi":
        return [*mpirun(job), *python]
    horovodrun = [sys.executable, str(Path(sys.executable).with_name("horovodrun")), "--gloo"]
    fusion = ["--fusion-threshold-mb", str(settings.fusion_mb), "--cycle-time-ms", f"{cycle_ms(job):g}"]
    # Gloo would give up after 30 seconds, with an error that names nobody; who hangs is told after stall_seconds.
    patience = ["--gloo-timeout-seconds", str(math.ceil(settings.stall_seconds) + 60)]
    return [*horovodrun, "-np", str(ranks), "-H", f"localhost:{ranks}", *fusion, *patience, *python]


def cycle_ms(job: Job) -> float:
    """How often Horovod's own thread wakes to see what can be sent.

    On a CPU each waking takes the core from the model, and each update ends with waiting for one. Cycles of c in an
    update of u make u / c wakings w and a wait of c / 2 on average; together they are least where c is the root of 2uw.
    """
    settings = job.train
    if settings.cycle_ms or GPU.exists():
        return settings.cycle_ms or 1.0
    if settings.sums_in_memory:
        return SELDOM_MS
    cores = shared_out(settings, gpu=False).all
    update = 6 * job.shape.parameters * settings.pieces_per_update / (cores * CORE_RATE)  # seconds
    return round(min(math.sqrt(2 * update * 1_000 * WAKING_MS), 100), 1)


def mpirun(job: Job) -> list[str]:
    """Open MPI's launcher, told what horovodrun would tell it."""
    settings = job.train
    found = shutil.which("mpirun")
    if found is None:
        raise TrainingError(
            "train.launcher is mpi and there is no mpirun. Install Open MPI with its compiler (apt-get install -y "
            "openmpi-bin libopenmpi-dev) and run make setup again, or set train.launcher to gloo."
        )
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    where = ["-np", str(settings.ranks), "-H", f"localhost:{settings.ranks}", "--bind-to", "none", "--map-by", "slot"]
    # Horovod's traffic is many small messages from several threads, for which plain TCP is the safe transport.
    transport = ["-mca", "pml", "ob1", "-mca", "btl", "^openib"]
    fusion = {
        "HOROVOD_FUSION_THRESHOLD": settings.fusion_mb * 1024 * 1024,
        "HOROVOD_CYCLE_TIME": f"{cycle_ms(job):g}",
    }
    names = [name for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ] + [OWNER, FAMILY, "PYTHONUNBUFFERED"]
    passed = [word for name in names for word in ("-x", name)]
    return [found, *as_root, *where, *transport, *passed, *(w for k, v in fusion.items() for w in ("-x", f"{k}={v}"))]


def run(command: list[str], say: Callable[[str], None], trouble: Callable[[], str | None] = lambda: None) -> None:
    """Run a command to its end, passing each line it prints to `say`.

    Whatever ends this call early (an error, a signal, a cancel) ends the command and its children too; so does
    `trouble`, which is asked every second, by saying what is wrong.
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
    wrong: list[str] = []
    watcher = threading.Thread(target=watch, args=(process, token, trouble, wrong), daemon=True)
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
                failure = failure or (text if FAILURE.match(text) else killed(text))
        status = process.wait()
    finally:
        if process.poll() is None:
            end_marked(FAMILY, token)  # all at once: horovodrun alone would take 5 s to end its ranks
            process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
        watcher.join()
    if wrong:
        raise TrainingError(f"{wrong[0]}. All ranks were ended; run again to go on from the last checkpoint.")
    if status < 0:
        failure = failure or f"it was ended by {by_signal(-status)}"
    if status:
        raise TrainingError(f"training ended with status {status}: {failure or ' | '.join(last)}")


def killed(line: str) -> str | None:
    """Which rank a signal has ended, where horovodrun says so; SIGTERM is how it ends the others itself."""
    found = ENDED.match(line)
    number = int(found[2]) - 128 if found else 0
    if not found or number <= 0 or number == signal.SIGTERM:
        return None
    return f"rank {found[1]} was ended by {by_signal(number)}"


def by_signal(number: int) -> str:
    """A signal by its name, and what sends it where nobody has."""
    memory = ", as the system does to the largest process when memory runs out" if number == signal.SIGKILL else ""
    return f"{signal.Signals(number).name}{memory}"


def watch(process: subprocess.Popen[str], token: str, trouble: Callable[[], str | None], wrong: list[str]) -> None:
    """Wait for a command to end, or end it when there is trouble, which goes into `wrong`.

    Then end what it started and left behind; else its open pipe would be waited on for ever.
    """
    while not wrong:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1)
            break
        wrong.extend(filter(None, [trouble()]))
    end_marked(FAMILY, token)


def end_marked(name: str, token: str) -> None:
    """Ask every process that bears a mark to end, wait, then make it."""
    family = [one for one in psutil.process_iter() if marked(one, name, token)]
    for one in family:
        with contextlib.suppress(psutil.Error):
            one.terminate()
    for one in psutil.wait_procs(family, GRACE)[1]:
        with contextlib.suppress(psutil.Error):
            one.kill()


def marked(process: psutil.Process, name: str, token: str) -> bool:
    """Whether a process bears a mark in its environment; those of other users cannot be read and are not ours."""
    try:
        return process.environ().get(name) == token
    except (psutil.Error, OSError):
        return False


def die_with_parent(how: signal.Signals = signal.SIGKILL) -> None:
    """In the child: have the kernel end it when its parent is gone, however that happened.

    The kernel may tell the child several times, once for each thread of the parent that ends. Of SIGTERM horovodrun
    would stop for ever: its handler waits for a lock that it holds itself when one interrupts the other.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, how)


def owner_is_gone() -> bool:
    """In a rank on the owner's machine: whether the process it works for has ended."""
    owner = os.environ.get(OWNER)
    return owner is not None and not Path("/proc", owner).exists()
