"""The questions about the machines: GPUs, network, and what the network did to the step time."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmt.report.facts import Facts, Parts
from nmt.report.shown import TIMES, listed, percent, rate, short, size
from nmt.report.usage import BUSY_GPU, SATURATED, Host, hosts, traffic_per_interval

UNMONITORED = "Not measured: the run left no monitor data"
ENOUGH = 5  # stretches of training below which a correlation means nothing
EVIDENCE = "plot “{}”; train/monitor.jsonl"
MISSING = "train/monitor.jsonl (absent or empty)"


def gpu_use(facts: Facts) -> Parts:
    """Question 4: each GPU's utilisation, or the CPU's where there is no GPU."""
    seen = hosts(facts.monitor)
    if not seen:
        return (
            "not measured",
            f"{UNMONITORED}, so neither GPU nor CPU utilisation is known.",
            {"verdict": "not measured"},
            MISSING,
        )
    cpus = {host.name: round(host.cpu_mean, 1) for host in seen}
    gpus = [(f"{host.name} GPU {number}", gpu) for host in seen for number, gpu in enumerate(host.gpus)]
    figures: dict[str, Any] = {
        "samples": sum(host.samples for host in seen),
        "cpu_percent": cpus,
        "gpu_percent": {place: round(gpu.mean, 1) for place, gpu in gpus},
        "memory_peak_bytes": {host.name: host.memory_peak for host in seen},
    }
    evidence = EVIDENCE.format("Processors")
    if not gpus:
        each = listed([f"{value:.0f} % on {name}" for name, value in cpus.items()])
        text = f"There was no GPU: training ran on CPUs. The mean CPU utilisation of the whole machine was {each}."
        return f"no GPU; CPU {np.mean(list(cpus.values())):.0f} %", text, {"verdict": "no GPU", **figures}, evidence
    slack = [f"{place} ({gpu.name}) {gpu.mean:.0f} %" for place, gpu in gpus if gpu.mean < BUSY_GPU]
    mean = float(np.mean([gpu.mean for _, gpu in gpus]))
    rule = f"rule: a mean of {BUSY_GPU:.0f} % or more, start-up and evaluations included"
    if slack:
        text = (
            f"No: {len(slack)} of {len(gpus)} GPUs had slack, {listed(slack)} ({rule}). Over all it was {mean:.0f} %."
        )
    else:
        text = f"Yes: all {len(gpus)} GPUs, {mean:.0f} % on average ({rule})."
    return f"{'no' if slack else 'yes'}, {mean:.0f} %", text, {"verdict": "no" if slack else "yes", **figures}, evidence


def network_use(facts: Facts) -> Parts:
    """Question 5: each host's traffic against its link."""
    seen, count = hosts(facts.monitor), facts.experiment.train.ranks
    figures: dict[str, Any] = {"hosts": {host.name: traffic(host) for host in seen}, "update_bytes": facts.update_bytes}
    if not seen:
        text = f"{UNMONITORED}, so whether the network held the run up is not known."
        return "not measured", text, {"verdict": "not measured", **figures}, MISSING
    evidence = EVIDENCE.format("Network")
    if len(seen) == 1:
        one = seen[0]
        between = (
            f"what its {count} ranks exchanged stayed on it ({rate(one.loopback)} over the loopback on average)"
            if count > 1
            else "its one rank exchanged no gradients"
        )
        text = (
            f"Yes, monitored; no bottleneck: the monitor saw one host, {one.name}, and {between}. "
            f"Traffic to the outside was {rate(one.mean)}."
        )
        return "no network used", text, {"verdict": "one host", **figures}, evidence
    limited = [host for host in seen if host.limit]
    if limited:
        each = listed([f"{host.name} {host.interface} ran at {rate(host.peak)} of {link(host)}" for host in limited])
        cure = "A faster port" if facts.experiment.train.fp16_compression else "A faster port or train.fp16_compression"
        text = (
            f"Yes, monitored, and the network was the bottleneck: {each} (95th percentile; rule: {percent(SATURATED)} "
            f"of the link's speed, or a steady rate at a usual port speed). {cure} would help."
        )
        return "yes, bottleneck", text, {"verdict": "bottleneck", **figures}, evidence
    each = listed([f"{host.name} {rate(host.peak)} of {link(host)}" for host in seen])
    known = all(host.speed for host in seen)
    found = "no bottleneck" if known else "no sign of a bottleneck"
    text = f"Yes, monitored; {found}: at their busiest (95th percentile) the links carried {each}."
    return "no bottleneck", text, {"verdict": "no bottleneck" if known else "unknown link speed", **figures}, evidence


