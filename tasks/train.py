"""train: encoded pairs → the finished model."""

from __future__ import annotations

from typing import Any

from nmt.store.plan import work_folder
from nmt.store.store import remove
from nmt.training.stage import train as train_model
from tasks.stage import Work, stage


@stage("train")
def train(work: Work) -> dict[str, Any]:
    """Train and evaluate the Transformer on Horovod ranks, going on from the last checkpoint."""
    name = work_folder(work.run.stage_keys["train"])
    folder = work.run.store.folder("train", name)
    with work.run.store.lock("train", name, work.say):
        if "train" in work.run.force:
            remove(folder)
        return train_model(work.experiment, work.inputs, folder, work.out, work.say)
