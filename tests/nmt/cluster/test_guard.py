"""The guard: what a killed command has started ends, however it was started."""

import os
import signal
import subprocess
import sys

import psutil

# A child in a session of its own, as a stranger to us would start one: the kernel tells it nothing.
COMMAND = """
import subprocess, sys, time
from nmt.cluster.guard import stand_by
early = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
stand_by()
late = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print(early.pid, late.pid, flush=True)
time.sleep(60)
"""


def test_a_killed_command_takes_with_it_what_it_started_from_then_on():
    command = subprocess.Popen([sys.executable, "-c", COMMAND], stdout=subprocess.PIPE, text=True)
    assert command.stdout is not None
    early, late = (psutil.Process(int(pid)) for pid in command.stdout.readline().split())
    guards = [child for child in psutil.Process(command.pid).children() if "nmt.cluster.guard" in child.cmdline()]
    try:
        assert len(guards) == 1 and os.getsid(guards[0].pid) == guards[0].pid
        command.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs([late, *guards], timeout=30)
        assert not alive
        assert early.is_running()  # it bears no mark
    finally:
        command.kill()
        command.wait()
        command.stdout.close()
        early.kill()
