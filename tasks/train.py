"""train: encoded pairs → the finished model."""

from __future__ import annotations

from typing import Any

from nmt.store.plan import work_folder
from nmt.store.store import remove
from nmt.store.unfinished import begin
from nmt.training.stage import folder_for
from nmt.training.stage import train as train_model
from tasks.artifacts import Live
from tasks.stage import Work, stage


@stage("train")
def train(work: Work) -> dict[str, Any]:
    """Train and evaluate the Transformer on Horovod ranks, going on from the last checkpoint."""
    name, store = work_folder(work.run.stage_keys["train"]), work.run.store
    with store.lock("train", name, work.say):
        folder = folder_for(store.folder("train", name), work.experiment.train.steps)
        if "train" in work.run.force:
            remove(folder)
        if words := begin(store, folder, work.run.stage_keys["train"]):
            work.say(words)
        live = Live(work.run, folder, work.say)
        counts = train_model(work.experiment, work.inputs, folder, work.out, live)
        live.look()
        return counts
