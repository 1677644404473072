"""The questions about files: the training set and the checkpoint."""

from __future__ import annotations

from typing import Any

from nmt.report.facts import Facts, Parts
from nmt.report.shown import TIMES, listed, size


def training_set(facts: Facts) -> Parts:
    """Question 7: bytes and lines, raw, cleaned and encoded."""
    raw, clean = facts.manifests["download"].outputs, facts.manifests["clean"].outputs
    names = [f"train.{language}" for language in (facts.experiment.source, facts.experiment.target)]
    encoded = sum(
        record.bytes
        for name, record in facts.manifests["shuffle"].outputs.items()
        if name.startswith("train.") and name.endswith(".npy")
    )
    figures: dict[str, Any] = {
        "raw": {name: {"bytes": raw[name].bytes, "lines": raw[name].lines} for name in names},
        "clean": {name: {"bytes": clean[name].bytes, "lines": clean[name].lines} for name in names},
        "encoded_bytes": encoded,
        "encoded_pairs": facts.manifests["shuffle"].counts["train"]["pairs"],
    }
    before, after = (sum(files[name].bytes for name in names) for files in (raw, clean))
    lines, kept = (files[names[0]].lines or 0 for files in (raw, clean))
    each = listed([f"{name} {size(raw[name].bytes)}" for name in names])
    text = (
        f"{lines:,} lines a side, {size(before)} ({each}); after cleaning {kept:,} lines, {size(after)}."
        f" Encoded for training: {figures['encoded_pairs']:,} pairs, {size(encoded)}."
    )
    return (
        f"{size(before)}, {lines:,} lines",
        text,
        figures,
        "manifests of download, clean and shuffle",
    )


def checkpoint_files(facts: Facts) -> Parts:
    """Question 8: the files, and what each is for."""
    files = facts.checkpoint
    parts = [f"{name} ({role(name)})" for name in files]
    text = f"A folder of {len(files)}: {listed(parts)}." if parts else "The train stage left no checkpoint."
    return f"{len(files)} files", text, {"files": files}, "train/checkpoint"


def role(name: str) -> str:
    """What a checkpoint's file is for."""
    if ".data-" in name:
        return "the values: weights and Adam's two moments"
    if name.endswith(".index"):
        return "where each tensor lies in the values"
    return "step, place in the data, best score, hashes" if name == "state.json" else "not one of ours"


def checkpoint_size(facts: Facts) -> Parts:
    """Question 9: measured, and as it follows from the number of parameters."""
    measured, parameters = sum(facts.checkpoint.values()), int(facts.summary["parameters"])
    expected = parameters * 12
    figures = {
        "bytes": measured,
        "parameters": parameters,
        "expected_bytes": expected,
        "difference": measured - expected,
    }
    text = (
        f"{size(measured)}. {parameters:,} parameters {TIMES} 12 bytes (a weight and Adam's two moments, 4 bytes each) "
        f"make {size(expected)}; the other {size(measured - expected)} are names, offsets and state."
    )
    if measured < expected:
        text = (
            f"{size(measured)}, less than the {size(expected)} that {parameters:,} parameters {TIMES} 12 bytes make: "
            "it does not hold everything."
        )
    return size(measured), text, figures, "train/checkpoint and the model's parameters"
