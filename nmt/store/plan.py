"""The stages of an experiment, their keys, and why each is cached or would run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config import CONFIGS, Experiment, StageName
from nmt.errors import ConfigError, RequestError
from nmt.store.code import digests
from nmt.store.manifest import Key, Manifest, record, short_digest, version
from nmt.store.store import Store


@dataclass(frozen=True)
class Stage:
    """A stage that leaves files: its modules, the stages it reads, and what else its key covers."""

    name: StageName
    modules: tuple[str, ...]
    inputs: tuple[StageName, ...]
    shared: tuple[str, ...] = ()  # settings of the experiment as a whole
    libraries: tuple[str, ...] = ()  # packages whose version decides the bytes


STAGES = (
    Stage("download", ("nmt.corpus.download",), (), ("source", "target"), ("sacrebleu",)),
    Stage("clean", ("nmt.corpus.clean",), ("download",), ("source", "target"), ("pycld2",)),
    Stage("tokenize", ("nmt.corpus.tokenize",), ("download", "clean"), ("source", "target"), ("sacremoses",)),
    Stage("learn_bpe", ("nmt.corpus.bpe",), ("tokenize",), ("source", "target"), ("subword-nmt",)),
    Stage(
        "shuffle", ("nmt.corpus.encode",), ("clean", "tokenize", "learn_bpe"), ("source", "target", "seed"), ("numpy",)
    ),
    Stage(
        "train",
        ("nmt.training.stage", "nmt.training.__main__"),
        ("download", "tokenize", "learn_bpe", "shuffle"),
        ("source", "target", "seed"),
        ("tensorflow-cpu", "tensorflow", "ctranslate2"),
    ),
    Stage("score", ("nmt.scoring.score",), ("download", "train"), ("source", "target"), ("sacrebleu", "ctranslate2")),
    Stage(
        "report",
        ("nmt.report.report",),
        ("download", "clean", "tokenize", "learn_bpe", "shuffle", "train", "score"),
        ("name", "source", "target"),
    ),
)
BY_NAME = {stage.name: stage for stage in STAGES}
# Settings of train that say how far to go and what to keep, not what is done on the way.
EXTENDING = ("steps", "average", "average_of", "keep", "keep_best", "patience")
SHOWN = 4  # differences told for a stage
ORDER: tuple[StageName, ...] = ("preflight", *(stage.name for stage in STAGES))


@dataclass(frozen=True)
class Planned:
    """What is to become of one stage."""

    key: Key
    cached: bool
    reason: str


def keys(experiment: Experiment) -> dict[str, Key]:
    """The key of every stage, in order. Nothing is run: keys follow from settings, code and other keys."""
    found: dict[str, Key] = {}
    for stage in STAGES:
        found[stage.name] = Key(
            stage=stage.name,
            settings=stage_settings(stage, experiment),
            inputs={name: found[name].digest for name in stage.inputs},
            code=digests(*stage.modules),
            libraries={name: version(name) for name in stage.libraries if version(name) != "none"},
        )
    return found


def plan(experiment: Experiment, store: Store, previous: dict[str, str], thorough: bool = False) -> list[Planned]:
    """For each stage: is its output there and whole, and if not, what changed.

    `previous` maps stages to the keys this run's name had last time; other outputs of the stage are
    compared with where it has none.
    """
    planned: list[Planned] = []
    for key in keys(experiment).values():
        manifest = store.find(key.stage, key.digest)
        if manifest is None:
            reason = why_new(key, store, previous)
        else:
            reason = store.problem(manifest, thorough) or ""
        planned.append(Planned(key, cached=not reason, reason=reason or "unchanged"))
    return planned


def require_earlier(planned: list[Planned], first: StageName | None) -> None:
    """Refuse to start in the middle when something before it is missing."""
    if first is None or first == "preflight":
        return
    names = [item.key.stage for item in planned]
    missing = [item for item in planned[: names.index(first)] if not item.cached]
    if missing:
        told = ", ".join(f"{item.key.stage} ({item.reason})" for item in missing)
        raise RequestError(f"cannot begin at {first}: not in the store: {told}. Begin at {missing[0].key.stage}.")


def why_new(key: Key, store: Store, previous: dict[str, str]) -> str:
    """Why there is no output for `key` yet, told as the difference from the one before."""
    if previous.get(key.stage) == key.digest:
        return "its output was removed"
    before = store.find(key.stage, previous.get(key.stage, ""))
    if before is None:
        others = store.manifests(key.stage)
        before = others[-1] if others else None
    if before is None:
        return "never run"
    parts = [f"{path} {shown(old)} → {shown(new)}" for path, old, new in differences(before, key)]
    inputs = [name for name, value in key.inputs.items() if before.inputs.get(name) != value]
    if not parts and inputs:
        return "after " + ", ".join(inputs)
    if len(parts) > SHOWN:  # most likely another experiment altogether
        parts[SHOWN:] = [f"and {len(parts) - SHOWN} more"]
    return "; ".join(parts) or "its output was removed"


def differences(before: Manifest | Key, key: Key) -> list[tuple[str, Any, Any]]:
    """Settings, code and libraries that differ: (name, value before, value now)."""
    found = []
    for name in sorted(before.settings.keys() | key.settings.keys()):
        old, new = before.settings.get(name), key.settings.get(name)
        if old != new:
            found.append((name if "." in name else f"{key.stage}.{name}", old, new))
    for title, olds, news in (("code", before.code, key.code), ("library", before.libraries, key.libraries)):
        for name in sorted(olds.keys() | news.keys()):
            if olds.get(name) != news.get(name):
                found.append((f"{title} {name}", olds.get(name), news.get(name)))
    return found


def shown(value: Any) -> str:
    """A value as `status` prints it: short, and as YAML would have it."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"


def stage_settings(stage: Stage, experiment: Experiment) -> dict[str, Any]:
    """The settings a stage's output depends on: its own section, and what it shares."""
    settings: dict[str, Any] = getattr(experiment, stage.name).key_settings()
    if stage.name == "download":
        settings = download_settings(experiment, settings)
    return settings | {f"experiment.{name}": getattr(experiment, name) for name in stage.shared}


def download_settings(experiment: Experiment, settings: dict[str, Any]) -> dict[str, Any]:
    """Only what matters to the chosen corpus, with the content of files rather than their names."""
    corpus = experiment.download.corpus
    if corpus == "builtin":
        sizes = {name: settings[name] for name in ("train_pairs", "dev_pairs", "test_pairs", "dirt")}
        return {"corpus": corpus, **sizes, "experiment.seed": experiment.seed}
    if corpus == "files":
        found = {"corpus": corpus}
        for split in ("train", "dev", "test"):
            for side, path in settings[split].items():
                if not Path(path).is_file():
                    raise ConfigError(f"download.{split}.{side}: there is no file {path}")
                found[f"{split}.{side}"] = record(Path(path)).sha256
        return found
    return {"corpus": corpus, "definition": short_digest((CONFIGS / "corpora" / f"{corpus}.yaml").read_text())}


def work_folder(key: Key) -> str:
    """The name of a training's work folder: its key without what merely extends a training."""
    settings = {name: value for name, value in key.settings.items() if name not in EXTENDING}
    return "work-" + short_digest(key.model_copy(update={"settings": settings}).model_dump(mode="json"))
