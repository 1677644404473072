"""What wmtflow puts into a Prefect server beside its deployments: the work pool and the automations.

    python -m flows.server     for the server at PREFECT_API_URL; `make ui` does it too

A pool that is there already stays as it is. So does what an automation does, for a user may have edited it.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from prefect.automations import Automation
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState, DoNothing
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.exceptions import ObjectNotFound

from flows.retrain import REFUSED

POOL = "local"  # the work pool of prefect.yaml
SILENCE = timedelta(seconds=90)  # three heartbeats: see prefect.yaml
ALIVE = "prefect.flow-run.heartbeat"
ENDS = {f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed")}
ENDS |= {f"prefect.flow-run.{state}" for state in ("Promoted", "Refused", "Unchanged")}  # those of flows.retrain


def automations() -> list[Automation]:
    """All of them, as they are first put in."""
    silent = EventTrigger(
        after={ALIVE},
        expect={ALIVE, *ENDS},
        match={"prefect.resource.id": ["prefect.flow-run.*"]},
        match_related={"prefect.resource.role": ["flow"], "prefect.resource.name": ["experiment", "retrain"]},
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=SILENCE,
    )
    message = "The run fell silent: its process or its machine is gone. Run it again: it goes on where it stopped."
    return [
        Automation(
            name="wmtflow: a silent run has crashed",
            description="A run that sent heartbeats and has sent none for 90 s is marked Crashed.",
            trigger=silent,
            actions=[ChangeFlowRunState(state=StateType.CRASHED, message=message)],
        ),
        Automation(
            name="wmtflow: a new model was refused",
            description="A retraining gave a model worse than the champion. Edit this to add a notification.",
            trigger=EventTrigger(expect={REFUSED}, posture=Posture.Reactive, threshold=1),
            actions=[DoNothing()],
        ),
    ]


async def prepare() -> None:
    """Make what is missing."""
    async with get_client() as client:
        try:
            pool = await client.read_work_pool(POOL)
        except ObjectNotFound:
            pool = await client.create_work_pool(WorkPoolCreate(name=POOL, type="process"))
    if pool.type != "process":
        sys.exit(f"the work pool '{POOL}' of this server is of type {pool.type}; wmtflow's must be of type process")
    for automation in automations():
        try:
            there = await Automation.aread(name=automation.name)
        except ValueError:
            await automation.acreate()
        else:
            there.trigger = automation.trigger  # an older release's; what it does is the user's
            await there.aupdate()


if __name__ == "__main__":
    asyncio.run(prepare())
