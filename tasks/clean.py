"""clean: training pairs → those worth training on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nmt.corpus.clean import clean as clean_pairs
from tasks.stage import Work, stage


@stage("clean")
def clean(work: Work) -> dict[str, Any]:
    """Drop pairs that are empty, too long or too unlike in length, or that a filter objects to, and count why."""
    train, *held_out = (split_files(work, split) for split in ("train", "dev", "test"))
    return clean_pairs(*train, work.out, work.experiment.clean, held_out)


def split_files(work: Work, split: str) -> tuple[Path, Path]:
    """The source and target text of one split."""
    source, target = (work.inputs["download"] / f"{split}.{language}" for language in work.languages)
    return source, target
