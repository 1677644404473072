"""preflight: what is missing is told before anything is spent, all of it at once, with the remedy."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from nmt.cluster import preflight as module
from nmt.cluster.preflight import Check, corpus_bytes, horovod, preflight, require
from nmt.config import Experiment
from nmt.cores import available
from nmt.errors import MachineError
from nmt.settings_file import check

SMALL = {
    "download": {"train_pairs": 1_000},
    "learn_bpe": {"merges": 100},
    "train": {"layers": 1, "width": 16, "heads": 2, "feed_forward": 16},
}


def experiment(**content: Any) -> Experiment:
    train = SMALL["train"] | content.pop("train", {})
    return check(SMALL | content | {"train": train}, "test")


def checks(wanted: Experiment) -> dict[str, Check]:
    return {found.name: found for found in preflight(wanted, training=False)}


pytestmark = pytest.mark.usefixtures("data", "no_gpu")


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "gpu_count", lambda: 0)


def test_a_small_experiment_fits():
    found = checks(experiment())
    assert found.keys() == {"disk", "memory", "ranks"}
    assert all(one.ok for one in found.values())
    require(list(found.values()))


def test_too_little_disk_is_told_with_needed_found_and_fix(data: Path):
    found = checks(experiment(preflight={"free_disk_gb": 1e9}))["disk"]
    assert not found.ok and "1000000000.0 GB" in found.needed and "GB free" in found.found
    assert str(data.parent) in found.fix and "WMTFLOW_DATA" in found.fix


def test_too_many_ranks_are_told_with_the_most_there_can_be():
    cores = available()
    found = checks(experiment(train={"ranks": 1_000}))["ranks"]
    assert not found.ok
    assert (found.needed, found.found) == ("1000 ranks", f"{cores} cores")
    assert found.fix == f"Set train.ranks to at most {cores}."
    assert checks(experiment(train={"ranks": cores}))["ranks"].ok


def test_gpus_are_counted_where_there_are_any(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "gpu_count", lambda: 3)
    assert checks(experiment(train={"ranks": 3}))["ranks"].ok
    found = checks(experiment(train={"ranks": 4}))["ranks"]
    assert not found.ok and found.found == "3 GPUs"


def test_a_model_that_is_too_large_is_told():
    found = checks(experiment(train={"width": 8192, "layers": 64, "feed_forward": 65536, "ranks": 8}))["memory"]
    assert not found.ok and "GB available" in found.found and "train.ranks=1" in found.fix


def test_every_lane_has_gradients_of_its_own():
    base = {"width": 512, "layers": 6, "feed_forward": 2048, "ranks": 1}
    one, eight = (float(checks(experiment(train=base | {"threads": n}))["memory"].needed.split()[0]) for n in (1, 8))
    assert eight > one + 7 * 0.15  # GB: the embedding alone is some tens of MB


def test_all_failures_are_in_one_error():
    wanted = experiment(preflight={"free_disk_gb": 1e9}, train={"ranks": 1_000})
    with pytest.raises(MachineError) as caught:
        require(preflight(wanted, training=False))
    message = str(caught.value)
    assert caught.value.exit_status == 1
    for found in preflight(wanted, training=False):
        assert (f"{found.name}: needed {found.needed}" in message) == (not found.ok)
        assert (found.fix in message) == (not found.ok)
    assert "disk: " in message and "ranks: " in message


def test_a_check_reads_as_one_line():
    assert str(Check("disk", "2 GB", "1 GB free", False, "Buy one.")) == "FAIL  disk: 1 GB free (needed: 2 GB)"
    assert str(Check("disk", "2 GB", "3 GB free", True)) == "ok    disk: 3 GB free (needed: 2 GB)"


def test_horovod_is_looked_at_only_for_several_ranks_to_train(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "horovod", lambda: Check("horovod", "a", "b", True))
    two, one = experiment(train={"ranks": 2}), experiment()
    assert "horovod" in {found.name for found in preflight(two, training=True)}
    assert "horovod" not in {found.name for found in preflight(two, training=False)}
    assert "horovod" not in {found.name for found in preflight(one, training=True)}


def test_missing_horovod_is_told_with_two_ways_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = horovod()
    assert not found.ok and found.found == "not installed"
    assert "make setup" in found.fix and "train.ranks=1" in found.fix


def test_the_size_of_the_text_is_that_of_its_source(tmp_path: Path):
    assert corpus_bytes(experiment(download={"train_pairs": 2_000})) > corpus_bytes(experiment())
    assert corpus_bytes(experiment(download={"corpus": "wmt16"})) > 1e9
    section: dict[str, Any] = {"corpus": "files"}
    for split in ("train", "dev", "test"):
        for side in ("source", "target"):
            (tmp_path / f"{split}.{side}").write_bytes(b"x" * 100)
            section.setdefault(split, {})[side] = str(tmp_path / f"{split}.{side}")
    assert corpus_bytes(experiment(download=section)) == 600
