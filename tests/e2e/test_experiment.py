"""The whole experiment by the command people type, on two real Horovod ranks. The tests build on one another."""

import json
import os
import re
import signal
import time
from pathlib import Path

import psutil
import pytest

from nmt.config import TrainSettings
from nmt.model.processor import settled
from tests.e2e.conftest import Place

STAGES = ["download", "clean", "tokenize", "learn_bpe", "shuffle", "train", "score", "report"]


def result(place, name="small"):
    return json.loads((place.data / f"runs/{name}/result.json").read_text())


def ran(place, name="small"):
    return [stage["name"] for stage in result(place, name)["stages"] if not stage["cached"]]


def output(place, stage):
    keys = {item["name"]: item["key"] for item in result(place)["stages"]}
    return place.data / "store" / stage / keys[stage]


def test_a_killed_command_leaves_no_server(place):
    process = place.start("run", place.config, "--only", "preflight")
    assert process.stdout is not None
    next(line for line in process.stdout if "Beginning flow run" in line)
    server = [one for one in psutil.Process(process.pid).children() if "uvicorn" in command_line(one)]
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert len(server) == 1 and not psutil.wait_procs(server, timeout=30)[1]


def test_ctrl_c_ends_a_training_in_an_orderly_way(tmp_path):
    """A terminal sends it to every process of the command, Prefect's temporary server too."""
    place = Place(tmp_path)  # of its own: the next test begins with nothing

    def as_at_a_terminal():
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell has those in the background ignore it

    process = place.start("run", place.config, "--set", "train.steps=5000", preexec_fn=as_at_a_terminal)
    assert process.stdout is not None
    next(line for line in process.stdout if "step 5/" in line)
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGINT
    assert "aborted by an interrupt signal" in said and "Stopping temporary server" in said
    assert "Traceback" not in said and "Connection refused" not in said
    assert not psutil.wait_procs(family, timeout=30)[1]


@pytest.fixture(scope="module")
def finished(place):
    """The first run, complete, with no server but Prefect's temporary one; a real server for all that follow."""
    done = place.wmtflow("run", place.config)
    assert done.returncode == 0, done.stdout + done.stderr
    first = result(place)
    with place.server():
        yield first, done.stdout, done.stderr