def traffic(host: Host) -> dict[str, Any]:
    """A host's network figures, bytes per second."""
    return {
        "interface": host.interface, "mean": host.mean, "median": host.median, "peak": host.peak,
        "link": host.speed, "load": host.load, "loopback": host.loopback,
    }  # fmt: skip


def link(host: Host) -> str:
    """What a host's link can do, in words."""
    claimed = f"{host.speed * 8 / 1e6:,.0f} Mbit/s" if host.speed else "a link of unknown speed"
    capped = host.ceiling is not None and (host.load is None or host.load < SATURATED)
    return (
        f"what looks like a {(host.ceiling or 0) * 8 / 1e6:,.0f} Mbit/s port ({claimed} by its own account)"
        if capped
        else claimed
    )


def network_correlation(facts: Facts) -> Parts:
    """Question 11: step time against traffic, and the traffic that the model of a ring predicts."""
    seen, count = hosts(facts.monitor), facts.experiment.train.ranks
    step = facts.summary["training_seconds"] / facts.summary["steps"]
    figures: dict[str, Any] = {
        "ranks": count,
        "gradient_bytes": facts.gradient_bytes,
        "update_bytes": facts.update_bytes,
        "step_seconds": step,
    }
    share = f"2·({count}-1)/{count} {TIMES} {size(facts.gradient_bytes)} of gradients"
    ring = f"{share} = {size(facts.update_bytes)} per update"
    if count == 1:
        return (
            "no exchange",
            "It does not: one rank trains alone and exchanges no gradients.",
            {"verdict": "one rank", **figures},
            "settings of train",
        )
    if not seen:
        text = f"{UNMONITORED}. By calculation each host sends {ring}."
        return "not measured", text, {"verdict": "not measured", **figures}, MISSING
    if len(seen) == 1:
        text = (
            f"There is nothing to correlate: the monitor saw one host, {seen[0].name}, so there was no network between "
            f"hosts. With a rank on each of {count} hosts it would be {ring}."
        )
        return "one host", text, {"verdict": "one host", **figures}, EVIDENCE.format("Network")
    evidence = EVIDENCE.format("Network") + " and train/metrics.jsonl"
    busiest = max(seen, key=lambda host: host.mean)
    measured = busiest.median * step
    figures |= {"measured_update_bytes": measured, "measured_over_predicted": measured / facts.update_bytes}
    model = (
        f"By calculation each host sends {ring}; measured on {busiest.name}: {size(measured)} in a step of "
        f"{short(step)}, {percent(measured / facts.update_bytes)} of that."
    )
    pairs = traffic_per_interval(facts.trains, facts.evals, facts.monitor)
    figures["stretches"] = len(pairs)
    times, rates = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    if len(pairs) < ENOUGH or times.std() == 0 or rates.std() == 0:
        why = (
            "the training records carry no time of day"
            if not any("time" in row for row in facts.trains)
            else f"only {len(pairs)} stretches of training can be paired with traffic that varies"
        )
        return (
            "not computable",
            f"No correlation can be computed: {why}. {model}",
            {"verdict": "unknown", **figures},
            evidence,
        )
    r = float(np.corrcoef(times, rates)[0, 1])
    figures["correlation"] = r
    if r <= -0.5:
        sense = "an update's bytes are fixed, so slower steps mean less traffic a second"
    elif r >= 0.5:
        sense = "steps are slow when the network is busy, so something beside the gradients may share it"
    else:
        sense = "step time hardly follows the traffic"
    text = f"Correlation r = {r:+.2f} over {len(pairs)} stretches: {sense}. {model}"
    return (
        f"correlation {r:+.2f}",
        text,
        {"verdict": "correlated" if abs(r) >= 0.5 else "uncorrelated", **figures},
        evidence,
    )
