"""score: model and test set → BLEU, chrF, translations."""

from __future__ import annotations

from typing import Any

from nmt.scoring.score import score_model
from tasks.stage import Work, stage


@stage("score")
def score(work: Work) -> dict[str, Any]:
    """Translate the test and dev sets and score them with sacreBLEU."""
    return score_model(work.experiment, work.inputs["train"] / "model", work.inputs["download"], work.out)
