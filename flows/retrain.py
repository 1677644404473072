"""Retraining, as a schedule runs it: a new model takes the champion's place only if it is not worse."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.events import emit_event
from prefect.states import Completed
from pydantic import Field

from flows.experiment import Config, Name, Override, Ranks, Steps, chosen_settings, experiment
from nmt import champions
from nmt.config import data_folder
from nmt.report.page import escape_markdown
from nmt.runs import Result
from nmt.scoring.compare import Comparison
from nmt.store.store import Store
from tasks import artifacts
from tasks.champion import compare, promote, sources

Outcome = Literal["promoted", "refused", "unchanged"]
PROMOTED, REFUSED, UNCHANGED = "wmtflow.champion.promoted", "wmtflow.champion.refused", "wmtflow.champion.unchanged"
EVENTS: dict[Outcome, str] = {"promoted": PROMOTED, "refused": REFUSED, "unchanged": UNCHANGED}


@flow(name="retrain")
def retrain(
    config: Config = "demo",
    ranks: Ranks = 0,
    steps: Steps = 0,
    overrides: list[Override] = [],  # noqa: B006  (Prefect copies it)
    name: Name = "",
    tolerance: Annotated[float, Field(ge=0, le=100)] = 0.5,
) -> State[Any]:
    """Look at the sources, run the experiment, and promote its model unless it is worse than the champion.

    Args:
        config: The settings: a name in config/, such as demo, or the path of a YAML file of your own.
        ranks: Training processes: one per GPU, or a few on a CPU. 0: as the settings say.
        steps: Training steps. 0: as the settings say.
        overrides: Any other setting, each as section.key=value: seed=2
        name: Whose champion this is about. Empty: the name of the settings.
        tolerance: BLEU that a new model may lose where the difference is not significant.

    Returns:
        A state named Promoted, Refused or Unchanged; each comes with an event of that name.
    """
    chosen = chosen_settings(config, ranks, steps, overrides, name)
    said, changed = sources(chosen)
    if changed:
        emit("wmtflow.sources.changed", chosen.name, {"changes": changed})
    with Store(data_folder() / "store").in_use():  # until the model is judged, nobody may clear it away
        # Under a name of its own: a model that is refused must not stand where people look for the good one.
        result = experiment(config, ranks, steps, overrides, name=f"{chosen.name[:92]}-retrain")
        assert isinstance(result, Result)
        with champions.alone(chosen.name):
            state = judge(chosen.name, result, tolerance)
    champions.note_sources(chosen.name, said)
    return state


def judge(name: str, result: Result, tolerance: float) -> State[Any]:
    """Promote a model or refuse it; one that is or was a champion is left where it is."""
    for champion in champions.versions(name):
        if champion.result.stage_keys["train"] == result.stage_keys["train"]:
            words = f"this very model is champion {champion.version} already; wmtflow champion says which is in use"
            return told("unchanged", name, result, None, words)
    comparison = compare(name, result, tolerance)
    if comparison and comparison.verdict == "worse":
        return told("refused", name, result, comparison, comparison.words())
    promoted = promote(name, result, comparison)
    why = comparison.words() if comparison else "the first of its name"
    return told("promoted", name, result, comparison, f"champion {promoted.version}: {why}")


def told(outcome: Outcome, name: str, result: Result, comparison: Comparison | None, words: str) -> State[Any]:
    """Tell the outcome as an event, as an artifact, and as the state that the run ends in."""
    payload = {"outcome": outcome, "why": words, "bleu": result.bleu, "signature": result.signature}
    payload |= comparison.model_dump() if comparison else {}
    emit(EVENTS[outcome], name, payload)
    rows = (f"| {key} | {escape_markdown(value)} |" for key, value in payload.items())
    lines = [f"# {escape_markdown(name)}: {outcome}", "", "| | |", "|:--|:--|", *rows]
    with artifacts.courtesy():
        create_markdown_artifact("\n".join(lines), artifacts.slug(f"{name}-champion"), "what became of the new model")
    return Completed(name=outcome.capitalize(), message=words)


def emit(event: str, name: str, payload: dict[str, Any]) -> None:
    """Send an event about a champion."""
    resource = {"prefect.resource.id": f"wmtflow.champion.{name}", "prefect.resource.name": name}
    emit_event(event, resource=resource, payload=payload)
