"""The tasks of a retraining around the experiment: have the sources changed, is the new model as good?"""

from __future__ import annotations

from pathlib import Path

from prefect import get_run_logger, task

from nmt import champions
from nmt.config import Experiment, data_folder
from nmt.corpus import changes
from nmt.decoding.translate import Translator
from nmt.errors import RequestError
from nmt.runs import Result
from nmt.scoring.compare import Comparison
from nmt.scoring.compare import compare as compare_models
from nmt.store.store import Store


@task(name="sources", task_run_name="sources")
def sources(experiment: Experiment) -> tuple[dict[str, str], list[str]]:
    """Ask every source whether it has changed, without fetching it; returns what they say, and what has changed."""
    log, before = get_run_logger(), champions.sources(experiment.name)
    now = changes.look(experiment)
    silent = [name for name, said in now.items() if said == changes.UNKNOWN]
    if silent:
        log.warning("no answer from %s", ", ".join(silent))
    told = changes.differences(before, now) + changes.unlike_definition(experiment, now)
    for line in told:
        log.warning("source changed: %s", line)
    if not told:
        log.info("no source has changed" if before or not now else "the sources are looked at for the first time")
    return {name: before.get(name, said) if said == changes.UNKNOWN else said for name, said in now.items()}, told


@task(name="compare", task_run_name="compare")
def compare(name: str, result: Result, tolerance: float) -> Comparison | None:
    """The new model beside the champion on the new run's test set; None where there is no champion yet."""
    champion = champions.find(name)
    if champion is None:
        get_run_logger().info("%s has no champion yet", name)
        return None
    experiment = result.experiment
    before = champion.result.experiment
    if (before.source, before.target) != (experiment.source, experiment.target):
        raise RequestError(
            f"champion {champion.version} of {name} translates {before.source} to {before.target}, and this model "
            f"{experiment.source} to {experiment.target}. Give it a name of its own (parameter name)."
        )
    text = Store(data_folder() / "store").folder("download", result.stage_keys["download"])
    source, target = (text / f"test.{language}" for language in (experiment.source, experiment.target))
    new, old = (Translator(Path(each.model), each.experiment.score) for each in (result, champion.result))
    comparison = compare_models(new, old, source, target, tolerance)
    get_run_logger().info(comparison.words())
    return comparison


@task(name="promote", task_run_name="promote")
def promote(name: str, result: Result, comparison: Comparison | None) -> champions.Champion:
    """Put the new model in the champion's place and keep the old one beside it."""
    champion = champions.promote(name, result, comparison)
    get_run_logger().info("champion %d of %s: %s", champion.version, name, champion.folder)
    return champion
