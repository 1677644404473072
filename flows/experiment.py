"""The whole experiment: from a corpus by name to a scored model and a report that explains it."""

from __future__ import annotations

import time
from typing import Annotated

from prefect import flow
from pydantic import Field

from nmt import config as settings
from nmt import runs
from nmt.config import StageName
from nmt.runs import Result, StageResult
from nmt.store.manifest import Manifest
from nmt.store.plan import ORDER, Planned, plan, require_earlier
from tasks.clean import clean
from tasks.download import download
from tasks.learn_bpe import learn_bpe
from tasks.preflight import preflight
from tasks.report import report
from tasks.score import score
from tasks.shuffle import shuffle
from tasks.stage import Run, StageTask
from tasks.tokenize import tokenize
from tasks.train import train

STAGES = {stage.name: stage for stage in (download, clean, tokenize, learn_bpe, shuffle, train, score, report)}


@flow(name="experiment", flow_run_name="{config}")
def experiment(
    config: Annotated[str, Field(description="a settings file, or a name in config/")] = "demo",
    overrides: Annotated[list[str], Field(description="section.key=value, each")] = [],  # noqa: B006  (Prefect copies it)
    name: Annotated[str | None, Field(description="the run's name; the settings file's name if empty")] = None,
    start: Annotated[StageName | None, Field(description="begin here; earlier stages must be in the store")] = None,
    only: Annotated[StageName | None, Field(description="run this stage alone")] = None,
    force: Annotated[bool, Field(description="make the stages again even if they are in the store")] = False,
) -> Result | None:
    """Run the experiment; stages whose output is in the store and whole are not run again."""
    chosen = settings.load(config, overrides, name)
    run = Run.of(chosen, forced(start, only) if force else [])
    planned = plan(chosen, run.store, runs.previous_keys(chosen.name))
    require_earlier(planned, only or start)
    with run.store.in_use():
        if only is None:
            return story(Timer(run, planned))
        if only == "preflight":
            preflight(run)
        else:
            STAGES[only].from_store(run)
        return None


def story(do: Timer) -> Result:
    """All stages in their order, and the result they lead to."""
    preflight(do.run)
    raw = do(download)
    pairs = do(clean, raw)
    tokens = do(tokenize, raw, pairs)
    merges = do(learn_bpe, tokens)
    encoded = do(shuffle, pairs, tokens, merges)
    model = do(train, raw, tokens, merges, encoded)
    scores = do(score, raw, model)
    do(report, raw, pairs, tokens, merges, encoded, model, scores)
    return runs.write(do.run.experiment, do.run.store, do.manifests, do.results)


class Timer:
    """Runs stages one after the other and notes how each went."""

    def __init__(self, run: Run, planned: list[Planned]) -> None:
        self.run = run
        self.planned = {item.key.stage: item for item in planned}
        self.manifests: dict[str, Manifest] = {}
        self.results: list[StageResult] = []

    def __call__(self, stage: StageTask, *inputs: Manifest) -> Manifest:
        """Run one stage on its inputs."""
        before, began = self.run.whole(stage.name), time.monotonic()
        manifest = stage(self.run, *inputs)
        reason = "forced" if stage.name in self.run.force else self.planned[stage.name].reason
        seconds = round(time.monotonic() - began, 3)
        self.manifests[stage.name] = manifest
        self.results.append(
            StageResult(name=stage.name, key=manifest.key, cached=before, seconds=seconds, reason=reason)
        )
        return manifest


def forced(start: StageName | None, only: StageName | None) -> list[StageName]:
    """The stages that `force` makes again: the only one, or all from the first on."""
    return [only] if only else list(ORDER[ORDER.index(start or "download") :])