def test_a_fresh_run_goes_through_every_stage(place, finished):
    found, printed, log = finished
    assert [stage["name"] for stage in found["stages"] if not stage["cached"]] == STAGES
    assert 0 <= found["bleu"] <= 100 and "tok:13a" in found["signature"] and found["chrf"] > 0
    assert f"BLEU {found['bleu']:.2f} on test" in printed
    assert found["report"] in printed and "<html" in Path(found["report"]).read_text()
    assert len(json.loads((place.data / "runs/small/answers.json").read_text())) == 11
    assert re.search(r"horovodrun .*-np 2", log)
    assert f"2 ranks = 512 tokens per update, in {settled(TrainSettings(), gpu=False).precision}" in log
    rows = [json.loads(line) for line in (output(place, "train") / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["kind"] == "eval"] == [15, 30]
    assert list((output(place, "train") / "tensorboard").iterdir())


def test_the_same_again_is_all_cached(place, finished):
    again = place.wmtflow("run", place.config)
    assert again.returncode == 0, again.stderr
    assert ran(place) == []
    assert again.stderr.count("Cached(type=COMPLETED)") == len(STAGES)


def test_status_foretells_what_a_changed_setting_runs(place, finished):
    told = place.wmtflow("status", place.config, "--set", "clean.max_words=12").stdout
    words = {line.split()[0]: line.split(maxsplit=3)[2:] for line in told.splitlines()}
    assert words["download"][0] == "cached"
    assert words["clean"] == ["run", "clean.max_words 80 → 12"]
    assert all(words[stage][0] == "run" for stage in STAGES[1:])
    only = place.wmtflow("run", place.config, "--name", "shorter", "--set", "clean.max_words=12", "--only", "clean")
    assert only.returncode == 0, only.stderr
    assert not (place.data / "runs/shorter").exists()  # a single stage is not a finished run
    told = place.wmtflow("status", place.config, "--set", "clean.max_words=12").stdout
    assert re.search(r"^clean .* cached", told, re.MULTILINE)


@pytest.mark.parametrize("harm", ["flip", "delete"])
def test_a_spoilt_output_is_made_again_alone(place, finished, harm):
    victim = output(place, "tokenize") / "train.de"
    content = victim.read_bytes()
    if harm == "flip":
        victim.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    else:
        victim.unlink()
    assert re.search(r"^tokenize .* run .*train.de", place.wmtflow("status", place.config).stdout, re.MULTILINE)
    again = place.wmtflow("run", place.config)
    assert again.returncode == 0, again.stderr
    assert ran(place) == ["tokenize"]
    assert victim.read_bytes() == content


def test_translate_score_and_report_use_the_finished_run(place, finished):
    lines = place.wmtflow("translate", "small", text="The man sleeps.\n\nThe dog sees the cat.").stdout.splitlines()
    assert len(lines) == 3 and lines[1] == "" and lines[0]
    assert f"BLEU {result(place)['bleu']:.2f} on test" in place.wmtflow("score", "small").stdout
    again = place.wmtflow("export", "small", place.data / "exported", "--type", "float32")
    assert again.returncode == 0 and "Try it: wmtflow translate" in again.stdout, again.stderr
    exported = place.wmtflow("translate", place.data / "exported", text="The man sleeps.\n\nThe dog sees the cat.")
    assert exported.stdout.splitlines() == lines  # with the run's own beam and limit, which are not the defaults
    raw = output(place, "download")
    scored = place.wmtflow("score", "small", "--files", raw / "test.en", raw / "test.de").stdout
    assert f"BLEU {result(place)['bleu']:.2f} on test.en" in scored
    assert "11. " in place.wmtflow("report", "small").stdout
    assert re.search(r"^small +BLEU", place.wmtflow("runs").stdout, re.MULTILINE)


def test_more_steps_go_on_from_the_last_checkpoint(place, finished):
    more = place.wmtflow("run", place.config, "--set", "train.steps=40", "--name", "longer")
    assert more.returncode == 0, more.stderr
    assert ran(place, "longer") == ["train", "score", "report"]
    assert "resuming from step-00000030" in more.stderr
    assert "step 35/40" in more.stderr and "step 30/40" not in more.stderr


@pytest.mark.parametrize("forced", [(), ("--from", "train", "--force")], ids=["plain", "forced"])
def test_fewer_steps_leave_the_longer_training_alone(place, finished, forced):
    fewer = place.wmtflow("run", place.config, "--set", "train.steps=10", "--name", "brief", *forced)
    assert fewer.returncode == 0, fewer.stderr
    assert "step 10/10" in fewer.stderr
    longest = max((place.data / "store/train").glob("work-*/checkpoints/step-*"), key=lambda path: path.name)
    assert longest.name == "step-00000040"


def test_a_run_killed_in_training_goes_on_from_its_checkpoint(place, finished):
    settings = ("--set", "train.width=48", "--set", "train.steps=60", "--name", "killed")
    process = place.start("run", place.config, *settings)
    ranks: list[psutil.Process] = []
    assert process.stdout is not None
    for line in process.stdout:
        if "step 25/60" in line:
            children = psutil.Process(process.pid).children(recursive=True)
            ranks = [child for child in children if "nmt.training" in " ".join(command_line(child))]
            process.send_signal(signal.SIGKILL)
            break
    process.wait()
    process.stdout.close()
    assert len(ranks) >= 2
    _, alive = psutil.wait_procs(ranks, timeout=15)
    assert not alive
    assert not list((place.data / "store/train").glob("*/manifest.json.tmp"))
    again = place.wmtflow("run", place.config, *settings)
    assert again.returncode == 0, again.stderr
    assert ran(place, "killed") == ["train", "score", "report"]
    assert re.search(r"resuming from step-000000[234]0", again.stderr)


def command_line(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_a_stage_can_be_run_again_or_begun_at(place, finished):
    forced = place.wmtflow("run", place.config, "--from", "score", "--force")
    assert forced.returncode == 0, forced.stderr
    assert ran(place) == ["score", "report"]
    missing = place.wmtflow("run", place.config, "--set", "seed=77", "--from", "train")
    assert missing.returncode == 2
    assert "cannot begin at train" in missing.stderr and "Begin at download" in missing.stderr


def test_clean_frees_what_no_kept_run_needs(place, finished):
    time.sleep(1.1)
    place.wmtflow("run", place.config)  # the most recent
    before = {path.name for path in (place.data / "store").glob("*/*")}
    freed = place.wmtflow("clean", "--keep", "1")
    assert freed.returncode == 0 and "kept runs: small" in freed.stdout
    assert len({path.name for path in (place.data / "store").glob("*/*")}) < len(before)
    assert place.wmtflow("status", place.config).stdout.count("cached") == len(STAGES)
