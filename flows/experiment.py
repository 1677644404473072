"""The whole experiment: from a corpus by name to a scored model and a report that explains it."""

from __future__ import annotations

import time
from typing import Annotated, Any

from prefect import flow
from prefect.runtime import flow_run
from pydantic import Field, WithJsonSchema

from nmt import config as settings
from nmt import runs, settings_file
from nmt.config import Experiment, StageName
from nmt.errors import RequestError
from nmt.runs import Result, StageResult
from nmt.store.manifest import Manifest
from nmt.store.plan import BY_NAME, ORDER, Planned, plan, require_earlier
from tasks import artifacts
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

STAGES = (download, clean, tokenize, learn_bpe, shuffle, train, score, report)
# What a form offers, and what a server refuses at once; whoever calls the flow from Python may name any file.
CHOICES: dict[str, Any] = {
    "anyOf": [
        {
            "title": "one of config/",
            "type": "string",
            "enum": sorted(path.stem for path in settings.CONFIGS.glob("*.yaml")),
        },
        {"title": "a file of yours", "type": "string", "pattern": r"\.ya?ml$"},
    ]
}
Config = Annotated[str, WithJsonSchema(CHOICES)]
Ranks = Annotated[int, Field(ge=0, le=1024)]
Steps = Annotated[int, Field(ge=0, le=10_000_000)]
Name = Annotated[str, Field(pattern=f"^$|{settings.NAME}", max_length=100)]
Override = Annotated[str, Field(pattern=r"^[a-z_]+(\.[a-z0-9_]+)*=.*$")]


@flow(name="experiment")
def experiment(
    config: Config = "demo",
    ranks: Ranks = 0,
    steps: Steps = 0,
    overrides: list[Override] = [],  # noqa: B006  (Prefect copies it)
    name: Name = "",
    start: StageName = "preflight",
    until: StageName = "report",
    force: bool = False,
) -> Result | None:
    """Run the experiment; stages whose output is in the store and whole are not run again.

    Args:
        config: The settings: a name in config/, such as demo, or the path of a YAML file of your own.
        ranks: Training processes: one per GPU, or a few on a CPU. 0: as the settings say.
        steps: Training steps. Asking for more than before continues the training. 0: as the settings say.
        overrides: Any other setting, each as section.key=value: train.dropout=0.2
        name: The run's name, under which its results are kept. Empty: the name of the settings.
        start: Begin at this stage; everything before it must be in the store. preflight is the first.
        until: Stop after this stage; report is the last.
        force: Make the stages again even if their output is in the store.

    Returns:
        The result, once the last stage is done.
    """
    chosen = chosen_settings(config, ranks, steps, overrides, name)
    again = (flow_run.run_count or 1) > 1  # a retry finishes what was forced; it does not throw it away again
    run = Run.of(chosen, span(start, until) if force and not again else [])
    planned = plan(chosen, run.store, runs.previous_keys(chosen.name))
    require_earlier(planned, start)
    if not span(start, until):
        raise RequestError(f"until {until} comes before start {start}: there is nothing to do")
    with run.store.in_use():
        return story(Timer(run, planned), until)


def chosen_settings(config: str, ranks: int, steps: int, overrides: list[str], name: str) -> Experiment:
    """The settings that a run's parameters amount to."""
    quick = {"train.ranks": ranks, "train.steps": steps}
    given = [f"{setting}={value}" for setting, value in quick.items() if value]
    return settings_file.load(config, [*overrides, *given], name or None)


def story(do: Timer, until: StageName) -> Result | None:
    """The stages in their order, each on what the stages before it left, and the result they lead to."""
    preflight(do.run)
    for stage in STAGES if until != "preflight" else ():
        do(stage)
        artifacts.show(do.run, do.manifests)
        if stage.name == until and until != "report":
            return None
    return runs.write(do.run.experiment, do.run.store, do.manifests, do.results) if until == "report" else None


class Timer:
    """Runs stages one after the other and notes how each went."""

    def __init__(self, run: Run, planned: list[Planned]) -> None:
        self.run = run
        self.planned = {item.key.stage: item for item in planned}
        self.manifests: dict[str, Manifest] = {}
        self.results: list[StageResult] = []

    def __call__(self, stage: StageTask) -> None:
        """Run one stage on what it reads of the stages before."""
        before, began = self.run.whole(stage.name), time.monotonic()
        manifest = stage(self.run, *(self.manifests[name] for name in BY_NAME[stage.name].inputs))
        reason = "forced" if stage.name in self.run.force else self.planned[stage.name].reason
        seconds = round(time.monotonic() - began, 3)
        self.manifests[stage.name] = manifest
        self.results.append(
            StageResult(name=stage.name, key=manifest.key, cached=before, seconds=seconds, reason=reason)
        )


def span(start: StageName, until: StageName) -> list[StageName]:
    """The stages from one to another, both included."""
    return list(ORDER[ORDER.index(start) : ORDER.index(until) + 1])
