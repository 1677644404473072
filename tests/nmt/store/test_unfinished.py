"""Trainings that were stopped: none is lost by clearing up, and none is passed over without a word."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.config import Experiment
from nmt.settings_file import check
from nmt.store.free import free
from nmt.store.plan import keys, work_folder
from nmt.store.store import Store
from nmt.store.unfinished import KEY, begin, unfinished

Pretend = Callable[[Experiment], dict[str, str]]


def experiment(**train: object) -> Experiment:
    return check({"name": "one", "train": train}, "test")


def stopped(store: Store, chosen: Experiment, step: int) -> Path:
    """Leave the work folder of a training that was stopped after its checkpoint at `step`."""
    key = keys(chosen)["train"]
    folder = store.folder("train", work_folder(key))
    assert begin(store, folder, key) is None
    (folder / f"checkpoints/step-{step:08d}").mkdir(parents=True)
    return folder


def test_clearing_up_keeps_what_a_stopped_training_needs(data: Path, store: Store, pretend: Pretend):
    made = pretend(experiment())
    for path in store.folder("train", made["train"]).iterdir():
        path.unlink()
    store.folder("train", made["train"]).rmdir()  # it was never finished
    work = stopped(store, experiment(), 40_000)
    kept, going_on, removed, _ = free(data, keep=0, dry_run=False)
    assert kept == [] and [(one.folder, one.step) for one in going_on] == [(work, 40_000)]
    assert {path.parent.name for path in removed} == {"score", "report"}
    assert work.exists()
    for stage in ("download", "clean", "tokenize", "learn_bpe", "shuffle"):
        assert store.find(stage, made[stage])
    _, going_on, removed, _ = free(data, keep=0, dry_run=False, unfinished_too=True)
    assert going_on == [] and work in removed and not work.exists()


def test_a_finished_training_is_not_unfinished_until_it_is_taken_further(store: Store):
    chosen = experiment(steps=1_000)
    work = stopped(store, chosen, 1_000)
    assert [one.folder for one in unfinished(store)] == [work]
    store.build(keys(chosen)["train"], lambda _: {"steps": 1_000}, print)
    assert unfinished(store) == []
    (work / "checkpoints/step-00001500").mkdir()
    assert [(one.folder, one.step) for one in unfinished(store)] == [(work, 1_500)]


def test_a_new_training_says_why_it_does_not_go_on_with_a_stopped_one(store: Store):
    work = stopped(store, experiment(), 40_000)
    other = keys(experiment(eval_every=1_000, dropout=0.2))["train"]
    words = begin(store, store.folder("train", work_folder(other)), other)
    assert words is not None and words.startswith("beginning at step 0.")
    assert f"{work.name} (step 40,000): train.dropout 0.1 → 0.2, train.eval_every 4001 → 1000" in words


@pytest.mark.parametrize("spoilt", ["{", None])
def test_one_whose_key_cannot_be_read_is_kept_and_named(data: Path, store: Store, spoilt: str | None):
    work = stopped(store, experiment(), 10)
    (work / KEY).unlink()
    if spoilt:
        (work / KEY).write_text(spoilt)
    other = keys(experiment(dropout=0.2))["train"]
    words = begin(store, store.folder("train", work_folder(other)), other)
    assert words is not None and f"{work.name} (step 10): by settings, data or code" in words
    assert [one.folder for one in free(data, keep=0, dry_run=False).unfinished] == [work]


def test_one_that_goes_on_says_nothing(store: Store):
    stopped(store, experiment(dropout=0.3), 20)
    key = keys(experiment())["train"]
    folder = store.folder("train", work_folder(key))
    (folder / "checkpoints/step-00000010").mkdir(parents=True)
    assert begin(store, folder, key) is None
    assert json.loads((folder / KEY).read_text())["stage"] == "train"
