"""Runs by name: `data/runs/<name>/` says what a run's result is and which stage outputs it is made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from nmt import atomic
from nmt.config import Experiment, data_folder
from nmt.errors import RunError, choices
from nmt.store.manifest import Manifest
from nmt.store.store import Store


class StageResult(BaseModel):
    """How one stage went."""

    name: str
    key: str
    cached: bool
    seconds: float
    reason: str


class Result(BaseModel):
    """A finished run, for machines."""

    name: str
    config: dict[str, Any]
    bleu: float
    signature: str
    chrf: float
    tokens_bleu: float | None = None  # on lower-cased tokens: see nmt.scoring.metrics
    tokens_signature: str = ""
    stages: list[StageResult] = Field(default_factory=list)
    report: str
    model: str

    @property
    def stage_keys(self) -> dict[str, str]:
        """The key of each stage's output."""
        return {stage.name: stage.key for stage in self.stages}

    @property
    def experiment(self) -> Experiment:
        """The settings it was run with."""
        return Experiment.model_validate(self.config)


def folder(name: str) -> Path:
    """Where a run's result is."""
    return data_folder() / "runs" / name


def names() -> list[str]:
    """All finished runs."""
    return sorted(path.parent.name for path in (data_folder() / "runs").glob("*/result.json"))


def read(name: str) -> Result:
    """A run's result by its name."""
    path = folder(name) / "result.json"
    if not path.is_file():
        hint = choices(name, names()) if names() else "there is none yet: wmtflow run config/demo.yaml"
        raise RunError(f"no finished run '{name}'; {hint}")
    try:
        return Result.model_validate_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{path} cannot be read: {error}. Run the experiment again.") from None


def previous_keys(name: str) -> dict[str, str]:
    """The stage keys of the last finished run of that name; empty if there is none."""
    try:
        return read(name).stage_keys
    except (RunError, ValueError):
        return {}


def write(experiment: Experiment, store: Store, manifests: dict[str, Manifest], stages: list[StageResult]) -> Result:
    """Record a finished run: its report beside `result.json`, which is written last."""
    target = folder(experiment.name)
    page = manifests["report"]
    for name in page.outputs:
        atomic.copy(store.file(page, name), target / name)
    test = manifests["score"].counts["test"]
    result = Result(
        name=experiment.name,
        config=experiment.model_dump(mode="json"),
        bleu=test["bleu"],
        signature=test["signature"],
        chrf=test["chrf"],
        tokens_bleu=test["tokens_bleu"],
        tokens_signature=test["tokens_signature"],
        stages=stages,
        report=str(target / "report.html"),
        model=str(store.folder("train", manifests["train"].key) / "model"),
    )
    atomic.write_text(target / "result.json", json.dumps(result.model_dump(), indent=1, ensure_ascii=False) + "\n")
    return result
