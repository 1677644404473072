"""The run's curves as SVG that takes its colours from the page, so that one drawing serves light and dark.

matplotlib draws in placeholder colours, which are then swapped for the page's CSS variables. Titles and
captions belong to the page and are text. The same input gives the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nmt.report.facts import Facts, Row
from nmt.report.shown import short, way_down
from nmt.report.usage import LOOPBACK, Host, busier, hosts

POINTS = 300  # most points of a curve; longer series are averaged down to it
DOTTED = 25  # a curve of so few points shows each
LONGEST = 16  # characters of a host in a legend
HOSTS = 4  # most hosts drawn in one plot
INK, RULE = "#010101", "#020202"
SERIES = ("#030301", "#030302", "#030303", "#030304")
VARIABLES = {INK: "var(--soft)", RULE: "var(--rule)"} | {
    color: f"var(--series-{n})" for n, color in enumerate(SERIES, 1)
}
STYLE: dict[str, Any] = {
    "svg.fonttype": "none", "font.size": 8.5, "axes.labelsize": 8.5, "legend.fontsize": 8.5, "legend.frameon": False,
    "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.edgecolor": RULE,
    "xtick.major.size": 3, "ytick.major.size": 0, "xtick.major.width": 0.6, "axes.linewidth": 0.6,
    "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False,
    "axes.grid": True, "axes.grid.axis": "y", "grid.color": RULE, "grid.linewidth": 0.6, "lines.linewidth": 1.5,
    "path.simplify": True, "text.parse_math": False,  # a host may be called anything
}  # fmt: skip


@dataclass(frozen=True)
class Curve:
    """A series to draw."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False


@dataclass(frozen=True)
class Plot:
    """A drawing with its words."""

    name: str
    title: str
    caption: str
    svg: str = field(repr=False)


def plots(facts: Facts) -> list[Plot]:
    """All plots the run has data for."""
    measured = [row for row in facts.trains if row["gradient_norm"] is not None]  # not where every gradient overflowed
    norms = [norm(measured)] if measured else []
    drawn = [loss(facts), bleu(facts), rate(facts), *norms, step_time(facts), speed(facts)]
    seen = hosts(facts.monitor)
    return [*drawn, processors(facts, seen), network(facts, seen)] if seen else drawn


def column(rows: list[Row], name: str) -> list[float]:
    """One figure of all rows."""
    return [float(row[name]) for row in rows]


def loss(facts: Facts) -> Plot:
    """Training and dev loss."""
    trains, evals = facts.trains, facts.evals
    low = min(evals, key=lambda row: float(row["loss"]))
    curves = [
        Curve("training", column(trains, "step"), column(trains, "loss")),
        Curve("dev", column(evals, "step"), column(evals, "loss")),
    ]
    caption = (
        f"Label-smoothed cross-entropy per piece. Training went from {trains[0]['loss']:.2f} to "
        f"{trains[-1]['loss']:.2f}; dev was lowest at {low['loss']:.2f}, step {low['step']:,}. "
        "Curves that part, dev upwards, mean overfitting."
    )
    return Plot("loss", "Loss", caption, draw("loss", "step", "nats per piece", curves, zero=False))


def bleu(facts: Facts) -> Plot:
    """Dev BLEU, and the figure on pieces that must not be mistaken for it."""
    evals = facts.evals
    best = max(evals, key=lambda row: float(row["bleu"]))
    curves = [
        Curve("sacreBLEU", column(evals, "step"), column(evals, "bleu")),
        Curve(
            "on pieces (not sacreBLEU)",
            column(evals, "step"),
            column(evals, "piece_bleu_not_sacrebleu"),
            dashed=True,
        ),
    ]
    caption = (
        f"sacreBLEU on the dev set while training, best {best['bleu']:.2f} at step {best['step']:,} "
        f"({facts.dev_signature}). The dashed line counts subword pieces, as older runs of this "
        "experiment did; it is not comparable with sacreBLEU."
    )
    return Plot("bleu", "Dev BLEU", caption, draw("bleu", "step", "BLEU", curves))


