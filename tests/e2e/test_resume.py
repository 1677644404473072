"""A stage fails for a real reason; each way to resume finishes the experiment and repeats nothing.

The fourth way, the dashboard's Retry, is in test_dashboard.py.
"""

import json
import os
import signal
from contextlib import contextmanager
from itertools import count

import pytest

STAGES = ["download", "clean", "tokenize", "learn_bpe", "shuffle", "train", "score", "report"]
SEEDS = count(100)  # a seed of its own gives each case a corpus, and keys, of its own
DEPLOYMENTS = {"tokenize": "experiment/prepare", "train": "experiment/train", "score": "experiment/score"}
BRIEF = ["train.ranks=1", "train.steps=4", "train.eval_every=4", "train.checkpoint_every=2"]
LONG = ["train.ranks=2", "train.steps=300", "train.eval_every=150"]


@contextmanager
def no_place(ui, stage):
    """Inside the block, a stage's folder cannot be made, as on a disk that is broken."""
    place, aside = ui.data / "store" / stage, ui.data / f"{stage}-aside"
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir():
        place.rename(aside)
    place.write_text("in the way")
    try:
        yield
    finally:
        place.unlink()
        if aside.is_dir():
            aside.rename(place)


def fail(ui, stage, parameters) -> str:
    """A run that fails in a stage; gives its id."""
    if stage == "train":
        run = ui.deploy_run("experiment/demo", **parameters)
        ui.in_training(run, 20)
        [process for process in ui.ranks() if "nmt.training" in process.cmdline()][-1].send_signal(signal.SIGKILL)
        assert ui.ended(run) == "Failed"
        ui.until(lambda: not ui.ranks(), 15)
        return run
    with no_place(ui, stage):
        run = ui.deploy_run("experiment/demo", **parameters)
        assert ui.ended(run) == "Failed"
    return run


def retried(ui, run) -> str:
    """Wait for a run to be taken up again and to end; gives its log."""
    ui.until(lambda: ui.state(run) not in ("Failed", "AwaitingRetry"), 60)
    assert ui.ended(run) == "Completed", ui.logs(run)[-3000:]
    return ui.logs(run)


def by_retry(ui, run, stage, parameters) -> str:
    done = ui.prefect("flow-run", "retry", run)
    assert done.returncode == 0, done.stdout + done.stderr
    return retried(ui, run)


def by_the_stage(ui, run, stage, parameters) -> str:
    again = ui.deploy_run(DEPLOYMENTS[stage], **parameters, until="report")
    assert ui.ended(again) == "Completed", ui.logs(again)[-3000:]
    earlier = STAGES[: STAGES.index(stage)]
    assert [ui.tasks(again)[name] for name in earlier] == ["Cached"] * len(earlier)
    return ui.logs(again)


def by_the_command(ui, run, stage, parameters) -> str:
    changes = [word for change in parameters["overrides"] for word in ("--set", change)]
    done = ui.wmtflow("run", parameters["config"], *changes, "--name", parameters["name"], "--from", stage)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


WAYS = (by_retry, by_the_stage, by_the_command)
# Each takes a minute: every way and every stage is tried, all nine together with WMTFLOW_ALL_WAYS=1.
USUAL = [("tokenize", by_the_stage), ("train", by_retry), ("train", by_the_stage), ("score", by_the_command)]
ALL = [(stage, way) for stage in DEPLOYMENTS for way in WAYS]


@pytest.mark.parametrize(("stage", "resume"), ALL if os.environ.get("WMTFLOW_ALL_WAYS") else USUAL)
def test_resume(ui, stage, resume):
    seed = next(SEEDS)
    overrides = [f"seed={seed}", *(LONG if stage == "train" else BRIEF)]
    parameters = {"config": str(ui.config), "name": f"{stage}-{seed}", "overrides": overrides}
    run = fail(ui, stage, parameters)
    assert not (ui.data / "runs" / parameters["name"]).exists()
    log = resume(ui, run, stage, parameters)
    assert ("resuming from step-" in log) == (stage == "train")
    result = json.loads((ui.data / "runs" / parameters["name"] / "result.json").read_text())
    made = [item["name"] for item in result["stages"] if not item["cached"]]
    assert made == STAGES[STAGES.index(stage) :]
