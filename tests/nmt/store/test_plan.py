"""Plans: keys cover what changes an output and nothing else, and a plan says why a stage would run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmt.config import Experiment
from nmt.errors import ConfigError
from nmt.settings_file import check
from nmt.store import plan as plans
from nmt.store.plan import BY_NAME, ORDER, STAGES, keys, plan, work_folder
from nmt.store.store import Store

Pretend = Callable[[Experiment], dict[str, str]]
NAMES = [stage.name for stage in STAGES]


def experiment(**content: Any) -> Experiment:
    return check(content, "test")


def changed(before: Experiment, after: Experiment) -> list[str]:
    """The stages whose keys differ."""
    old, new = keys(before), keys(after)
    return [name for name in NAMES if old[name].digest != new[name].digest]


def reasons(
    wanted: Experiment, store: Store, previous: dict[str, str] | None = None, **options: bool
) -> dict[str, str]:
    planned = plan(wanted, store, previous or {}, **options)
    assert [stage.key.stage for stage in planned] == NAMES
    assert all(stage.cached == (stage.reason == "unchanged") for stage in planned)
    return {stage.key.stage: stage.reason for stage in planned}


def text_files(folder: Path, suffix: str = "") -> dict[str, Any]:
    """A `download` section of user files."""
    folder.mkdir(parents=True, exist_ok=True)
    section: dict[str, Any] = {"corpus": "files"}
    for split in ("train", "dev", "test"):
        for side in ("source", "target"):
            path = folder / f"{split}.{side}{suffix}"
            path.write_text(f"a {split} {side}\n", encoding="utf-8")
            section.setdefault(split, {})[side] = str(path)
    return section


def test_every_stage_reads_stages_before_it():
    for number, stage in enumerate(STAGES):
        assert set(stage.inputs) <= set(NAMES[:number])
    assert ("preflight", *NAMES) == ORDER
    assert list(BY_NAME) == NAMES


FIRST_CHANGED: list[tuple[dict[str, Any], str]] = [
    ({"download": {"train_pairs": 2_000}}, "download"),
    ({"download": {"dirt": 0.1}}, "download"),
    ({"seed": 2}, "download"),
    ({"clean": {"max_words": 60}}, "clean"),
    ({"tokenize": {"lowercase": True}}, "tokenize"),
    ({"learn_bpe": {"merges": 100}}, "learn_bpe"),
    ({"shuffle": {"max_pieces": 100}}, "shuffle"),
    ({"train": {"dropout": 0.2}}, "train"),
    ({"train": {"steps": 10}}, "train"),
    ({"score": {"beam": 5}}, "score"),
    ({"report": {"samples": 3}}, "report"),
    ({"name": "other"}, "report"),
]


@pytest.mark.parametrize(("content", "first"), FIRST_CHANGED, ids=[json.dumps(content) for content, _ in FIRST_CHANGED])
def test_a_setting_changes_its_stage_and_all_after_it_and_none_before(content: dict[str, Any], first: str):
    assert changed(Experiment(), experiment(**content)) == NAMES[NAMES.index(first) :]


def test_speed_settings_and_preflight_change_no_key(tmp_path: Path):
    fast = experiment(
        download={"mirror": str(tmp_path)},
        tokenize={"workers": 7},
        train={"threads": 3, "checkpoint_minutes": 1, "log_every": 1},
        score={"batch_tokens": 100, "threads": 2},
        preflight={"free_disk_gb": 5},
    )
    assert changed(Experiment(), fast) == []


def test_keys_are_the_same_every_time():
    assert keys(Experiment()) == keys(Experiment())


@pytest.mark.parametrize(("setting", "value"), [("steps", 3), ("keep", 9), ("average", 3)])
def test_what_merely_extends_a_training_keeps_its_work_folder(setting: str, value: int):
    before, after = Experiment(), experiment(train={setting: value})
    assert "train" in changed(before, after)
    assert work_folder(keys(before)["train"]) == work_folder(keys(after)["train"])


@pytest.mark.parametrize(
    "content", [{"train": {"dropout": 0.2}}, {"train": {"batch": 7}}, {"seed": 2}, {"learn_bpe": {"merges": 100}}]
)
def test_another_training_has_another_work_folder(content: dict[str, Any]):
    assert work_folder(keys(Experiment())["train"]) != work_folder(keys(experiment(**content))["train"])


def test_a_work_folder_is_never_taken_for_an_output():
    assert work_folder(keys(Experiment())["train"]).startswith("work-")


def test_the_seed_is_in_the_download_key_of_the_builtin_corpus_alone(tmp_path: Path):
    files = text_files(tmp_path)
    assert "download" in changed(Experiment(), experiment(seed=2))
    assert changed(experiment(download=files), experiment(download=files, seed=2))[0] == "shuffle"
    named = {"corpus": "multi30k"}
    assert changed(experiment(download=named), experiment(download=named, seed=2))[0] == "shuffle"


def test_settings_of_another_corpus_are_not_in_the_key(tmp_path: Path):
    files = text_files(tmp_path)
    assert changed(experiment(download=files), experiment(download=files | {"train_pairs": 2_000})) == []


def test_the_content_of_user_files_is_in_the_key_and_their_names_are_not(tmp_path: Path):
    here = experiment(download=text_files(tmp_path / "a"))
    there = experiment(download=text_files(tmp_path / "b", ".txt"))
    assert changed(here, there) == []
    before = keys(there)["download"].digest
    (tmp_path / "b" / "dev.target.txt").write_text("another dev target\n", encoding="utf-8")
    assert keys(there)["download"].digest != before


def test_a_missing_user_file_is_an_error_that_names_setting_and_path(tmp_path: Path):
    wanted = experiment(download=text_files(tmp_path))
    (tmp_path / "dev.source").unlink()
    with pytest.raises(ConfigError, match=r"download\.dev\.source: .*dev\.source"):
        keys(wanted)


def test_the_definition_of_a_named_corpus_is_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    wanted = experiment(download={"corpus": "multi30k"})
    before = keys(wanted)["download"].digest
    definition = tmp_path / "corpora" / "multi30k.yaml"
    definition.parent.mkdir()
    definition.write_text("train: []\n", encoding="utf-8")
    monkeypatch.setattr(plans, "CONFIGS", tmp_path)
    assert keys(wanted)["download"].digest != before


def test_nothing_has_run_yet(store: Store):
    assert set(reasons(Experiment(), store).values()) == {"never run"}


def test_what_has_run_is_unchanged(store: Store, pretend: Pretend):
    pretend(Experiment())
    assert set(reasons(Experiment(), store).values()) == {"unchanged"}
    assert set(reasons(Experiment(), store, thorough=True).values()) == {"unchanged"}


def test_a_changed_setting_is_told_with_its_values_and_later_stages_follow(store: Store, pretend: Pretend):
    previous = pretend(Experiment())
    found = reasons(experiment(clean={"max_words": 60}), store, previous)
    assert found["download"] == "unchanged"
    assert found["clean"] == "clean.max_words 80 → 60"
    assert found["tokenize"] == "after clean"
    assert found["learn_bpe"] == "after tokenize"
    assert found["score"] == "after train"
    assert found["report"] == "after clean, tokenize, learn_bpe, shuffle, train, score"


def test_a_changed_seed_is_told(store: Store, pretend: Pretend):
    previous = pretend(Experiment())
    found = reasons(experiment(seed=2), store, previous)
    assert "seed 1 → 2" in found["download"]
    assert found["clean"] == "after download"


def test_several_changed_settings_are_all_told(store: Store, pretend: Pretend):
    previous = pretend(Experiment())
    found = reasons(experiment(tokenize={"lowercase": True, "escape": False}), store, previous)
    assert found["tokenize"] == "tokenize.escape true → false; tokenize.lowercase false → true"


def test_changed_code_and_libraries_are_told_by_name(store: Store, pretend: Pretend, monkeypatch: pytest.MonkeyPatch):
    previous = pretend(Experiment())
    real_digests, real_version = plans.digests, plans.version
    monkeypatch.setattr(plans, "digests", lambda *modules: real_digests(*modules) | {"nmt.corpus.text": "0" * 16})
    monkeypatch.setattr(plans, "version", lambda name: "9.9" if name == "sacremoses" else real_version(name))
    found = reasons(Experiment(), store, previous)
    assert "code nmt.corpus.text" in found["clean"]
    assert "library sacremoses" in found["tokenize"] and "→ 9.9" in found["tokenize"]


def test_the_previous_run_of_that_name_is_compared_with_first(store: Store, pretend: Pretend):
    mine = pretend(experiment(clean={"max_words": 70}))
    pretend(experiment(clean={"max_words": 50}))  # newer, but somebody else's
    assert reasons(experiment(clean={"max_words": 60}), store, mine)["clean"] == "clean.max_words 70 → 60"


def test_without_a_previous_run_another_output_is_compared_with(store: Store, pretend: Pretend):
    pretend(experiment(clean={"max_words": 50}))
    assert reasons(experiment(clean={"max_words": 60}), store)["clean"] == "clean.max_words 50 → 60"


def test_a_removed_output_is_told(store: Store, pretend: Pretend):
    previous = pretend(Experiment())
    (store.folder("clean", previous["clean"]) / "manifest.json").unlink()
    found = reasons(Experiment(), store, previous)
    assert found.pop("clean") == "its output was removed"
    assert set(found.values()) == {"unchanged"}


def test_a_removed_output_is_not_explained_by_another_one(store: Store, pretend: Pretend):
    pretend(experiment(clean={"max_words": 60}))
    previous = pretend(Experiment())
    (store.folder("tokenize", previous["tokenize"]) / "manifest.json").unlink()
    found = reasons(Experiment(), store, previous)
    assert found["tokenize"] == "its output was removed"
    assert found["clean"] == "unchanged"


def test_an_altered_file_is_told_and_only_its_stage_would_run(store: Store, pretend: Pretend):
    previous = pretend(Experiment())
    (store.folder("tokenize", previous["tokenize"]) / "file").write_text("x", encoding="utf-8")
    found = reasons(Experiment(), store, previous)
    assert found.pop("tokenize").startswith("file file has 1 bytes instead of")
    assert set(found.values()) == {"unchanged"}


@pytest.mark.parametrize(
    ("value", "text"), [(80, "80"), (True, "true"), (None, "null"), ("tokens", "tokens"), ("x" * 61, "x" * 57 + "…")]
)
def test_values_are_shown_short_and_as_in_yaml(value: Any, text: str):
    assert plans.shown(value) == text