def rate(facts: Facts) -> Plot:
    """The learning rate."""
    rows, warmup, ends = facts.trains, facts.experiment.train.warmup, facts.experiment.train.rate_ends
    curves = [Curve("learning rate", column(rows, "step"), column(rows, "learning_rate"))]
    end = f"then it falls {way_down(ends)}" if rows[-1]["step"] > warmup else "which this run did not reach"
    caption = f"Straight up to the peak at step {warmup:,} (train.warmup), {end}."
    return Plot("rate", "Learning rate", caption, draw("rate", "step", "learning rate", curves))


def norm(rows: list[Row]) -> Plot:
    """The gradient's norm."""
    norms = column(rows, "gradient_norm")
    curves = [Curve("gradient norm", column(rows, "step"), norms)]
    caption = (
        f"Global norm over all weights, median {np.median(norms):.2f}, highest {max(norms):.2f}. "
        "Spikes that do not come down again are a training going wrong."
    )
    return Plot("norm", "Gradient norm", caption, draw("norm", "step", "global norm", curves))


def step_time(facts: Facts) -> Plot:
    """Seconds per step."""
    times = column(facts.trains, "step_seconds")
    curves = [Curve("step time", column(facts.trains, "step"), times)]
    caption = (
        f"Mean of each logged stretch; median {short(float(np.median(times)))}, slowest {short(max(times))}. "
        "Level is good; a rise points to the machine or the network."
    )
    return Plot("step-time", "Step time", caption, draw("step-time", "step", "seconds per step", curves))


def speed(facts: Facts) -> Plot:
    """Target pieces per second."""
    speeds = column(facts.trains, "tokens_per_second")
    curves = [Curve("speed", column(facts.trains, "step"), speeds)]
    caption = f"Target pieces per second over all ranks, padding not counted; median {np.median(speeds):,.0f}."
    return Plot("speed", "Speed", caption, draw("speed", "step", "tokens per second", curves))


def processors(facts: Facts, seen: list[Host]) -> Plot:
    """GPU utilisation of each host that has GPUs, CPU utilisation of the others."""
    curves = []
    for host in seen[:HOSTS]:
        rows, times = host_rows(facts, host)
        curves.append(Curve(f"{named(host)} {'GPUs' if host.gpus else 'CPU'}", times, [busy(row) for row in rows]))
    what = (
        "GPU utilisation, mean over a host's GPUs"
        if any(host.gpus for host in seen)
        else "No GPU; CPU utilisation of the whole machine"
    )
    caption = f"{what}{fewer(seen)}. Dips are evaluations, checkpoints or waiting."
    return Plot(
        "processors", "Processors", caption, draw("processors", time_label(facts), "percent busy", curves, top=100)
    )


def busy(row: Row) -> float:
    """How busy a sample's host was, in percent: its GPUs where it has some, else its CPU."""
    gpus = row.get("gpus") or []
    return float(np.mean([gpu["utilization"] for gpu in gpus])) if gpus else float(row.get("cpu_percent", 0.0))


def network(facts: Facts, seen: list[Host]) -> Plot:
    """Traffic of each host's busiest interface against its limit; of the loopback where there is one host."""
    curves = []
    for host in sorted(seen, key=lambda host: -host.peak)[:HOSTS]:
        rows, times = host_rows(facts, host)
        if host.interface:
            traffic = [busier(row, host.interface) * 8e-6 for row in rows]
            curves.append(Curve(f"{named(host)} {host.interface}", times, traffic))
        if len(seen) == 1:
            curves.append(Curve("loopback", times, [busier(row, LOOPBACK) * 8e-6 for row in rows]))
        elif host.limit:
            limit = host.limit * 8e-6
            curves.append(Curve(f"{limit:,.0f} Mbit/s limit", [times[0], times[-1]], [limit] * 2, dashed=True))
    unique = {curve.label: curve for curve in curves}  # hosts on equal links share a limit
    caption = (
        f"The busier direction of each host's busiest interface{fewer(seen)}. "
        "Traffic flat against a limit means that training waits for the network."
    )
    if len(seen) == 1:
        caption = "One host: what its ranks exchange, in memory or over the loopback, never meets a network."
    return Plot("network", "Network", caption, draw("network", time_label(facts), "Mbit/s", list(unique.values())))


