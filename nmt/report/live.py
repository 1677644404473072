"""A training under way, for a page that shows Markdown: the latest figures and curves, the pictures inside the text."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from nmt.config import Experiment
from nmt.report.page import escape_markdown
from nmt.report.plots import Curve, column, draw
from nmt.training.records import duration

# A picture inside Markdown stands alone: it brings its colours, on paper of its own for pages that are dark.
COLORS = {"soft": "#4b5563", "rule": "#d1d5db", "series-1": "#2563eb", "series-2": "#d97706"}
COLORS |= {"series-3": "#059669", "series-4": "#7c3aed"}
Row = dict[str, Any]


def training(experiment: Experiment, rows: list[Row]) -> str:
    """Markdown of what a training has recorded so far."""
    trains = [row for row in rows if row["kind"] == "train"]
    evals = [row for row in rows if row["kind"] == "eval"]
    if not trains:
        return "The first steps are being made."
    pictures = [picture("loss", "Loss", "nats per piece", losses(trains, evals), zero=False)]
    if evals:
        curve = Curve("dev BLEU", column(evals, "step"), column(evals, "bleu"))
        pictures.append(picture("bleu", "Dev BLEU", "dev BLEU", [curve]))
    speeds = Curve("speed", column(trains, "step"), column(trains, "tokens_per_second"))
    pictures.append(picture("speed", "Speed", "tokens per second", [speeds]))
    return "\n\n".join([figures(experiment, trains, evals), *pictures]) + "\n"


def figures(experiment: Experiment, trains: list[Row], evals: list[Row]) -> str:
    """The latest figures as a table."""
    last, steps = trains[-1], experiment.train.steps
    lines = [
        ("step", f"{last['step']:,} of {steps:,}"),
        ("training time so far", duration(last["seconds"])),
        ("training loss", f"{last['loss']:.4f}"),
        ("target pieces per second", f"{last['tokens_per_second']:,.0f}"),
        ("learning rate", f"{last['learning_rate']:.2e}"),
    ]
    if evals:
        best = max(evals, key=lambda row: float(row["bleu"]))
        lines.append(("dev loss", f"{evals[-1]['loss']:.4f}"))
        lines.append(("dev BLEU", f"{evals[-1]['bleu']:.2f}, best {best['bleu']:.2f} at step {best['step']:,}"))
    return "\n".join(["| | |", "|:--|--:|", *(f"| {name} | {value} |" for name, value in lines)])


def losses(trains: list[Row], evals: list[Row]) -> list[Curve]:
    """Training loss, and dev loss once there is one."""
    curves = [Curve("training", column(trains, "step"), column(trains, "loss"))]
    return [*curves, Curve("dev", column(evals, "step"), column(evals, "loss"))] if evals else curves


def picture(name: str, title: str, label: str, curves: list[Curve], zero: bool = True) -> str:
    """A drawing as a Markdown image that holds its own bytes."""
    svg = draw(name, "step", label, curves, zero=zero)
    for variable, color in COLORS.items():
        svg = svg.replace(f"var(--{variable})", color)
    look = 'xmlns="http://www.w3.org/2000/svg" width="560" style="background:#fff;font-family:sans-serif"'
    svg = svg.replace("<svg", f"<svg {look}", 1)
    return f"![{title}](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"


def dev_samples(rows: list[Row]) -> str:
    """The sample translations of the latest evaluation as Markdown; empty before the first."""
    evals = [row for row in rows if row["kind"] == "eval"]
    if not evals:
        return ""
    found = ((sample["source"], sample["reference"], sample["output"]) for sample in evals[-1]["samples"])
    return f"At step {evals[-1]['step']:,}:\n\n" + samples(found)


def samples(found: Iterable[tuple[str, str, str]]) -> str:
    """Source, reference and output of some sentences as Markdown: a list, whose lines wrap where a table's do not."""
    lines = []
    for source, reference, output in found:
        words = [escape_markdown(text) or "(empty)" for text in (source, reference, output)]
        lines += [f"- **{words[0]}**", f"  - reference: {words[1]}", f"  - output: {words[2]}"]
    return "\n".join(lines) + "\n"
