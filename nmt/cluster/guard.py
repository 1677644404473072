"""Ends what a command has started when the command itself is killed: `python -m nmt.cluster.guard PARENT TOKEN`.

The kernel tells our own children that their parent has gone. Prefect starts its temporary server by itself, and pools
their workers; a guard looks after all that bears the command's mark.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid

COMMAND = "WMTFLOW_COMMAND"  # marks all processes that one command has started, whoever started them for it


def stand_by() -> None:
    """Have whatever this process starts from now on ended when it is gone, however that happened."""
    token = uuid.uuid4().hex
    subprocess.Popen(
        [sys.executable, "-m", "nmt.cluster.guard", str(os.getpid()), token],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the command, which then ends its children in its own way
    )
    os.environ[COMMAND] = token


def main() -> None:
    """Wait for the parent's end, then end what it has left."""
    parent, token = int(sys.argv[1]), sys.argv[2]
    while os.getppid() == parent:
        time.sleep(1)
    from nmt.cluster.launch import end_marked  # only now: it is large, and is seldom needed

    end_marked(COMMAND, token)


if __name__ == "__main__":
    main()
