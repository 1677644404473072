"""The training loop: batches in, updates made, and from time to time a line, an evaluation, a checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import tensorflow as tf

from nmt.corpus import encode
from nmt.errors import TrainingError
from nmt.model.schedule import learning_rate
from nmt.model.transformer import Transformer, no_dropout, seeded_dropout
from nmt.training import checkpoints
from nmt.training.batches import Batch, Batches, Position, ahead
from nmt.training.checkpoints import State
from nmt.training.evaluate import dev_bleu
from nmt.training.job import Job
from nmt.training.metrics import Metrics
from nmt.training.optimizer import Adam
from nmt.training.ranks import Ranks
from nmt.training.records import duration

IDS = tf.TensorSpec([None, None], tf.int32)


class Trainer:
    """One rank of a training. Only the first rank writes and speaks."""

    def __init__(self, job: Job, ranks: Ranks) -> None:
        self.job, self.ranks, self.settings = job, ranks, job.train
        self.model = Transformer(job.shape, job.seed)
        self.adam = Adam(self.model.weights, job.train)
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.state = State()
        self.batches = Batches(encode.load(job.data, "train"), job.train, job.seed, ranks.rank, ranks.size)
        self.saved = tf.train.Checkpoint(
            weights=self.model.weights, means=self.adam.means, squares=self.adam.squares, step=self.step
        )
        self.update = tf.function(self._update, input_signature=[IDS, IDS, tf.TensorSpec([], tf.float32)])
        self.measure = tf.function(self._measure, input_signature=[IDS, IDS])

    def _update(self, source: Any, target: Any, rate: Any) -> Any:
        """One update of all ranks together: [smoothed loss, nll, target pieces, gradient norm], over all ranks."""
        dropout = seeded_dropout(self.settings.dropout, self.job.seed, self.step * self.ranks.size + self.ranks.rank)
        with tf.GradientTape() as tape:
            loss, nll, pieces = self.model.losses(source, target, self.settings.label_smoothing, dropout)
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, list(self.model.weights.values()))]
        # Sums and counts travel, not means: ranks whose batches differ in size weigh as their pieces do.
        *gradients, loss, nll, pieces = self.ranks.sum([*gradients, loss, nll, pieces])
        gradients = [gradient / pieces for gradient in gradients]
        norm = tf.linalg.global_norm(gradients)
        self.adam.apply(gradients, self.step, rate)
        self.step.assign_add(1)
        return tf.stack([loss / pieces, nll / pieces, pieces, norm])

    def _measure(self, source: Any, target: Any) -> Any:
        """[smoothed loss, nll, pieces] of a batch, summed over its pieces."""
        return tf.stack(self.model.losses(source, target, self.settings.label_smoothing, no_dropout))

    def run(self) -> None:
        """Train up to the wanted step, from the newest checkpoint if there is one."""
        self.resume()
        with ExitStack() as stack:
            metrics = Metrics(self.job.work, self.state.step) if self.ranks.rank == 0 else None
            if metrics:
                stack.callback(metrics.close)
            self.say_beginning()
            stream = stack.enter_context(closing(ahead(self.batches(Position(self.state.epoch, self.state.group)))))
            self.train(stream, metrics)

    def train(self, stream: Iterator[Batch], metrics: Metrics | None) -> None:
        """Make the updates that are left, one batch of `stream` each."""
        interval, checkpointed = Interval(), time.monotonic()
        while self.state.step < self.settings.steps:
            batch = next(stream)
            rate = learning_rate(
                self.state.step, self.settings.learning_rate, self.settings.width, self.settings.warmup
            )
            interval.begin()
            figures = self.update(batch.source, batch.target, rate)
            interval.end(figures, batch)
            done = self.state.step + 1
            self.state = self.state.model_copy(
                update={"step": done, "epoch": batch.after.epoch, "group": batch.after.group}
            )
            last = done == self.settings.steps
            if done % self.settings.log_every == 0 or last:
                self.log(interval, rate, metrics)
                interval = Interval()
            if done % self.settings.eval_every == 0 or last:
                self.evaluate(metrics)
            due = (time.monotonic() - checkpointed) / 60 >= self.settings.checkpoint_minutes
            if done % self.settings.checkpoint_every == 0 or last or due:
                self.check_finite(figures)
                self.save()
                checkpointed = time.monotonic()

    def resume(self) -> None:
        """Take up the newest whole checkpoint; the first rank reads it, the others are told."""
        if self.ranks.rank == 0:
            found = checkpoints.newest(self.job.work / "checkpoints", say, at_most=self.settings.steps)
            if found:
                path, self.state = found
                self.saved.read(str(path / "weights")).assert_consumed()
                say(f"resuming from {path.name}")
        position = tf.Variable([self.state.step, self.state.epoch, self.state.group], dtype=tf.int64)
        self.ranks.broadcast([position, self.step, *self.saved_variables()])
        step, epoch, group = (int(value) for value in position.numpy())
        self.state = self.state.model_copy(update={"step": step, "epoch": epoch, "group": group})

    def saved_variables(self) -> list[Any]:
        """The weights and both moments."""
        return [v for table in (self.model.weights, self.adam.means, self.adam.squares) for v in table.values()]

    def log(self, interval: Interval, rate: float, metrics: Metrics | None) -> None:
        """Report the steps since the last report."""
        values = interval.summary()
        seconds = self.state.seconds + interval.seconds
        self.state = self.state.model_copy(update={"seconds": seconds})
        if not math.isfinite(values["loss"]):
            raise self.not_finite()
        if metrics is None:
            return
        values |= {"learning_rate": rate, "seconds": round(seconds, 3), "epoch": self.state.epoch}
        left = (self.settings.steps - self.state.step) * values["step_seconds"]
        metrics.add("train", self.state.step, values, {
            "train_loss": values["loss"],
            "learning_rate": rate,
            "global_gradient_norm": values["gradient_norm"],
            "tokens_per_second": values["tokens_per_second"],
            "step_seconds": values["step_seconds"],
            "steps_per_second": 1 / values["step_seconds"],
        })  # fmt: skip
        say(
            f"step {self.state.step:,}/{self.settings.steps:,}  loss {values['loss']:.4f}  "
            f"{values['tokens_per_second']:,.0f} tokens/s  rate {rate:.2e}  norm {values['gradient_norm']:.3f}  "
            f"padding {values['padding']:.1%}  left {duration(left)}"
        )

    def evaluate(self, metrics: Metrics | None) -> None:
        """Dev loss on all ranks, dev BLEU on the first."""
        began = time.monotonic()
        dev = Batches(encode.load(self.job.data, "dev"), self.settings.model_copy(update={"max_length": 10**6}), 0,
                      self.ranks.rank, self.ranks.size)  # fmt: skip
        total = tf.zeros([3])
        for group in dev.plan(0):
            batch = dev.batch(group[self.ranks.rank :: self.ranks.size], Position())
            total += self.measure(batch.source, batch.target)
        loss, nll, pieces = (float(value) for value in self.ranks.sum([total])[0])
        if metrics is None:
            return
        bleu, in_pieces, samples = dev_bleu(self.job, self.model.numpy())
        if self.state.best_bleu is None or bleu >= self.state.best_bleu:
            self.state = self.state.model_copy(update={"best_bleu": bleu, "best_step": self.state.step})
        values: dict[str, Any] = {
            "loss": loss / pieces,
            "nll": nll / pieces,
            "bleu": bleu,
            "piece_bleu_not_sacrebleu": in_pieces,
        }
        values |= {"samples": samples, "eval_seconds": round(time.monotonic() - began, 3)}
        metrics.add("eval", self.state.step, values, {
            "eval_loss": loss / pieces, "eval_BLEU": bleu, "eval_piece_BLEU_not_sacreBLEU": in_pieces,
        })  # fmt: skip
        say(f"step {self.state.step:,}: dev loss {loss / pieces:.4f}, dev BLEU {bleu:.2f}  {samples[0]['output']!r}")

    def save(self) -> None:
        """Write a checkpoint; the first rank does."""
        if self.ranks.rank == 0:
            checkpoints.save(self.job.work / "checkpoints", self.state, self.saved.write, self.settings.keep)

    def check_finite(self, figures: Any) -> None:
        """Never let a checkpoint hold weights that a bad update has spoilt."""
        if not np.isfinite(figures.numpy()).all():
            raise self.not_finite()

    def not_finite(self) -> TrainingError:
        """What to say when the loss is not a number."""
        saved = checkpoints.listed(self.job.work / "checkpoints")
        return TrainingError(
            f"the loss is not a finite number at step {self.state.step:,}. "
            "Lower train.learning_rate or raise train.warmup. "
            + (f"The last good checkpoint is {saved[-1].name}." if saved else "No checkpoint was written yet.")
        )

    def say_beginning(self) -> None:
        """One line on what is about to happen."""
        if self.ranks.rank == 0:
            unit, size = self.settings.batch_unit, self.settings.batch
            say(
                f"{self.job.shape.parameters:,} parameters, {len(self.batches.usable):,} pairs; "
                f"{size:,} {unit} x {self.ranks.size} ranks = {size * self.ranks.size:,} {unit} per update"
            )


class Interval:
    """What happened since the last report."""

    def __init__(self) -> None:
        self.figures: list[Any] = []
        self.padding: list[float] = []
        self.seconds = 0.0
        self.began = 0.0

    def begin(self) -> None:
        """An update starts."""
        self.began = time.monotonic()

    def end(self, figures: Any, batch: Batch) -> None:
        """An update was handed to TensorFlow; on a CPU it is also done."""
        self.figures.append(figures)
        self.padding.append(batch.padding)
        self.seconds += time.monotonic() - self.began

    def summary(self) -> dict[str, float]:
        """Means over the interval, and rates."""
        waited = time.monotonic()
        rows = np.stack([figures.numpy() for figures in self.figures])  # a GPU's queue is emptied here
        self.seconds += time.monotonic() - waited
        loss, nll, pieces, norm = rows.mean(axis=0).tolist()
        return {
            "loss": loss,
            "nll": nll,
            "gradient_norm": norm,
            "tokens_per_second": round(float(rows[:, 2].sum()) / self.seconds, 1),
            "step_seconds": self.seconds / len(rows),
            "pieces_per_step": pieces,
            "padding": float(np.mean(self.padding)),
        }


def say(text: str) -> None:
    """One line to whoever watches; the parent process passes it on."""
    print(text, flush=True)