def named(host: Host) -> str:
    """A host's name, short enough for a legend: without its domain."""
    name = host.name.partition(".")[0] or host.name
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def fewer(seen: list[Host]) -> str:
    """What a caption says when not all hosts are drawn."""
    return f" ({HOSTS} of {len(seen)} hosts drawn)" if len(seen) > HOSTS else ""


def host_rows(facts: Facts, host: Host) -> tuple[list[Row], list[float]]:
    """A host's monitor rows and their time since the first sample of all, in the unit of `time_label`."""
    rows = [row for row in facts.monitor if row["host"] == host.name]
    start = min(float(row["time"]) for row in facts.monitor)
    unit = time_unit(facts)[0]
    return rows, [(float(row["time"]) - start) / unit for row in rows]


def time_unit(facts: Facts) -> tuple[float, str]:
    """Minutes for short runs, hours for long ones: (seconds, name)."""
    times = column(facts.monitor, "time")
    return (3600.0, "hours") if max(times) - min(times) > 3 * 3600 else (60.0, "minutes")


def time_label(facts: Facts) -> str:
    """The title of a time axis."""
    return f"{time_unit(facts)[1]} since monitoring began"


def thinned(curve: Curve) -> tuple[Any, Any]:
    """A curve's points, averaged in equal groups down to `POINTS` at most."""
    x, y = np.asarray(curve.x, float), np.asarray(curve.y, float)
    if len(x) <= POINTS:
        return x, y
    groups = np.array_split(np.arange(len(x)), POINTS)
    return np.array([x[group].mean() for group in groups]), np.array([y[group].mean() for group in groups])


def draw(
    name: str, x_label: str, y_label: str, curves: Sequence[Curve], zero: bool = True, top: float | None = None
) -> str:
    """One SVG of some curves, from zero up unless told otherwise."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    style: Any = {**STYLE, "svg.hashsalt": name}  # matplotlib types every key
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(4.4, 2.6), layout="constrained")
        axes = figure.add_subplot()
        for number, curve in enumerate(curves):
            x, y = thinned(curve)
            axes.plot(
                x, y, label=curve.label, color=SERIES[number % len(SERIES)], clip_on=False, solid_capstyle="round",
                linestyle=(0, (4, 2)) if curve.dashed else "-", marker="o" if len(x) <= DOTTED else "", markersize=3,
            )  # fmt: skip
        if zero:
            axes.set_ylim(bottom=0, top=top)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=x_label == "step"))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(tick))
        axes.yaxis.set_major_formatter(FuncFormatter(tick))
        if len(curves) > 1:
            axes.legend(
                loc="lower left",
                bbox_to_anchor=(0, 1),
                ncols=3 if sum(len(curve.label) for curve in curves) < 50 else 1,
                borderaxespad=0.2,
                handlelength=1.8,
                columnspacing=1.2,
            )
        file = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    return inlined(file.getvalue(), name)


def tick(value: float, _: int) -> str:
    """An axis label: thousands apart, no needless zeros."""
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.3g}"


def inlined(svg: str, name: str) -> str:
    """A drawing ready to stand inside a page: its colours from the page, its ids its own, nothing fetched."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg)  # the page decides; the viewBox keeps the shape
    svg = re.sub(r" ?font-family: [^;\"]*;", "", svg)  # the page's own typeface
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", svg, flags=re.DOTALL)  # would style the whole page
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = svg.replace(' id="', f' id="{name}-').replace('href="#', f'href="#{name}-').replace("url(#", f"url(#{name}-")
    for color, variable in VARIABLES.items():
        svg = svg.replace(color, variable)
    return svg
