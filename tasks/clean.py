"""clean: training pairs → those worth training on."""

from __future__ import annotations

from typing import Any

from nmt.corpus.clean import clean as clean_pairs
from tasks.stage import Work, stage


@stage("clean")
def clean(work: Work) -> dict[str, Any]:
    """Drop pairs that are empty, too long or too unlike in length, and count why."""
    source, target = (work.inputs["download"] / f"train.{language}" for language in work.languages)
    return clean_pairs(source, target, work.out, work.experiment.clean)
