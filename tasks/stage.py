"""How every stage is keyed, cached, verified, retried and shown.

Prefect caches the small result of a task, the manifest, under the stage's key. It never looks at files, so
each call first asks the store whether the output is there and whole; where it is not, Prefect is told to
run the task whatever its cache says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import get_run_logger, task
from pydantic import BaseModel, ConfigDict

from nmt.config import ClusterSettings, Experiment, StageName, data_folder
from nmt.store.manifest import Key, Manifest
from nmt.store.plan import BY_NAME, keys
from nmt.store.store import Store
from tasks.cluster import spread

BY_BLOCKS = ("clean", "tokenize", "learn_bpe", "shuffle")  # the stages that work on blocks of lines
Say = Callable[[str], None]


class Run(BaseModel):
    """One run of an experiment: its settings, the key of each stage, and which stages to make again."""

    model_config = ConfigDict(frozen=True)

    experiment: Experiment
    stage_keys: dict[str, Key]
    data: Path
    force: list[StageName] = []

    @classmethod
    def of(cls, experiment: Experiment, force: list[StageName]) -> Run:
        """A run with the keys that follow from the settings and the code as they are now."""
        return cls(experiment=experiment, stage_keys=keys(experiment), data=data_folder(), force=force)

    @property
    def store(self) -> Store:
        """Where outputs are."""
        return Store(self.data / "store")

    def whole(self, stage: str) -> bool:
        """Whether a stage's output can be used as it is."""
        manifest = self.store.find(stage, self.stage_keys[stage].digest)
        return stage not in self.force and manifest is not None and self.store.problem(manifest) is None


@dataclass(frozen=True)
class Work:
    """What a stage's function is given: settings, the folders and manifests of its inputs, and where to write."""

    run: Run
    manifests: dict[str, Manifest]
    out: Path
    say: Say

    @property
    def experiment(self) -> Experiment:
        """The settings."""
        return self.run.experiment

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.experiment.source, self.experiment.target

    @property
    def inputs(self) -> dict[str, Path]:
        """The folder of each input."""
        return {name: self.run.store.folder(name, manifest.key) for name, manifest in self.manifests.items()}


class StageTask:
    """A stage as a Prefect task. Call it with the run and the manifests of its inputs, in the order of the plan."""

    def __init__(self, name: StageName, work: Callable[[Work], dict[str, Any]], options: dict[str, Any]) -> None:
        self.name = name
        self.work = work
        make_task = task(
            name=name,
            task_run_name=name,
            description=work.__doc__,
            cache_key_fn=lambda _, parameters: f"{name}-{parameters['run'].stage_keys[name].digest}",
            persist_result=True,
            result_serializer="json",
            **options,
        )
        self.task = make_task(self.make)

    def __call__(self, run: Run, *inputs: Manifest) -> Manifest:
        """The stage's output: from the store if it is there and whole, else made."""
        refresh = not run.whole(self.name)
        return Manifest.model_validate(self.task.with_options(refresh_cache=refresh)(run, *inputs))

    def spread(self, work: Work) -> dict[str, Any]:
        """The work, where the settings want it done."""
        with spread(work.experiment.cluster if self.name in BY_BLOCKS else ClusterSettings()):
            return self.work(work)

    def make(self, run: Run, *inputs: Manifest) -> Manifest:
        """What Prefect runs: the work, under the store's lock."""
        say = get_run_logger().info
        manifests = {manifest.stage: manifest for manifest in (Manifest.model_validate(value) for value in inputs)}
        missing = set(BY_NAME[self.name].inputs) ^ manifests.keys()
        assert not missing, f"{self.name} is called with the wrong inputs: {missing}"
        manifest, cached = run.store.build(
            run.stage_keys[self.name],
            lambda out: self.spread(Work(run, manifests, out, say)),
            say,
            force=self.name in run.force,
        )
        say(f"{self.name}: " + ("in the store already" if cached else summary(manifest)))
        return manifest


def stage(name: StageName, **options: Any) -> Callable[[Callable[[Work], dict[str, Any]]], StageTask]:
    """Make a function that fills a folder and returns counts into the stage's task."""
    return lambda work: StageTask(name, work, options)


def summary(manifest: Manifest) -> str:
    """One line on what a stage left: its counts, size and time."""
    return f"{flat(manifest.counts)}; {manifest.bytes / 1e6:,.1f} MB in {manifest.seconds:,.1f} s"


def flat(counts: dict[str, Any], prefix: str = "") -> str:
    """Nested counts on one line."""
    parts = []
    for name, value in counts.items():
        if isinstance(value, dict):
            parts.append(flat(value, f"{prefix}{name}."))
        elif isinstance(value, (int, float)):
            parts.append(f"{prefix}{name} {value:,}")
    return ", ".join(part for part in parts if part)
