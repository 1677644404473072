"""Prefect as its users drive it: a server and a worker by `wmtflow ui`, deployments, schedule, cancel, crash."""

import json
import signal
import time

import psutil

DEPLOYMENTS = {"demo", "multi30k", "wmt16-base", "wmt16-big", "prepare", "train", "score", "report"}
LONG = json.dumps(["train.steps=4000", "train.eval_every=2000"])
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
    for wrong in ("config=nothing", "ranks=-1", "start=tokenise", 'overrides=["steps"]', "steps=many"):
        done = ui.prefect("deployment", "run", "experiment/demo", "-p", wrong)
        assert done.returncode == 1, wrong
        assert "Validation failed" in done.stdout + done.stderr, done.stdout + done.stderr


def test_a_deployment_runs_the_experiment_from_any_folder(ui):
    done = ui.prefect("deployment", "run", "experiment/demo", "-p", f"config={ui.config}", "--watch")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((ui.data / "runs/small/result.json").read_text())["name"] == "small"
    again = ui.deploy_run("experiment/demo", config=ui.config)
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
    settings = {"config": ui.config, "name": "cancelled", "overrides": LONG}
    run = ui.deploy_run("experiment/demo", **settings)
    ui.in_training(run, 40)
    assert len([process for process in ui.ranks() if "nmt.training" in process.cmdline()]) >= 2
    progress = {"artifacts": {"flow_run_id": {"any_": [run]}, "type": {"any_": ["progress"]}}}
    bar = ui.until(lambda: [x for x in ui.api("/artifacts/filter", progress) if x["data"] > 0], 60)
    assert "of 4,000" in bar[0]["description"]
    began = time.monotonic()
    done = ui.prefect("flow-run", "cancel", run)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = time.monotonic()
    ui.until(lambda: not ui.ranks(), 15)
    assert ui.ended(run, 30) == "Cancelled"
    print(f"cancel: asked in {asked - began:.1f} s, no rank left {time.monotonic() - asked:.1f} s later")
    assert not list((ui.data / "store").glob("*/.*.partial"))
    reached = max((ui.data / "store/train").glob("work-*/checkpoints/step-*"), key=lambda path: path.stat().st_mtime)
    again = ui.wmtflow(
        "run", ui.config, "--name", "cancelled", "--set", "train.steps=60", "--set", "train.eval_every=2000"
    )
    assert again.returncode == 0, again.stderr
    assert reached.name


def test_a_flow_process_that_is_killed_leaves_a_crashed_run(ui):
    run = ui.deploy_run("experiment/demo", config=ui.config, name="killed", overrides=LONG)
    ui.in_training(run, 5)
    flow_process(ui, run).kill()
    assert ui.ended(run, 60) == "Crashed"
    ui.until(lambda: not ui.ranks(), 15)


def flow_process(ui, run) -> psutil.Process:
    """The process that a worker runs a flow in."""
    children = psutil.Process(ui.process.pid).children(recursive=True)
    return next(one for one in children if one.environ().get("PREFECT__FLOW_RUN_ID") == run)


def test_a_server_restarted_in_training_loses_nothing(ui):
    overrides = json.dumps(["train.steps=250", "train.eval_every=250", "seed=31"])
    run = ui.deploy_run("experiment/demo", config=ui.config, name="restarted", overrides=overrides)
    ui.in_training(run, 20)
    children = psutil.Process(ui.process.pid).children()
    server = next(one for one in children if "server" in one.cmdline())
    server.send_signal(signal.SIGKILL)
    ui.until(lambda: "the server ended" in ui.log.read_text(), 30)
    time.sleep(5)
    ui.until(lambda: reachable(ui), 120)
    assert ui.ended(run, 200) == "Completed", ui.logs(run)[-3000:]
    assert ui.logs(run).count("resuming from") == 0
    assert json.loads((ui.data / "runs/restarted/result.json").read_text())


def reachable(ui) -> bool:
    try:
        return bool(ui.api("/health"))
    except OSError:
        return False
    except Exception:
        return False
