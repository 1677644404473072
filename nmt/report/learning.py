"""The questions about the learning curve: time, progress, overfitting, learning rate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nmt.model.schedule import learning_rate
from nmt.report.facts import Facts, Parts
from nmt.report.shown import percent, plural, short, span, way_down

BLEU_GAIN = 0.2  # BLEU: less than this is within the noise of a dev set of some thousand sentences
LOSS_GAIN = 0.01  # share of the dev loss: less than this is flat
FEWEST = 4  # evaluations below which there is no trend
OVERFIT = 0.01  # share by which dev loss must have risen past its minimum


def training_time(facts: Facts) -> Parts:
    """Question 1: training, evaluations, and the stage around them."""
    summary, stage = facts.summary, facts.manifests["train"]
    steps, seconds, evaluating = summary["steps"], summary["training_seconds"], summary["evaluation_seconds"]
    figures = {
        "training_seconds": seconds,
        "evaluation_seconds": evaluating,
        "stage_seconds": stage.seconds,
        "steps": steps,
        "seconds_per_step": seconds / steps,
        "ranks": facts.experiment.train.ranks,
    }
    # A resumed training has seconds from earlier sittings; the stage knows only its last one.
    resumed = stage.seconds < seconds + evaluating
    whole = "the stage's last sitting took" if resumed else "with start-up, checkpoints and export the stage took"
    text = (
        f"{steps:,} steps took {span(seconds)}, {short(seconds / steps)} each, on {plural(figures['ranks'], 'rank')}. "
        f"{plural(len(facts.evals), 'evaluation')} took {span(evaluating)} more; {whole} {span(stage.seconds)}."
    )
    return span(seconds), text, figures, "train/metrics.jsonl and the train stage's manifest"


def fully_trained(facts: Facts) -> Parts:
    """Question 2: does the last quarter of the evaluations still better what came before it?"""
    bleus, losses = ([float(row[name]) for row in facts.evals] for name in ("bleu", "loss"))
    evidence = f"plots “Dev BLEU” and “Loss”; dev BLEU by sacreBLEU, {facts.dev_signature}"
    best = max(range(len(bleus)), key=bleus.__getitem__)
    figures: dict[str, Any] = {
        "evaluations": len(bleus),
        "best_dev_bleu": bleus[best],
        "best_step": facts.evals[best]["step"],
    }
    if len(bleus) < FEWEST:
        text = (
            f"It cannot be told: a trend needs {FEWEST} evaluations or more and this run made {len(bleus)}. "
            f"Lower train.eval_every (now {facts.experiment.train.eval_every:,}) or train longer."
        )
        return "cannot be told", text, {"verdict": "unknown", **figures}, evidence
    tail = max(2, math.ceil(len(bleus) / 4))
    gain = max(bleus[-tail:]) - max(bleus[:-tail])
    fall = 1 - min(losses[-tail:]) / min(losses[:-tail])
    figures |= {"last_evaluations": tail, "bleu_gain": gain, "loss_fall": fall}
    rule = (
        f"rule: less than {BLEU_GAIN} BLEU and {percent(LOSS_GAIN)} of loss in the last quarter of evaluations is flat"
    )
    if gain >= BLEU_GAIN:
        verdict, word = "rising", "No: dev BLEU was still rising"
    elif fall >= LOSS_GAIN:
        verdict, word = "loss falling", "Not quite: dev BLEU is flat, but dev loss was still falling"
    else:
        verdict, word = "flat", "Yes: dev BLEU and dev loss are flat"
    text = (
        f"{word}. The last {tail} evaluations changed the best dev BLEU by {gain:+.2f} and the lowest dev loss by "
        f"{-fall * 100:+.1f} % ({rule}); the best was {bleus[best]:.2f} at step {facts.evals[best]['step']:,}."
    )
    asked, patience = facts.experiment.train.steps, facts.experiment.train.patience
    if facts.summary["steps"] < asked:
        text += (
            f" It stopped by itself at step {facts.summary['steps']:,} of {asked:,}: "
            f"{patience} evaluations in a row were no better (train.patience)."
        )
    if facts.summary["steps"] <= facts.experiment.train.warmup:
        text += " The run ended within its warm-up, so the learning rate never fell: any verdict is early."
    return (
        {"rising": "no, still rising", "loss falling": "not quite", "flat": "yes"}[verdict],
        text,
        {"verdict": verdict, **figures},
        evidence,
    )


def overfitting(facts: Facts) -> Parts:
    """Question 3: did dev loss rise past its minimum while training loss went on falling?"""
    evidence = "plot “Loss”; train/metrics.jsonl, nll (nats per piece, without label smoothing)"
    dev = [float(row["nll"]) for row in facts.evals]
    low = min(range(len(dev)), key=dev.__getitem__)
    last, lowest, step = dev[-1], dev[low], facts.evals[low]["step"]
    now, then = train_nll(facts, facts.evals[-1]["step"]), train_nll(facts, step)
    figures = {
        "dev_nll": last, "lowest_dev_nll": lowest, "lowest_step": step, "train_nll": now,
        "gap": last - now, "rise": last / lowest - 1, "epochs": facts.summary["epochs"],
    }  # fmt: skip
    drop = " (with dropout on, which raises it)" if facts.experiment.train.dropout else ""
    gap = f"At the end dev nll is {last:.3f} and training nll{drop} {now:.3f}"
    once = not facts.summary["epochs"] and facts.experiment.shuffle.copies == 1
    fresh = " No pair was seen twice, so there was nothing to learn by heart." if once else ""
    if len(dev) < 2:
        text = f"It cannot be told from one evaluation. {gap}.{fresh}"
        return "cannot be told", text, {"verdict": "unknown", **figures}, evidence
    if last <= lowest * (1 + OVERFIT):
        text = (
            f"No: dev nll did not rise {percent(OVERFIT)} or more past its minimum, {lowest:.3f} at step {step:,}. "
            f"{gap}.{fresh}"
        )
        return "no", text, {"verdict": "no", **figures}, evidence
    rose = f"dev nll rose {percent(last / lowest - 1)} past its minimum of {lowest:.3f} at step {step:,}"
    if now < then:
        text = (
            f"Yes, overfitting: {rose}, while training nll fell from {then:.3f} to {now:.3f}. "
            "The better model is the one near that step."
        )
        return "yes", text, {"verdict": "yes", **figures}, evidence
    text = (
        f"No, but something else: {rose}, and training nll did not fall either ({then:.3f} to {now:.3f}), "
        "which points to instability."
    )
    return "no, but unstable", text, {"verdict": "unstable", **figures}, evidence


def train_nll(facts: Facts, step: int) -> float:
    """Training nll around a step: the mean of the five records up to it."""
    before = [float(row["nll"]) for row in facts.trains if row["step"] <= step]
    return float(np.mean(before[-5:] or [float(facts.trains[0]["nll"])]))


def rate_explained(facts: Facts) -> Parts:
    """Question 6: the schedule with this run's numbers, and whether what was logged follows it."""
    train, steps = facts.experiment.train, int(facts.summary["steps"])
    factor, width, warmup, ends = train.learning_rate, train.width, train.warmup, train.rate_ends

    def scheduled(step: int) -> float:
        return learning_rate(step - 1, factor, width, warmup, ends)

    peak, end = scheduled(min(warmup, steps)), scheduled(steps)
    off = max(abs(float(row["learning_rate"]) / scheduled(row["step"]) - 1) for row in facts.trains)
    fall = f"{warmup:,}^-0.5 · ({ends + 1:,} - n) / {ends + 1 - warmup:,}" if ends else "n^-0.5"
    formula = f"{factor:g} · {width}^-0.5 · min(n · {warmup:,}^-1.5, {fall})"
    figures = {
        "factor": factor, "width": width, "warmup": warmup, "formula": formula, "peak": peak,
        "peak_step": min(warmup, steps), "final": end, "largest_deviation": off,
    }  # fmt: skip
    if steps > warmup:
        shape = (
            f"rises in a straight line over train.warmup = {warmup:,} steps to {peak:.3g}, then falls "
            f"{way_down(ends)} to {end:.3g}"
        )
    else:
        shape = f"only rises, to {end:.3g}: the run's {steps:,} steps ended before train.warmup = {warmup:,}"
    held = "The logged rates follow it" if off < 1e-3 else f"The logged rates differ from it by up to {percent(off)}"
    names = "train.learning_rate, train.width, train.warmup" + (", train.rate_ends" if ends else "")
    text = f"The rate {shape}. At step n it is {formula}: {names}. {held}."
    return f"peak {peak:.3g}", text, figures, "plot “Learning rate”; settings of train"


def step_time(facts: Facts) -> Parts:
    """Question 10: mean over all steps; median and slowest over the logged stretches."""
    rows, every = facts.trains, facts.experiment.train.log_every
    times = [float(row["step_seconds"]) for row in rows]
    mean = facts.summary["training_seconds"] / facts.summary["steps"]
    slowest = max(rows, key=lambda row: float(row["step_seconds"]))
    figures = {
        "mean": mean,
        "median": float(np.median(times)),
        "slowest": float(slowest["step_seconds"]),
        "slowest_step": slowest["step"],
        "stretches": len(times),
    }
    first = ", the first, in which TensorFlow also builds its graph" if slowest is rows[0] and len(rows) > 1 else ""
    text = (
        f"{short(mean)} on average. Over stretches of up to {every:,} steps, the median is {short(figures['median'])}; "
        f"the slowest, up to step {slowest['step']:,}{first}, took {short(slowest['step_seconds'])} a step."
    )
    return short(mean), text, figures, "plot “Step time”; train/metrics.jsonl"
