"""What a report is made of: the files and manifests of all stages, read once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config import Experiment
from nmt.corpus.sources import corpus
from nmt.corpus.text import Pair, read_lines, read_pairs
from nmt.errors import StoreError
from nmt.store.manifest import Manifest
from nmt.training.records import read

Row = dict[str, Any]
Parts = tuple[str, str, dict[str, Any], str]  # an answer: in short, in full, in figures, and its evidence
DROPPED_SHOWN = 3  # dropped pairs shown per reason


@dataclass(frozen=True)
class Sample:
    """A sentence of the test set and what became of it."""

    line: int
    source: str
    reference: str
    output: str


@dataclass(frozen=True)
class Facts:
    """All that the answers, plots and pages draw on."""

    experiment: Experiment
    manifests: Mapping[str, Manifest]
    trains: list[Row]
    evals: list[Row]
    monitor: list[Row]
    scores: dict[str, Row]
    samples: list[Sample]
    dropped: dict[str, list[Pair]]

    @property
    def summary(self) -> dict[str, Any]:
        """The figures the train stage summed itself up with."""
        return self.manifests["train"].counts

    @property
    def dev_signature(self) -> str:
        """How dev BLEU was counted while training."""
        return str(self.evals[-1]["signature"])

    @property
    def checkpoint(self) -> dict[str, int]:
        """The checkpoint's files and their bytes."""
        outputs = self.manifests["train"].outputs.items()
        return {name.partition("/")[2]: record.bytes for name, record in outputs if name.startswith("checkpoint/")}

    @property
    def gradient_bytes(self) -> int:
        """What one rank's gradients take when they travel."""
        return int(self.summary["parameters"]) * (2 if self.experiment.train.fp16_compression else 4)

    @property
    def update_bytes(self) -> float:
        """What a host sends, and receives, in one update: a ring over N ranks passes on 2(N-1)/N of the gradients."""
        ranks = self.experiment.train.ranks
        return 2 * (ranks - 1) / ranks * self.gradient_bytes


def gather(experiment: Experiment, manifests: Mapping[str, Manifest], folders: Mapping[str, Path]) -> Facts:
    """Read what the stages left in `folders`."""
    metrics = folders["train"] / "metrics.jsonl"
    rows = read(metrics)
    trains = [row for row in rows if row["kind"] == "train"]
    evals = [row for row in rows if row["kind"] == "eval"]
    if not trains or not evals:
        raise StoreError(
            f"{metrics}: expected at least one training and one evaluation record, found {len(trains)} and "
            f"{len(evals)}. Delete {folders['train']} and run again."
        )
    return Facts(
        experiment=experiment,
        manifests=manifests,
        trains=trains,
        evals=evals,
        monitor=[row for row in read(folders["train"] / "monitor.jsonl") if {"time", "host"} <= row.keys()],
        scores=json.loads((folders["score"] / "scores.json").read_text(encoding="utf-8")),
        samples=samples(experiment, folders),
        dropped=dropped(folders["clean"] / "dropped.tsv"),
    )


def samples(experiment: Experiment, folders: Mapping[str, Path]) -> list[Sample]:
    """As many test sentences as the settings ask for, spread evenly over the set."""
    source, target = (folders["download"] / f"test.{language}" for language in (experiment.source, experiment.target))
    pairs = list(read_pairs(source, target))
    outputs = [output for _, output in read_pairs(target, folders["score"] / f"test.{experiment.target}")]
    count = min(experiment.report.samples, len(pairs))
    lines = [(2 * number + 1) * len(pairs) // (2 * count) for number in range(count)]
    return [Sample(line + 1, *pairs[line], outputs[line]) for line in lines]


def dropped(path: Path) -> dict[str, list[Pair]]:
    """A few dropped pairs of each reason."""
    found: dict[str, list[Pair]] = {}
    for line in read_lines(path) if path.exists() else ():
        reason, source, target = (*line.split("\t", 2), "", "")[:3]
        pairs = found.setdefault(reason, [])
        if len(pairs) < DROPPED_SHOWN:
            pairs.append((source, target))
    return dict(sorted(found.items()))


def set_name(experiment: Experiment, split: str) -> str:
    """What a test or dev set is called where its score is quoted."""
    settings = experiment.download
    if settings.corpus == "builtin":
        return f"built-in {split} set"
    if settings.corpus == "files":
        return f"{split} set {getattr(settings, split).target.name}"
    return " + ".join(part.name for part in getattr(corpus(settings.corpus), split))
