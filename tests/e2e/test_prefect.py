"""Prefect as its users drive it: a server and a worker by `wmtflow ui`, deployments, schedule, cancel, crash."""

import json
import signal
import time

import httpx
import psutil
import pytest

DEPLOYMENTS = {"demo", "multi30k", "wmt16-base", "wmt16-big", "prepare", "train", "score", "report"}
LONG = ["train.steps=4000", "train.eval_every=2000"]
MARK = "wmtflow: a silent run has crashed", "wmtflow: a new model was refused"


def test_everything_is_deployed_and_the_automations_are_there(ui):
    found = {item["name"] for item in ui.api("/deployments/filter", {})}
    assert found == DEPLOYMENTS | {"weekly"}
    assert {item["name"] for item in ui.api("/automations/filter", {})} >= set(MARK)


def test_a_second_one_is_told_of_the_first(ui):
    again = ui.wmtflow("ui")
    assert again.returncode == 2
    assert f"make ui runs already: process {ui.process.pid}, {ui.url}" in again.stderr


def test_the_schedule_yields_runs(ui):
    body = {"deployments": {"name": {"any_": ["weekly"]}}, "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}}
    runs = ui.until(lambda: ui.api("/flow_runs/filter", body), 120)
    assert all(run["auto_scheduled"] for run in runs)


def test_bad_parameters_are_refused_when_the_run_is_made(ui):
    done = ui.prefect("deployment", "run", "experiment/demo", "-p", "config=nothing")
    assert done.returncode == 1 and "Validation failed" in done.stdout + done.stderr
    for wrong in ({"ranks": -1}, {"start": "tokenise"}, {"overrides": ["steps"]}, {"steps": "many"}, {"name": "A b"}):
        with pytest.raises(httpx.HTTPStatusError, match="409"):
            ui.deploy_run("experiment/demo", **wrong)


def test_a_deployment_runs_the_experiment_from_any_folder(ui):
    done = ui.prefect("deployment", "run", "experiment/demo", "-p", f"config={ui.config}", "--watch")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((ui.data / "runs/small/result.json").read_text())["name"] == "small"
    again = ui.deploy_run("experiment/demo", config=str(ui.config))
    assert ui.ended(again) == "Completed"
    tasks = ui.tasks(again)
    assert tasks.pop("preflight") == "Completed"
    assert set(tasks.values()) == {"Cached"} and len(tasks) == 8
    body = {"artifacts": {"flow_run_id": {"any_": [again]}}}
    keys = {item["key"] for item in ui.api("/artifacts/filter", body)}
    assert keys >= {f"small-{name}" for name in ("clean", "shuffle", "curves", "scores", "samples", "report")}


def test_a_failed_run_fails_the_command(ui):
    done = ui.prefect(
        "deployment", "run", "experiment/train", "-p", f"config={ui.config}", "-p", 'overrides=["seed=9"]', "--watch"
    )
    assert done.returncode == 1
    run = ui.api(
        "/flow_runs/filter",
        {"sort": "EXPECTED_START_TIME_DESC", "limit": 1, "flow_runs": {"state": {"type": {"any_": ["FAILED"]}}}},
    )[0]
    assert "cannot begin at train: not in the store: download" in run["state"]["message"]


def test_cancel_in_training_leaves_nothing_and_a_later_run_goes_on(ui):
    settings = {"config": str(ui.config), "name": "cancelled", "overrides": LONG}
    run = ui.deploy_run("experiment/demo", **settings)
    ui.in_training(run, 40)
    assert len([process for process in ui.ranks() if "nmt.training" in process.cmdline()]) >= 2
    progress = {"artifacts": {"flow_run_id": {"any_": [run]}, "type": {"any_": ["progress"]}}}
    bar = ui.until(lambda: [x for x in ui.api("/artifacts/filter", progress) if x["data"] > 0], 60)
    assert "of 4,000" in bar[0]["description"]
    done = ui.prefect("flow-run", "cancel", run)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = time.monotonic()
    ui.until(lambda: not ui.ranks(), 15)
    gone = time.monotonic()
    assert ui.ended(run, 90) == "Cancelled"  # after Prefect's worker has imported the flow again to look for hooks
    print(f"no rank left {gone - asked:.1f} s after the command, Cancelled {time.monotonic() - asked:.1f} s after it")
    assert not list((ui.data / "store").glob("*/.*.partial"))
    reached = max((ui.data / "store/train").glob("work-*/checkpoints/step-*"), key=lambda path: path.stat().st_mtime)
    steps = f"train.steps={int(reached.name.removeprefix('step-')) + 10}"
    again = ui.wmtflow("run", ui.config, "--name", "cancelled", "--set", steps, "--set", LONG[1])
    assert again.returncode == 0, again.stderr
    assert f"resuming from {reached.name}" in again.stderr


def test_a_flow_process_that_is_killed_leaves_a_crashed_run(ui):
    run = ui.deploy_run("experiment/demo", config=str(ui.config), name="killed", overrides=[*LONG, "seed=32"])
    ui.in_training(run, 5)
    flow_process(ui, run).kill()
    assert ui.ended(run, 60) == "Crashed"
    ui.until(lambda: not ui.ranks(), 15)


def flow_process(ui, run) -> psutil.Process:
    """The process that a worker runs a flow in."""
    children = psutil.Process(ui.process.pid).children(recursive=True)
    return next(one for one in children if one.environ().get("PREFECT__FLOW_RUN_ID") == run)


def test_a_run_and_its_worker_killed_together(ui):
    """Nobody is left to tell the server; test_stop.py looks, when the silence has lasted, whether it noticed."""
    run = ui.deploy_run("experiment/demo", config=str(ui.config), name="silent", overrides=[*LONG, "seed=33"])
    ui.in_training(run, 5)
    ui.until(lambda: ui.events("prefect.flow-run.heartbeat", run), 60)
    process = flow_process(ui, run)
    for victim in (process.parent(), process):
        victim.kill()
    ui.until(lambda: not ui.ranks(), 15)
    ui.until(lambda: "the worker ended with status -9; starting it again" in ui.log.read_text(), 30)
    assert ui.state(run) == "Running"
    ui.silent = run


def test_a_server_restarted_in_training_loses_nothing(ui):
    overrides = ["train.steps=250", "train.eval_every=250", "seed=31"]
    run = ui.deploy_run("experiment/demo", config=str(ui.config), name="restarted", overrides=overrides)
    ui.in_training(run, 20)
    server = next(one for one in psutil.Process(ui.process.pid).children() if "server" in one.cmdline())
    server.send_signal(signal.SIGKILL)
    ui.until(lambda: "the server ended with status -9; starting it again" in ui.log.read_text(), 30)
    ui.until(lambda: reachable(ui), 120)
    assert ui.ended(run, 200) == "Completed", ui.logs(run)[-3000:]
    assert "resuming from" not in ui.logs(run)
    assert json.loads((ui.data / "runs/restarted/result.json").read_text())["name"] == "restarted"


def reachable(ui) -> bool:
    try:
        return bool(ui.api("/health"))
    except httpx.HTTPError:
        return False
