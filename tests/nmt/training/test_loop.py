"""The loop in one process, with no Horovod: it learns, resumes exactly, and stops on bad numbers."""

import json

import numpy as np
import pytest
import tensorflow as tf

from nmt.errors import TrainingError
from nmt.training import checkpoints
from nmt.training.batches import Position
from nmt.training.loop import Trainer
from nmt.training.ranks import Alone
from nmt.training.records import duration, read


def losses(job):
    return [
        (row["step"], row["loss"], row["gradient_norm"])
        for row in read(job.work / "metrics.jsonl")
        if row["kind"] == "train"
    ]


def test_it_learns(job):
    settings = job(steps=40, eval_every=40, checkpoint_every=40, dropout=0.0, learning_rate=1.0)
    Trainer(settings, Alone()).run()
    rows = losses(settings)
    assert [step for step, *_ in rows] == list(range(1, 41))
    assert rows[-1][1] < rows[0][1] - 0.5


def test_a_stopped_run_gives_the_losses_of_one_never_stopped(job):
    whole, stopped = job("whole", steps=6), job("stopped", steps=3)
    Trainer(whole, Alone()).run()
    Trainer(stopped, Alone()).run()
    more = stopped.model_copy(update={"train": stopped.train.model_copy(update={"steps": 6})})
    Trainer(more, Alone()).run()
    assert losses(more) == losses(whole)  # to the last digit: weights, moments, data position, dropout
    last = [checkpoints.listed(done.work / "checkpoints")[-1] for done in (whole, more)]
    for name in whole.shape.weights():
        first, second = (checkpoints.average([path], [name])[name] for path in last)
        np.testing.assert_array_equal(first, second)


def test_what_came_after_the_checkpoint_is_done_again_not_twice(job):
    settings = job(steps=6)
    Trainer(settings, Alone()).run()
    before = losses(settings)
    newest = checkpoints.listed(settings.work / "checkpoints")[-1]
    (newest / "weights.index").unlink()  # as if the kill had come before the last checkpoint
    with (settings.work / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "st')  # and in the middle of a line
    Trainer(settings, Alone()).run()
    assert losses(settings) == before


def test_every_evaluation_and_scalar_is_recorded(job):
    settings = job(steps=6)
    Trainer(settings, Alone()).run()
    rows = [row for row in read(settings.work / "metrics.jsonl") if row["kind"] == "eval"]
    assert [row["step"] for row in rows] == [3, 6]
    assert all(row["loss"] > 0 and 0 <= row["bleu"] <= 100 and len(row["samples"]) == 3 for row in rows)
    tags = set()
    for path in (settings.work / "tensorboard").glob("*tfevents*"):
        for raw in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(raw.numpy())
            tags |= {value.tag for value in event.summary.value}
    assert {"train_loss", "eval_loss", "eval_BLEU", "learning_rate", "global_gradient_norm", "steps_per_second"} <= tags


def test_two_batches_as_one_or_summed_give_the_same_update(job):
    """What two ranks do, without Horovod: gradients of two half batches, summed, against one whole batch."""
    whole = Trainer(job("whole", batch=400, dropout=0.0), Alone())
    batch = next(whole.batches(Position()))
    halves = []
    for rank in range(2):
        trainer = Trainer(job("half", batch=200, dropout=0.0), TwoRanks(rank))
        halves.append(next(trainer.batches(Position())))
    assert sorted([*halves[0].pairs, *halves[1].pairs]) == sorted(batch.pairs)
    expected = gradients(whole, batch)
    summed = [a + b for a, b in zip(gradients(whole, halves[0]), gradients(whole, halves[1]), strict=True)]
    for one, two in zip(expected, summed, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-4)


def gradients(trainer, batch):
    with tf.GradientTape() as tape:
        loss = trainer.model.losses(batch.source, batch.target, 0.1, lambda x: x)[0]
    return [tf.convert_to_tensor(value).numpy() for value in tape.gradient(loss, list(trainer.model.weights.values()))]


class TwoRanks(Alone):
    size = 2

    def __init__(self, rank):
        self.rank = rank


def test_a_loss_that_is_not_a_number_stops_before_the_next_checkpoint(job):
    settings = job(steps=6)
    trainer = Trainer(settings, Alone())
    good = trainer.update

    def spoil(*arguments):
        if trainer.state.step == 4:
            trainer.model.weights["decoder/norm/scale"].assign(tf.fill([16], float("nan")))
        return good(*arguments)

    trainer.update = spoil
    with pytest.raises(TrainingError, match=r"not a finite number at step 5.*last good checkpoint is step-00000003"):
        trainer.run()
    assert [path.name for path in checkpoints.listed(settings.work / "checkpoints")] == ["step-00000003"]


def test_durations_read_well():
    assert [duration(value) for value in (5, 65, 3725)] == ["0:05", "1:05", "1:02:05"]


def test_metrics_are_json_lines(job):
    settings = job(steps=3)
    Trainer(settings, Alone()).run()
    for line in (settings.work / "metrics.jsonl").read_text().splitlines():
        assert json.loads(line)["step"] <= 3
