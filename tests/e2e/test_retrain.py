"""Retraining: the first model is promoted, a worse one is refused, events tell of both, and one can go back."""

import json

LEARNS = [
    "download.train_pairs=20000", "download.dev_pairs=20", "download.test_pairs=60",
    "train.warmup=60", "train.average=1", "train.eval_every=1000",
]  # fmt: skip


def test_promote_refuse_unchanged(ui):
    parameters = {"config": "demo", "name": "crown", "overrides": LEARNS}
    first = ui.deploy_run("retrain/weekly", **parameters, steps=200)
    assert ui.ended(first, 600) == "Promoted", ui.logs(first)[-3000:]
    told = ui.until(lambda: ui.events("wmtflow.champion.promoted"), 30)
    assert told[0]["resource"]["prefect.resource.id"] == "wmtflow.champion.crown"

    worse = ui.deploy_run("retrain/weekly", **parameters, steps=20)
    assert ui.ended(worse, 600) == "Refused", ui.logs(worse)[-3000:]
    payload = ui.until(lambda: ui.events("wmtflow.champion.refused"), 30)[0]["payload"]
    assert payload["verdict"] == "worse" and payload["bleu"] < payload["champion_bleu"]
    triggered = ui.until(lambda: ui.events("prefect.automation.triggered"), 60)
    assert any("a new model was refused" in json.dumps(event) for event in triggered)

    shown = ui.wmtflow("champion").stdout
    assert shown.startswith("* crown 1 ") and "champions/crown/0001/model" in shown
    assert ui.wmtflow("translate", text="The man sleeps.\n").stdout.strip()  # by the champion
    same = ui.deploy_run("retrain/weekly", **parameters, steps=200)
    assert ui.ended(same, 600) == "Unchanged", ui.logs(same)[-3000:]
    told = ui.api("/artifacts/latest/filter", {"artifacts": {"key": {"any_": ["crown-champion"]}}})
    assert "champion 1 already" in told[0]["data"]


def test_a_champion_outlives_its_run_and_can_be_left_again(ui):
    assert ui.wmtflow("clean", "--keep", "0").returncode == 0
    assert ui.wmtflow("translate", text="The man sleeps.\n").returncode == 0
    back = ui.wmtflow("champion", "--rollback")
    assert back.returncode == 2 and "there is none to go back to" in back.stderr
    assert "no champion of 'nobody'" in ui.wmtflow("champion", "nobody").stderr
