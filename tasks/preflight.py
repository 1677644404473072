"""preflight: is this machine up to the experiment?"""

from __future__ import annotations

from prefect import get_run_logger, task

from nmt.cluster import preflight as machine
from tasks.stage import Run


@task(name="preflight", task_run_name="preflight")
def preflight(run: Run) -> None:
    """Check disk, memory, processors and Horovod; stop here rather than hours later."""
    checks = machine.preflight(run.experiment, training=not run.whole("train"))
    for check in checks:
        get_run_logger().info(str(check))
    machine.require(checks)
