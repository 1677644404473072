"""One update of all ranks together: batches in, weights moved, figures out."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import tensorflow as tf

from nmt.model.transformer import NO_DROPOUT, Transformer, seeded_dropout
from nmt.training.batches import Update
from nmt.training.job import Job
from nmt.training.optimizer import Adam, LossScale
from nmt.training.ranks import Ranks

Tensor = Any
IDS = tf.TensorSpec([None, None], tf.int32)
COUNT = tf.TensorSpec([], tf.int32)
NUMBER = tf.TensorSpec([], tf.int64)
RATE = tf.TensorSpec([], tf.float32)


class Step:
    """The model, its optimizer, and the functions that TensorFlow compiles.

    On a CPU a batch is shared out among `lanes`, each of which one thread goes through by itself: threads that share
    every operation instead wait for each other at the end of every operation.
    """

    def __init__(self, job: Job, ranks: Ranks, lanes: int = 1) -> None:
        self.settings, self.seed, self.ranks, self.lanes = job.train, job.seed, ranks, lanes
        self.model = Transformer(job.shape, job.seed, job.train.precision)
        self.adam = Adam(self.model.weights, job.train)
        self.scale = LossScale(job.train.precision)
        self.number = tf.Variable(0, dtype=tf.int64, trainable=False)  # updates made
        self.sums = [
            tf.Variable(tf.zeros(shape), trainable=False)
            for shape in ([*job.shape.weights().values(), (), (), ()] if job.train.accumulate > 1 else [])
        ]
        self.whole = tf.function(self._whole, input_signature=[IDS, IDS, RATE])
        self.part = tf.function(self._part, input_signature=[IDS, IDS, NUMBER])
        self.close = tf.function(self._close, input_signature=[RATE])
        traced = tf.function(self._lane, input_signature=[IDS, IDS, COUNT, NUMBER])  # once, for all lanes
        self.lane = traced if lanes > 1 else self._lane
        self.measure = tf.function(self._measure, input_signature=[IDS, IDS])

    def __call__(self, update: Update, rate: float) -> Tensor:
        """Make one update; returns its figures over all ranks: loss, nll, pieces, gradient norm, loss scale."""
        if not self.sums:
            (batch,) = update.batches
            return self.whole(batch.source, batch.target, rate)
        for place, batch in enumerate(update.batches):
            self.part(batch.source, batch.target, self.ranks.rank + place * self.ranks.size)
        return self.close(rate)

    def _whole(self, source: Tensor, target: Tensor, rate: Tensor) -> Tensor:
        """An update of one batch per rank."""
        return self.apply(self.gradients(source, target, self.ranks.rank), rate)

    def _part(self, source: Tensor, target: Tensor, part: Tensor) -> None:
        """Add one batch to the sums of an update of several."""
        for total, value in zip(self.sums, self.gradients(source, target, part), strict=True):
            total.assign_add(value)

    def _close(self, rate: Tensor) -> Tensor:
        """Make the update that the sums are for, and empty them."""
        figures = self.apply([total.read_value() for total in self.sums], rate)
        for total in self.sums:
            total.assign(tf.zeros_like(total))
        return figures

    def gradients(self, source: Tensor, target: Tensor, part: Tensor | int) -> list[Tensor]:
        """[gradient of each weight, loss, nll, pieces] of one batch: sums over its pieces, gradients scaled.

        Dropout masks depend on the part of the update, not on the rank or the lane that does it.
        """
        number = self.number * (self.ranks.size * self.settings.accumulate) + tf.cast(part, tf.int64)
        return self.in_lanes(source, target, lambda s, t, before: self.lane(s, t, before, number))

    def in_lanes(self, source: Tensor, target: Tensor, work: Callable[..., list[Tensor]]) -> list[Tensor]:
        """What `work` makes of each lane's pairs and of how many come before them, added up."""
        bounds = tf.unstack(tf.shape(source)[0] * tf.range(self.lanes + 1) // self.lanes)
        found = [work(source[begin:end], target[begin:end], begin) for begin, end in pairwise(bounds)]
        return [tf.add_n(values) for values in zip(*found, strict=True)]

    def _lane(self, source: Tensor, target: Tensor, before: Tensor, number: Tensor) -> list[Tensor]:
        """The gradients of one lane's pairs, through the dropout masks of that number."""
        outer, inner, words = self.settings.dropout, self.settings.inner_dropout, self.settings.word_dropout
        before *= 2 if self.settings.r_drop else 1  # rows: it reads each pair twice
        dropout = seeded_dropout(outer, outer if inner is None else inner, words, self.seed, number, before)
        scale = self.scale.value if self.scale.used else 1.0
        with tf.GradientTape() as tape:
            loss, nll, pieces = self.model.losses(
                source, target, self.settings.label_smoothing, dropout, scale, self.settings.r_drop
            )
        gradients = tape.gradient(loss, list(self.model.weights.values()))
        return [*map(tf.convert_to_tensor, gradients), loss, nll, pieces]

    def apply(self, sums: list[Tensor], rate: Tensor) -> Tensor:
        """Sum over the ranks and move the weights."""
        # Sums and counts travel, not means: ranks whose batches differ in size weigh as their pieces do.
        *gradients, loss, nll, pieces = sums
        on_wire = self.wire_factor()
        if on_wire != 1:
            gradients = [gradient * on_wire for gradient in gradients]
        gradients, (loss, nll, pieces) = self.ranks.sum(gradients, [loss, nll, pieces])
        scale = tf.identity(self.scale.value)
        gradients = [gradient / (pieces * (scale * on_wire)) for gradient in gradients]
        norm = tf.linalg.global_norm(gradients)
        if self.scale.used:
            finite = tf.math.is_finite(norm)
            tf.cond(finite, lambda: self.move(gradients, rate), lambda: tf.constant(False))
            self.scale.note(finite)
        else:
            self.move(gradients, rate)
        self.number.assign_add(1)
        return tf.stack([loss / pieces, nll / pieces, pieces, norm, scale])

    def move(self, gradients: list[Tensor], rate: Tensor) -> Tensor:
        """Let Adam move the weights."""
        self.adam.apply(gradients, self.number, rate)
        return tf.constant(True)

    def wire_factor(self) -> float:
        """Where gradients travel as 16-bit floats: halfway from sum to mean, far from both ends of their range."""
        size = self.settings.pieces_per_update * self.ranks.size
        return 2.0 ** -round(math.log2(size) / 2) if self.settings.fp16_compression else 1.0

    def _measure(self, source: Tensor, target: Tensor) -> Tensor:
        """[loss, nll, pieces] of a batch without dropout: sums over its pieces."""

        def lane(source: Tensor, target: Tensor, _: Tensor) -> list[Tensor]:
            return list(self.model.losses(source, target, self.settings.label_smoothing, NO_DROPOUT))

        traced = tf.function(lane, input_signature=[IDS, IDS, COUNT])
        return tf.stack(self.in_lanes(source, target, traced))

    def variables(self) -> list[Any]:
        """Everything a checkpoint holds."""
        tables = (self.model.weights, self.adam.means, self.adam.squares)
        scale = [self.scale.value, self.scale.good]
        return [self.number, *scale, *(variable for table in tables for variable in table.values())]

    def saved(self) -> tf.train.Checkpoint:
        """The same, under the names they are saved by."""
        return tf.train.Checkpoint(
            weights=self.model.weights,
            means=self.adam.means,
            squares=self.adam.squares,
            step=self.number,
            loss_scale=self.scale.value,
            good_updates=self.scale.good,
        )
