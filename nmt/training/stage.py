"""train: encoded pairs in → the finished model, its metrics, TensorBoard events and last checkpoint.

Seen from the process that runs the pipeline; no TensorFlow here. The work itself is done by
`python -m nmt.training`, on as many ranks as asked for, in a work folder that outlives a failed run: what
is published is linked out of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.cluster.launch import run, training_command
from nmt.config import Experiment, ScoreSettings
from nmt.corpus.bpe import read_vocabulary
from nmt.corpus.encode import load
from nmt.decoding.translate import LONGEST
from nmt.progress import Advance, progress
from nmt.store.store import link, link_tree, remove
from nmt.training import checkpoints
from nmt.training.job import Job
from nmt.training.pulse import Watch
from nmt.training.records import read


def train(
    experiment: Experiment, inputs: Mapping[str, Path], work: Path, out: Path, say: Callable[[str], None]
) -> dict[str, Any]:
    """Train in `work`, going on from the newest checkpoint there, and fill `out`. Returns the figures of it."""
    work.mkdir(parents=True, exist_ok=True)
    source, target = experiment.source, experiment.target
    vocabulary = inputs["learn_bpe"] / "vocabulary.tsv"
    job = Job(
        train=experiment.train,
        # Not experiment.score: a beam chosen for the test set must not make a training another one.
        decode=ScoreSettings(max_length=longest_translation(inputs["shuffle"])),
        tokenize=experiment.tokenize,
        source=source,
        target=target,
        seed=experiment.seed,
        vocabulary_size=len(read_vocabulary(vocabulary)),
        work=work,
        data=inputs["shuffle"],
        codes=inputs["learn_bpe"] / "codes",
        vocabulary=vocabulary,
        dev_source=inputs["download"] / f"dev.{source}",
        dev_target=inputs["download"] / f"dev.{target}",
        export=out / "model",
    )
    for left_behind in work.glob(".eval-*"):  # by an evaluation that was killed
        remove(left_behind)
    path = work / "job.json"
    path.write_text(job.model_dump_json(indent=1) + "\n", encoding="utf-8")
    watched = Watch(work / "pulse", experiment.train.ranks, experiment.train.stall_seconds)
    with progress("train", experiment.train.steps, "steps") as advance:
        run(training_command(job, path), say, Progress(watched, advance))
    last = checkpoints.listed(work / "checkpoints")[-1]
    link_tree(last, out / "checkpoint")
    link_tree(work / "tensorboard", out / "tensorboard")
    link(work / "metrics.jsonl", out / "metrics.jsonl")
    shutil.copyfile(work / "monitor.jsonl", out / "monitor.jsonl")  # a copy: a training that goes on appends to it
    return summary(job, last, read(work / "metrics.jsonl"))


def longest_translation(data: Path) -> int:
    """Pieces after which a dev translation is cut off: 50 more than any source has, as in the Transformer's paper."""
    lengths = np.diff(load(data, "dev").source_offsets)
    return min(int(lengths.max(initial=0)) + 50, LONGEST)


class Progress:
    """Looks after the ranks, and moves the bar that a person at a terminal sees."""

    def __init__(self, watched: Watch, advance: Advance) -> None:
        self.watched, self.advance, self.shown = watched, advance, 0

    def __call__(self) -> str | None:
        """What is wrong, if anything is."""
        trouble = self.watched.look()
        self.advance(self.watched.step - self.shown)
        self.shown = self.watched.step
        return trouble


def folder_for(work: Path, steps: int) -> Path:
    """The work folder; another one beside it if this one has gone past the wanted step already."""
    there = checkpoints.listed(work / "checkpoints")
    state = checkpoints.read_state(there[-1]) if there else None
    return work.with_name(f"{work.name}-{steps}") if state and state.step > steps else work


def summary(job: Job, last: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of a finished training."""
    evals = [row for row in rows if row["kind"] == "eval"]
    trains = [row for row in rows if row["kind"] == "train"]
    best = max(evals, key=lambda row: row["bleu"])
    files = {path.name: path.stat().st_size for path in sorted(last.iterdir())}
    return {
        "steps": trains[-1]["step"],
        "epochs": trains[-1]["epoch"],
        "parameters": job.shape.parameters,
        "training_seconds": trains[-1]["seconds"],
        "evaluation_seconds": round(sum(row["eval_seconds"] for row in evals), 3),
        "dev_bleu": evals[-1]["bleu"],
        "dev_loss": round(evals[-1]["loss"], 4),
        "best_dev_bleu": best["bleu"],
        "best_step": best["step"],
        "stopped_early": trains[-1]["step"] < job.train.steps,
        "checkpoint": {"name": last.name, "files": files, "bytes": sum(files.values())},
    }
