"""What a run shows of itself on its page in Prefect: tables, curves, samples, scores, the report.

An artifact is a courtesy. Where the server cannot take one (it is being restarted, say), the run goes on.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from prefect import get_run_logger
from prefect.artifacts import (
    MarkdownArtifact,
    ProgressArtifact,
    create_markdown_artifact,
    create_table_artifact,
)
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.exceptions import PrefectException

from nmt import runs
from nmt.report import live
from nmt.report.counts import LINES, counts
from nmt.report.facts import samples, set_name
from nmt.store.manifest import Manifest
from nmt.training.records import read
from tasks.stage import Run

EVERY = 10.0  # seconds between two looks at a training under way
DRAWN = 60.0  # and between two drawings of its curves, which take time from a training on the same cores
REPORTS = "WMTFLOW_REPORTS_URL"  # where data/runs is served, if it is: see flows.ui


def show(run: Run, manifests: dict[str, Manifest]) -> None:
    """Show what the last of these stages left, whether it was made now or found in the store."""
    stage, manifest = list(manifests.items())[-1]
    with courtesy():
        if stage in LINES:
            found = counts(run.experiment, {stage: manifest})
            told = [{"what": each.what, "count": each.value, "note": each.note} for each in found]
            create_table_artifact(told, key(run, stage), f"{stage}: what came out, and what was dropped on the way")
        elif stage == "train":
            for artifact in of_training(run, read(run.store.folder(stage, manifest.key) / "metrics.jsonl")):
                create(artifact)
        elif stage == "score":
            show_scores(run, manifests)
        elif stage == "report":
            show_report(run, manifest)


def of_training(run: Run, rows: list[dict[str, Any]]) -> list[Any]:  # Prefect's types know no `_sync`
    """The curves so far, and the sample translations of the latest evaluation."""
    curves = MarkdownArtifact(
        key=key(run, "curves"), markdown=live.training(run.experiment, rows), description="training: figures and curves"
    )
    samples = MarkdownArtifact(
        key=key(run, "dev-samples"), markdown=live.dev_samples(rows), description="samples of the dev set"
    )
    return [curves, samples] if samples.markdown else [curves]


def show_scores(run: Run, manifests: dict[str, Manifest]) -> None:
    """Scores with their signatures, and samples of the test set."""
    experiment, scores = run.experiment, manifests["score"].counts
    rows = []
    for split, found in scores.items():
        name = set_name(experiment, split)
        rows.append({"set": name, "metric": "BLEU", "score": found["bleu"], "signature": found["signature"]})
        rows.append({"set": name, "metric": "chrF", "score": found["chrf"], "signature": found["chrf_signature"]})
        if experiment.tokenize.lowercase:
            lower = {"score": found["tokens_bleu"], "signature": found["tokens_signature"]}
            rows.append({"set": name, "metric": "BLEU on lower-cased tokens", **lower})
    create_table_artifact(rows, key(run, "scores"), "scores by sacreBLEU, each with its signature")
    folders = {name: run.store.folder(name, manifest.key) for name, manifest in manifests.items()}
    chosen = live.samples((each.source, each.reference, each.output) for each in samples(experiment, folders))
    create_markdown_artifact(chosen, key(run, "samples"), "sample translations of the test set")


def show_report(run: Run, manifest: Manifest) -> None:
    """The whole report, with a link to the page that has the plots."""
    page = runs.folder(run.experiment.name) / "report.html"
    served = os.environ.get(REPORTS)
    link = f"{served.rstrip('/')}/{run.experiment.name}/report.html" if served else page.as_uri()
    head = f"**[The report with its plots]({link})**, on the machine that ran it: `{page}`\n\n"
    text = run.store.file(manifest, "report.md").read_text(encoding="utf-8")
    create_markdown_artifact(head + text, key(run, "report"), "the report: eleven questions answered")


class Live:
    """Follows a training: passes its lines on, and every few seconds shows how far it is.

    Its artifacts are updated in place: a training of days must not leave thousands of pictures in Prefect's database.
    """

    def __init__(self, run: Run, folder: Path, say: Callable[[str], None]) -> None:
        self.run, self.folder, self.say = run, folder, say
        self.shown: dict[str, UUID] = {}
        self.looked = self.drawn = -DRAWN

    def __call__(self, line: str) -> None:
        """Take a line that the training printed."""
        self.say(line)
        if time.monotonic() - self.looked >= EVERY:
            self.look()

    def look(self) -> None:
        """Show what is recorded by now."""
        self.looked = now = time.monotonic()
        experiment, rows = self.run.experiment, read(self.folder / "metrics.jsonl")
        step, total = max((row["step"] for row in rows), default=0), experiment.train.steps
        told = f"training: step {step:,} of {total:,}"
        bar = ProgressArtifact(key=key(self.run, "progress"), progress=min(100.0, 100 * step / total), description=told)
        drawings = of_training(self.run, rows) if now - self.drawn >= DRAWN else []
        self.drawn = now if drawings else self.drawn
        with courtesy(), get_client(sync_client=True) as client:
            for artifact in (bar, *drawings):
                if artifact.key in self.shown:
                    update = ArtifactUpdate(data=artifact.format(_sync=True), description=artifact.description)
                    client.update_artifact(self.shown[artifact.key], update)
                else:
                    self.shown[artifact.key] = create(artifact)


def create(artifact: Any) -> UUID:
    """Make an artifact of the run we are in; returns its id."""
    made: UUID = artifact.create(_sync=True).id
    return made


def key(run: Run, what: str) -> str:
    """The key of one of a run's artifacts."""
    return slug(f"{run.experiment.name}-{what}")


def slug(text: str) -> str:
    """A key as Prefect allows it: small letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text).strip("-")


@contextmanager
def courtesy() -> Iterator[None]:
    """Whatever keeps the server from taking an artifact is logged, and no more."""
    try:
        yield
    except (httpx.HTTPError, PrefectException, OSError) as error:
        get_run_logger().warning("no artifact this time: %s", error or type(error).__name__)
