"""The loop in one process, with no Horovod: it learns, resumes exactly, and stops on bad numbers."""

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from nmt.errors import TrainingError
from nmt.training import checkpoints, loop
from nmt.training.batches import Position
from nmt.training.evaluate import DevScore
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


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_stopped_run_gives_the_losses_of_one_never_stopped(job, lanes):
    whole, stopped = job("whole", steps=6), job("stopped", steps=3)
    Trainer(whole, Alone(), lanes=lanes).run()
    Trainer(stopped, Alone(), lanes=lanes).run()
    more = stopped.model_copy(update={"train": stopped.train.model_copy(update={"steps": 6})})
    Trainer(more, Alone(), lanes=lanes).run()
    assert losses(more) == losses(whole)  # to the last digit: weights, moments, data position, dropout
    last = [checkpoints.listed(done.work / "checkpoints")[-1] for done in (whole, more)]
    for name in whole.shape.weights():
        first, second = (checkpoints.average([path], [name])[name] for path in last)
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("more", [{}, {"r_drop": 2.0}, {"accumulate": 3}, {"batch": 1, "batch_unit": "pairs"}], ids=str)
def test_a_batch_shared_out_among_lanes_makes_the_same_update(job, more):
    """Dropout and all; also where a batch has fewer pairs than there are lanes."""
    one, three = job("one", steps=4, **more), job("three", steps=4, **more)
    Trainer(one, Alone()).run()
    Trainer(three, Alone(), lanes=3).run()
    np.testing.assert_allclose(losses(three), losses(one), rtol=1e-5)
    dev = [[row["loss"] for row in read(done.work / "metrics.jsonl") if row["kind"] == "eval"] for done in (three, one)]
    np.testing.assert_allclose(*dev, rtol=1e-5)


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


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_accumulated_batches_make_the_update_of_one_large_batch(job, precision):
    """Dropout off, since its masks follow the parts of an update."""
    sizes = {"steps": 3, "dropout": 0.0, "word_dropout": 0.0, "precision": precision, "eval_every": 9}
    one, four = job("one", batch=400, **sizes), job("four", batch=100, accumulate=4, **sizes)
    for settings in (one, four):
        Trainer(settings, Alone()).run()
    assert np.allclose(losses(one), losses(four), rtol=1e-5 if precision == "float32" else 2e-2)
    last = [checkpoints.listed(done.work / "checkpoints")[-1] for done in (one, four)]
    if precision == "float32":
        for name in one.shape.weights():
            first, second = (checkpoints.average([path], [name])[name] for path in last)
            np.testing.assert_allclose(first, second, atol=1e-5)


def test_a_run_killed_between_two_lines_of_progress_prints_the_lines_of_one_never_stopped(job):
    every = {"log_every": 4, "checkpoint_every": 3, "eval_every": 12}
    whole, stopped = job("whole", steps=12, **every), job("stopped", steps=12, **every)
    Trainer(whole, Alone()).run()
    trainer = Trainer(stopped, Alone())
    trainer.save = killed_at(trainer, 9)
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    assert checkpoints.listed(stopped.work / "checkpoints")[-1].name == "step-00000006"
    Trainer(stopped, Alone()).run()
    assert losses(stopped) == losses(whole)


def killed_at(trainer, step):
    """Its `save`, which at that step never gets to write."""
    save = trainer.save

    def killed(interval):
        if trainer.state.step == step:
            raise KeyboardInterrupt
        save(interval)

    return killed


def test_the_best_are_kept_and_averaged_and_patience_ends_it(job, monkeypatch):
    scores = iter([5.0, 9.0, 7.0, 9.0, 8.0, 1.0])
    monkeypatch.setattr(loop, "dev_score", lambda *_: DevScore(bleu=next(scores), piece_bleu=0.0, samples=[]))
    settings = job(
        steps=60, eval_every=2, checkpoint_every=1, keep=2, keep_best=3, average_of="best", average=3, patience=3
    )
    Trainer(settings, Alone()).run()
    folder = settings.work / "checkpoints"
    assert [path.name[-2:] for path in checkpoints.listed(folder)] == ["04", "08", "09", "10"]
    assert [path.name[-2:] for path in checkpoints.best(folder, 3)] == ["08", "04", "10"]
    state = checkpoints.read_state(folder / "step-00000010")
    assert (state.best_bleu, state.best_step, state.stale) == (9.0, 4, 3)
    Trainer(settings, Alone()).run()  # nothing is left to do
    assert checkpoints.listed(folder)[-1].name == "step-00000010"
    patient = settings.model_copy(update={"train": settings.train.model_copy(update={"patience": 4})})
    Trainer(patient, Alone()).run()
    assert checkpoints.listed(folder)[-1].name == "step-00000012"


