"""Settings: every file in config/ is right, and everything that is wrong is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import CONFIGS, Experiment, Settings, TrainSettings, data_folder
from nmt.errors import ConfigError, RequestError
from nmt.model.processor import settled
from nmt.settings_file import apply_override, check, find, load

FILES = sorted(CONFIGS.glob("*.yaml"))
SECTIONS = [name for name, field in Experiment.model_fields.items() if isinstance(field.default, Settings)]


def write(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(content: dict[Any, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        check(content, "mine.yaml")
    assert caught.value.exit_status == 2
    return str(caught.value)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_in_config_loads(path: Path):
    experiment = load(path)
    assert experiment.name == path.stem
    for section, values in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        for key, value in values.items():
            assert getattr(getattr(experiment, section), key) == value


def test_there_are_files_in_config():
    assert {"demo", "multi30k", "wmt16-base", "wmt16-big"} <= {path.stem for path in FILES}


def test_a_config_is_found_by_name_by_path_and_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert load("demo") == load(CONFIGS / "demo.yaml") == load("config/demo.yaml")


def test_a_path_goes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "seed: 77", "demo")
    assert load("demo").seed == 77


def test_an_empty_file_means_the_defaults(tmp_path: Path):
    assert load(write(tmp_path, "# nothing\n")) == Experiment(name="mine", train=settled(TrainSettings(), gpu=False))


def test_the_name_comes_from_the_file_the_content_or_the_caller(tmp_path: Path):
    path = write(tmp_path, "seed: 1", "Mine.yaml")
    assert load(path).name == "mine"
    assert load(write(tmp_path, "name: other")).name == "other"
    assert load(path, name="third").name == "third"
    assert load(write(tmp_path, "seed: 1", "_My first, 2nd.yaml")).name == "my-first-2nd"


def test_a_missing_file_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"no settings file 'dmeo'; did you mean 'demo'\?") as caught:
        find("dmeo")
    assert isinstance(caught.value, RequestError) and caught.value.exit_status == 2


def test_a_missing_file_like_no_other_lists_all_names():
    with pytest.raises(ConfigError, match="valid: demo, multi30k, wmt16-base, wmt16-big"):
        find("config/zzzzzz.yaml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("train: [", "cannot be read as YAML"),
        ("train:\n\tsteps: 1", "cannot be read as YAML"),
        ("- train\n- score", "found list"),
        ("just words", "found str"),
        ("name: 2024-99-99", "YAML"),  # PyYAML raises a bare ValueError for a date that cannot be
    ],
)
def test_text_that_holds_no_settings_is_refused_with_the_file(text: str, told: str, tmp_path: Path):
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=told) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"name: caf\xe9")
    with pytest.raises(ConfigError, match="cannot be read as YAML"):
        load(path)


REFUSED: list[tuple[dict[Any, Any], tuple[str, ...]]] = [
    ({"trian": {}}, ("trian", "unknown key", "did you mean 'train'?")),
    ({"train": {"layer": 2}}, ("train.layer:", "unknown key", "did you mean 'layers'?")),
    ({"clean": {"zzzzzz": 2}}, ("clean.zzzzzz", "unknown key", "valid: detect_language, drop_duplicates, ")),
    ({"download": {"corpus": "files", "train": {"sourc": "x"}}}, ("download.train.sourc", "did you mean 'source'?")),
    ({"train": {"layers": -1}}, ("train.layers", "greater than or equal to 1", "-1")),
    ({"train": {"layers": 65}}, ("train.layers", "less than or equal to 64", "65")),
    ({"train": {"dropout": 1}}, ("train.dropout", "less than 1", "1")),
    ({"train": {"dropout": float("nan")}}, ("train.dropout", "nan")),
    ({"train": {"learning_rate": float("inf")}}, ("train.learning_rate", "inf")),
    ({"clean": {"max_ratio": float("inf")}}, ("clean.max_ratio", "inf")),
    ({"train": {"steps": "many"}}, ("train.steps", "valid integer", "'many'")),
    ({"train": {"steps": 2.5}}, ("train.steps", "valid integer", "2.5")),
    ({"train": {"steps": None}}, ("train.steps", "valid integer", "None")),
    ({"train": {"layers": [1]}}, ("train.layers", "valid integer", "[1]")),
    ({"train": {"layers": True}}, ("train.layers", "integer", "True")),
    ({"train": 5}, ("train:", "5")),
    ({"train": {"batch_unit": "words"}}, ("train.batch_unit", "'pairs' or 'tokens'", "'words'")),
    ({"tokenize": {"lowercase": "perhaps"}}, ("tokenize.lowercase", "valid boolean", "'perhaps'")),
    ({"train": {"rate_ends": 900, "steps": 901, "warmup": 9}}, ("train", "rate_ends 900", "steps (901)")),
    ({"train": {"rate_ends": 900, "steps": 900, "warmup": 900}}, ("train", "rate_ends 900", "warmup (900)")),
    ({"clean": {"min_words": 81}}, ("clean", "min_words 81", "max_words 80")),
    ({"train": {"width": 100, "heads": 3}}, ("train", "width 100", "multiple of heads (3)")),
    ({"train": {"width": 9, "heads": 3}}, ("train", "width 9", "even")),
    ({"download": {"corpus": "wmt61"}}, ("download", "corpus", "'wmt61'", "did you mean 'wmt16'?")),
    ({"download": {"corpus": "zzzzzz"}}, ("corpus", "'zzzzzz'", "valid: builtin, files, multi30k, wmt16")),
    ({"download": {"corpus": "files"}}, ("download", "'files'", "dev", "test", "train", "source and target")),
    ({"download": {"train": {"source": "a", "target": "b"}}}, ("download", "train", "only for corpus 'files'")),
    ({"source": "de"}, ("source and target", "'de'")),
    ({"source": "english"}, ("source", "'english'")),
    ({"name": "My Run"}, ("name", "'My Run'")),
    ({"name": "../up"}, ("name", "'../up'")),
    ({1: 2}, ("1",)),
]


@pytest.mark.parametrize(("content", "told"), REFUSED, ids=[json.dumps(content) for content, _ in REFUSED])
def test_what_is_wrong_is_refused_with_its_key_its_value_and_what_is_allowed(
    content: dict[Any, Any], told: tuple[str, ...]
):
    message = refusal(content)
    assert message.startswith("mine.yaml:")
    for part in told:
        assert part in message


def test_a_split_of_corpus_files_that_is_missing_is_named():
    files = {"source": "a.en", "target": "a.de"}
    message = refusal({"download": {"corpus": "files", "train": files, "test": files}})
    assert "missing" in message and "dev" in message.rpartition("missing")[2]
    assert "train" not in message.rpartition("missing")[2]


def test_several_errors_are_listed_at_once():
    message = refusal({"train": {"layers": -1, "stesp": 5}, "clean": {"min_words": 81}, "seed": "x"})
    lines = message.splitlines()
    assert lines[0] == "mine.yaml:"
    found = [line.strip().partition(":")[0] for line in lines[1:]]
    assert sorted(found) == ["clean", "seed", "train.layers", "train.stesp"]


@given(
    st.sampled_from(
        [(section, key) for section in SECTIONS for key in getattr(Experiment(), section).__class__.model_fields]
    ),
    st.integers(0, 20),
)
def test_a_misspelt_key_of_any_section_is_refused_with_its_path(place: tuple[str, str], at: int):
    section, key = place
    wrong = key[: at % len(key)] + "x" + key[at % len(key) :]
    if wrong in type(getattr(Experiment(), section)).model_fields:
        return
    assert f"{section}.{wrong}: unknown key" in refusal({section: {wrong: 1}})


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("train.steps=500", "train", "steps", 500),
        ("train.learning_rate=1e-1", "train", "learning_rate", 0.1),
        ("tokenize.lowercase=true", "tokenize", "lowercase", True),
        ("train.batch_unit=tokens", "train", "batch_unit", "tokens"),
        ("clean.max_words=1_0", "clean", "max_words", 10),
    ],
)
def test_a_set_reaches_its_key_and_only_that(override: str, section: str, key: str, value: Any):
    plain, changed = load("demo").model_dump(), load("demo", [override]).model_dump()
    assert changed[section].pop(key) == value
    plain[section].pop(key)
    assert changed == plain


def test_sets_go_deep_and_the_last_one_wins(tmp_path: Path):
    splits = [
        f"download.{split}.{side}={tmp_path}/{split}.{side}"
        for split in ("train", "dev", "test")
        for side in ("source", "target")
    ]
    experiment = load("demo", ["download.corpus=files", *splits, "seed=5", "seed=6"])
    assert experiment.seed == 6
    assert experiment.download.dev is not None and experiment.download.dev.target == tmp_path / "dev.target"


@pytest.mark.parametrize("override", ["train.steps", "=5", "train..steps=5", ".steps=5", "train.=5", ""])
def test_a_set_without_key_and_value_is_refused_with_an_example(override: str):
    with pytest.raises(ConfigError, match=r"expected section\.key=value, for example train\.steps=500"):
        load("demo", [override])


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("name.x=1", "'name' holds a value, not a section"),
        ("train.steps.x=1", "'steps' holds a value, not a section"),
        ("train=5", "train: "),
        ("train.steps=[", "not valid YAML"),
        ("train.steps=2024-99-99", "2024-99-99"),
        ("train.stesp=5", "train.stesp: unknown key; did you mean 'steps'?"),
        ("train.steps=", "train.steps: "),
    ],
)
def test_a_set_that_cannot_be_is_refused(override: str, told: str):
    with pytest.raises(ConfigError) as caught:
        load("demo", [override])
    assert told in str(caught.value)


@given(st.dictionaries(st.sampled_from(["a", "b"]), st.integers()), st.sampled_from(["a", "b", "c"]), st.integers())
def test_an_override_changes_one_entry(content: dict[str, Any], key: str, value: int):
    changed = dict(content)
    apply_override(changed, f"{key}={value}")
    assert changed == content | {key: value}


SPEED = {
    "download": {"mirror", "at_once"},
    "tokenize": {"workers"},
    "train": {
        *("threads", "xla", "checkpoint_minutes", "log_every"),
        *("launcher", "shared_memory", "fusion_mb", "cycle_ms", "stall_seconds"),
    },
    "score": {"batch_tokens", "threads"},
}


@pytest.mark.parametrize("section", SECTIONS)
def test_key_settings_leave_out_what_changes_only_speed(section: str):
    settings: Settings = getattr(Experiment(), section)
    left_out = type(settings).model_fields.keys() - settings.key_settings().keys()
    assert left_out >= SPEED.get(section, set())
    assert left_out <= SPEED.get(section, set()) | {"workers", "threads"}
    assert json.loads(json.dumps(settings.key_settings())) == settings.key_settings()


def test_an_experiment_survives_json():
    for path in FILES:
        experiment = load(path)
        assert Experiment.model_validate(json.loads(json.dumps(experiment.model_dump(mode="json")))) == experiment


def test_settings_cannot_be_changed_after_the_check():
    with pytest.raises(ValueError, match="frozen"):
        Experiment().seed = 5


def test_the_data_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("WMTFLOW_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.setenv("WMTFLOW_DATA", "")
    assert data_folder() == CONFIGS.parent / "data"


def test_what_would_change_nothing_is_refused():
    assert "copies 3 without bpe_dropout would store the same pairs again" in refusal({"shuffle": {"copies": 3}})
    still = {"dropout": 0.0, "r_drop": 4.0}
    assert "r_drop 4.0 needs dropout" in refusal({"train": still})
    check({"shuffle": {"copies": 3, "bpe_dropout": 0.1}, "train": still | {"word_dropout": 0.1}}, "mine.yaml")
