"""The end of `make ui`: runs that went silent are marked, and Ctrl-C leaves no process, no profile, no run Running."""

import signal
import sqlite3
import time

import psutil


def test_a_silent_run_is_marked_crashed(ui):
    run = getattr(ui, "silent", None)
    assert run, "test_prefect.py begins this one"
    assert ui.ended(run, 240) == "Crashed"
    assert "fell silent" in ui.api(f"/flow_runs/{run}")["state"]["message"]


def test_ctrl_c_ends_everything(ui):
    left_by_kills = set((ui.data / "store").glob("*/.*.partial"))  # until their stage is made again
    overrides = ["train.steps=4000", "train.eval_every=2000", "seed=51"]
    run = ui.deploy_run("experiment/demo", config=str(ui.config), name="stopped", overrides=overrides)
    ui.in_training(run, 5)
    family = psutil.Process(ui.process.pid).children(recursive=True)
    assert len(family) >= 6  # server, worker, flow, horovodrun, two ranks
    profiles = ui.elsewhere.parent / "prefect/profiles.toml"
    assert ui.url in profiles.read_text()
    began = time.monotonic()
    ui.process.send_signal(signal.SIGINT)
    ui.process.wait(40)
    print(f"all ended {time.monotonic() - began:.1f} s after Ctrl-C")
    assert ui.process.returncode == 0
    assert psutil.wait_procs(family, 1)[1] == []
    assert "stopped; no process is left" in ui.log.read_text()
    assert ui.url not in profiles.read_text()
    with sqlite3.connect(ui.elsewhere.parent / "prefect/prefect.db") as database:
        state = database.execute("select state_type from flow_run where id = ?", (run,)).fetchone()
    assert state[0] in ("CRASHED", "CANCELLED")
    assert set((ui.data / "store").glob("*/.*.partial")) <= left_by_kills