def test_in_sixteen_bits_overflow_is_left_out_and_the_scale_backs_off(job):
    settings = job(steps=16, precision="float16", dropout=0.0, eval_every=16)
    trainer = Trainer(settings, Alone())
    trainer.step.scale.value.assign(2.0**16)  # so that the first gradients overflow
    trainer.run()
    rows = [row for row in read(settings.work / "metrics.jsonl") if row["kind"] == "train"]
    out = [row["left_out"] for row in rows]
    assert out[0] == 1 and out[-1] == 0 and sorted(out, reverse=True) == out
    assert rows[-1]["loss_scale"] == 2.0 ** (16 - sum(out))
    assert all(np.isfinite(row["loss"]) for row in rows)
    assert rows[sum(out) - 1]["loss"] != rows[-1]["loss"]  # the weights move once the gradients are good
    assert [row["gradient_norm"] is None for row in rows] == [bool(left) for left in out]  # JSON knows no NaN


def test_the_time_left_counts_the_evaluations_to_come(job):
    trainer = Trainer(job(steps=10, eval_every=4), Alone())  # evaluations at 4, 8 and 10
    trainer.eval_seconds = 100.0
    left = {}
    for step in (3, 4, 5, 8, 9, 10):
        trainer.state = trainer.state.model_copy(update={"step": step})
        left[step] = trainer.seconds_left(1.0)
    assert left == {3: 307.0, 4: 306.0, 5: 205.0, 8: 202.0, 9: 101.0, 10: 100.0}  # asked before that step's own


def test_in_sixteen_bits_it_learns_as_in_thirty_two(job):
    last = {}
    for precision in ("float32", "float16", "bfloat16"):
        settings = job(precision, steps=30, eval_every=30, dropout=0.0, learning_rate=1.0, precision=precision)
        Trainer(settings, Alone()).run()
        last[precision] = losses(settings)[-1][1]
    assert last["float16"] == pytest.approx(last["float32"], abs=0.02)
    assert last["bfloat16"] == pytest.approx(last["float32"], abs=0.1)


def test_a_loss_that_is_not_a_number_stops_before_the_next_checkpoint(job):
    settings = job(steps=6, log_every=6)  # nobody looks before the checkpoint is due
    trainer = Trainer(settings, Alone())
    good = trainer.step.whole

    def spoil(*arguments):
        if trainer.state.step == 4:
            trainer.step.model.weights["decoder/norm/scale"].assign(tf.fill([16], float("nan")))
        return good(*arguments)

    trainer.step.whole = spoil
    with pytest.raises(TrainingError, match=r"not a finite number at step 5, on .*good checkpoint is step-00000003"):
        trainer.run()
    assert [path.name for path in checkpoints.listed(settings.work / "checkpoints")] == ["step-00000003"]
    record = json.loads((settings.work / "bad-update.json").read_text())
    fifth = list(itertools.islice(trainer.batches(Position()), 5))[-1]
    assert record == {"step": 5, "lines": (trainer.data.order[fifth.group] + 1).tolist()}


def test_a_checkpoint_is_due_by_the_clock_too(job):
    settings = job(steps=3, checkpoint_every=100, eval_every=100, checkpoint_minutes=1e-9)
    Trainer(settings, Alone()).run()
    states = [checkpoints.read_state(path) for path in checkpoints.listed(settings.work / "checkpoints")]
    assert [(state.step, state.regular) for state in states] == [(2, False), (3, False)]
    rarely = job("rarely", steps=3, checkpoint_every=100, eval_every=100, checkpoint_minutes=60)
    Trainer(rarely, Alone()).run()
    assert [path.name for path in checkpoints.listed(rarely.work / "checkpoints")] == ["step-00000003"]


def test_durations_read_well():
    assert [duration(value) for value in (5, 65, 3725)] == ["0:05", "1:05", "1:02:05"]


def test_metrics_are_json_lines(job):
    settings = job(steps=3)
    Trainer(settings, Alone()).run()
    for line in (settings.work / "metrics.jsonl").read_text().splitlines():
        assert json.loads(line)["step"] <= 3
