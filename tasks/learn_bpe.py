"""learn_bpe: tokens of both languages → merges and the joint vocabulary."""

from __future__ import annotations

from typing import Any

from nmt.corpus.bpe import learn
from tasks.stage import Work, stage


@stage("learn_bpe")
def learn_bpe(work: Work) -> dict[str, Any]:
    """Learn the joint subword vocabulary."""
    files = [work.inputs["tokenize"] / f"train.{language}" for language in work.languages]
    return learn(files, work.out, work.experiment.learn_bpe)
