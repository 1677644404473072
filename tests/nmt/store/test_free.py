"""Freeing disk: what a kept run is made of stays, what somebody is making stays, the rest goes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt import runs
from nmt.config import Experiment
from nmt.errors import RequestError
from nmt.runs import Result, StageResult
from nmt.settings_file import check
from nmt.store.free import disk_use, free
from nmt.store.plan import STAGES, keys, work_folder
from nmt.store.store import Store

Pretend = Callable[[Experiment], dict[str, str]]
OLD = check({"name": "old", "clean": {"max_words": 60}}, "test")
NEW = check({"name": "new"}, "test")


def finish(experiment: Experiment, found: dict[str, str], age: int) -> None:
    """Leave the result of a run that ended `age` seconds ago."""
    stages = [StageResult(name=name, key=key, cached=False, seconds=1, reason="") for name, key in found.items()]
    result = Result(
        name=experiment.name,
        config=experiment.model_dump(mode="json"),
        bleu=1,
        signature="s",
        chrf=2,
        stages=stages,
        report="r",
        model="m",
    )
    path = runs.folder(experiment.name) / "result.json"
    path.parent.mkdir(parents=True)
    path.write_text(result.model_dump_json(), encoding="utf-8")
    os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))


def work_of(store: Store, experiment: Experiment, suffix: str = "") -> Path:
    """A training's work folder with something in it."""
    folder = store.folder("train", work_folder(keys(experiment)["train"]) + suffix)
    folder.mkdir()
    (folder / "checkpoint").write_bytes(b"x" * 100)
    return folder


def outputs(store: Store) -> set[tuple[str, str]]:
    return {(stage.name, path.name) for stage in STAGES for path in (store.root / stage.name).glob("*")}


@pytest.fixture
def two_runs(data: Path, store: Store, pretend: Pretend) -> dict[str, dict[str, str]]:
    found = {"old": pretend(OLD), "new": pretend(NEW)}
    finish(OLD, found["old"], age=100)
    finish(NEW, found["new"], age=1)
    return found


def test_the_newest_run_is_kept_whole_and_the_rest_goes(data: Path, store: Store, two_runs: dict[str, dict[str, str]]):
    gone = work_of(store, OLD)
    kept_work = [work_of(store, NEW), work_of(store, NEW, "-500")]
    kept, _, removed, size = free(data, keep=1, dry_run=False)
    assert kept == ["new"] and runs.names() == ["new"]
    assert outputs(store) == set(two_runs["new"].items()) | {("train", folder.name) for folder in kept_work}
    assert gone in removed and not any(folder.exists() for folder in removed)
    assert size > 100


def test_what_both_runs_share_stays(data: Path, store: Store, two_runs: dict[str, dict[str, str]]):
    assert two_runs["old"]["download"] == two_runs["new"]["download"]
    free(data, keep=1, dry_run=False)
    for stage, key in two_runs["new"].items():
        manifest = store.find(stage, key)
        assert manifest is not None and store.problem(manifest) is None


def test_a_dry_run_tells_the_same_and_removes_nothing(data: Path, store: Store, two_runs: dict[str, dict[str, str]]):
    work_of(store, OLD)
    before = outputs(store)
    told = free(data, keep=1, dry_run=True)
    assert outputs(store) == before and runs.names() == ["new", "old"]
    assert free(data, keep=1, dry_run=False) == told


@pytest.mark.parametrize("keep", [2, 5])
def test_enough_to_keep_means_nothing_to_remove(
    data: Path, store: Store, two_runs: dict[str, dict[str, str]], keep: int
):
    before = outputs(store)
    kept, _, removed, size = free(data, keep=keep, dry_run=False)
    assert (sorted(kept), removed, size) == (["new", "old"], [], 0)
    assert outputs(store) == before


def test_keeping_none_frees_everything(data: Path, store: Store, two_runs: dict[str, dict[str, str]]):
    kept, *_ = free(data, keep=0, dry_run=False)
    assert kept == [] and runs.names() == [] and outputs(store) == set()


def test_leftovers_of_killed_runs_go(data: Path, store: Store, two_runs: dict[str, dict[str, str]]):
    leftover = store.folder("clean", ".0123456789abcdef.partial")
    leftover.mkdir()
    free(data, keep=2, dry_run=False)
    assert not leftover.exists()


def test_nothing_is_freed_while_a_run_uses_the_store(data: Path, store: Store, two_runs: dict[str, dict[str, str]]):
    before = sorted(data.rglob("*"))
    with store.in_use(), store.in_use(), pytest.raises(RequestError, match="in use by another command"):
        free(data, keep=0, dry_run=False)
    assert set(before) <= set(data.rglob("*"))
    free(data, keep=0, dry_run=False)
    assert not store.folder("clean", two_runs["old"]["clean"]).exists()


def test_no_run_starts_while_disk_is_freed(store: Store):
    with store.in_use(alone=True), pytest.raises(RequestError), store.in_use():
        pytest.fail("a run began")


def test_an_empty_data_folder_has_nothing_to_free(data: Path):
    assert free(data, keep=1, dry_run=False) == ([], [], [], 0)


def test_only_bytes_that_come_back_are_counted(tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "own").write_bytes(b"x" * 10)
    (folder / "shared").write_bytes(b"x" * 1000)
    os.link(folder / "shared", tmp_path / "elsewhere")
    assert disk_use(folder) == 10
