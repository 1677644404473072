"""Runs by name: what is written can be read, and a name that is not there is answered with one that is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmt import atomic, runs
from nmt.config import Experiment
from nmt.errors import RunError
from nmt.runs import Result, StageResult
from nmt.store.manifest import Key, Manifest
from nmt.store.store import Store

TOKENS = {"tokens_bleu": 35.5, "tokens_signature": "nrefs:1|case:lc"}
SCORES = {"test": {"bleu": 33.25, "signature": "nrefs:1|case:mixed", "chrf": 60.5, **TOKENS}}


@pytest.fixture
def store(data: Path) -> Store:
    return Store(data / "store")


@pytest.fixture
def finished(store: Store) -> Callable[[str], Result]:
    """Gives a function that records a finished run of that name."""

    def output(stage: str, counts: dict[str, Any], files: dict[str, str], name: str) -> Manifest:
        def work(folder: Path) -> dict[str, Any]:
            for file, text in files.items():
                (folder / file).write_text(text, encoding="utf-8")
            return counts

        return store.build(Key(stage=stage, settings={"of": name}, inputs={}, code={}, libraries={}), work, print)[0]

    def make(name: str) -> Result:
        files = {"report.html": f"<p>{name} – größer</p>", "answers.json": "{}"}
        manifests = {
            "train": output("train", {}, {"model": "m"}, name),
            "score": output("score", SCORES, {"scores.json": "{}"}, name),
            "report": output("report", {}, files, name),
        }
        stages = [
            StageResult(name=stage, key=manifest.key, cached=False, seconds=1.5, reason="never run")
            for stage, manifest in manifests.items()
        ]
        return runs.write(Experiment(name=name), store, manifests, stages)

    return make


def test_a_result_is_read_as_it_was_written(finished: Callable[[str], Result]):
    written = finished("demo")
    assert runs.read("demo") == written
    assert written.experiment == Experiment(name="demo")
    assert written.stage_keys.keys() == {"train", "score", "report"}


def test_result_json_is_what_machines_were_promised(finished: Callable[[str], Result]):
    finished("demo")
    content = json.loads((runs.folder("demo") / "result.json").read_text(encoding="utf-8"))
    promised = {"name", "config", "bleu", "signature", "chrf", "stages", "report", "model"}
    assert content.keys() == promised | TOKENS.keys()
    assert (content["name"], content["bleu"], content["chrf"]) == ("demo", 33.25, 60.5)
    assert content["signature"] == "nrefs:1|case:mixed"
    assert content["stages"][0].keys() == {"name", "key", "cached", "seconds", "reason"}
    assert content["config"]["train"]["layers"] == 6
    assert Path(content["model"]).exists()
    assert Path(content["report"]).read_text(encoding="utf-8") == "<p>demo – größer</p>"


def test_the_files_of_the_report_lie_beside_it_and_nothing_else(finished: Callable[[str], Result]):
    finished("demo")
    assert {path.name for path in runs.folder("demo").iterdir()} == {"report.html", "answers.json", "result.json"}


def test_a_second_run_of_the_name_takes_the_place_of_the_first(finished: Callable[[str], Result]):
    finished("demo")
    assert runs.read("demo") == finished("demo")
    assert runs.names() == ["demo"]


def test_names_are_those_of_finished_runs(finished: Callable[[str], Result], data: Path):
    assert runs.names() == []
    finished("b")
    finished("a")
    (data / "runs" / "unfinished").mkdir()
    assert runs.names() == ["a", "b"]


def test_an_unknown_run_is_refused_with_the_nearest_name(finished: Callable[[str], Result]):
    finished("demo")
    with pytest.raises(RunError, match=r"no finished run 'dmeo'; did you mean 'demo'\?") as caught:
        runs.read("dmeo")
    assert caught.value.exit_status == 2


def test_without_any_run_the_first_step_is_told(data: Path):
    with pytest.raises(RunError, match=r"there is none yet: wmtflow run config/demo\.yaml"):
        runs.read("demo")


def test_previous_keys_are_those_of_the_last_run_or_none(finished: Callable[[str], Result]):
    assert runs.previous_keys("demo") == {}
    assert finished("demo").stage_keys == runs.previous_keys("demo") != {}


@pytest.mark.parametrize("text", ["", "{", '{"name": "demo"}'])
def test_a_broken_result_has_no_previous_keys_and_is_told_as_an_error(text: str, data: Path):
    (data / "runs" / "demo").mkdir(parents=True)
    (data / "runs" / "demo" / "result.json").write_text(text, encoding="utf-8")
    assert runs.previous_keys("demo") == {}
    with pytest.raises(RunError, match=r"result\.json"):
        runs.read("demo")


def test_a_copied_file_is_replaced_whole(tmp_path: Path):
    (tmp_path / "new").write_text("new", encoding="utf-8")
    (tmp_path / "page").write_text("a longer old text", encoding="utf-8")
    atomic.copy(tmp_path / "new", tmp_path / "page")
    assert (tmp_path / "page").read_text(encoding="utf-8") == "new"
    assert {path.name for path in tmp_path.iterdir()} == {"new", "page"}
