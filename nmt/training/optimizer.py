"""Adam, one fused kernel per weight."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from nmt.config import TrainSettings

Tensor = Any


class Adam:
    """Adam's two moments for each weight, and the update."""

    def __init__(self, weights: dict[str, Any], settings: TrainSettings) -> None:
        self.weights = weights
        self.settings = settings
        self.means = {name: tf.Variable(tf.zeros_like(weight), trainable=False) for name, weight in weights.items()}
        self.squares = {name: tf.Variable(tf.zeros_like(weight), trainable=False) for name, weight in weights.items()}

    def apply(self, gradients: list[Tensor], step: Tensor, rate: Tensor) -> None:
        """Move each weight by its gradient; `step` updates have been made before this one."""
        beta1, beta2 = tf.constant(self.settings.adam_beta1), tf.constant(self.settings.adam_beta2)
        done = tf.cast(step + 1, tf.float32)
        for (name, weight), gradient in zip(self.weights.items(), gradients, strict=True):
            tf.raw_ops.ResourceApplyAdam(
                var=weight.handle,
                m=self.means[name].handle,
                v=self.squares[name].handle,
                beta1_power=beta1**done,
                beta2_power=beta2**done,
                lr=rate,
                beta1=beta1,
                beta2=beta2,
                epsilon=self.settings.adam_epsilon,
                grad=gradient,
            )


class LossScale:
    """What gradients are multiplied by while they are 16-bit floats, so that small ones do not vanish.

    Halved when a gradient overflows (that update is left out), doubled after PATIENT good updates.
    """

    FIRST, PATIENT, MOST = 2.0**10, 2_000, 2.0**24

    def __init__(self, precision: str) -> None:
        self.used = precision == "float16"
        self.value = tf.Variable(self.FIRST if self.used else 1.0, dtype=tf.float32, trainable=False)
        self.good = tf.Variable(0, dtype=tf.int32, trainable=False)  # updates since the last change

    def note(self, finite: Tensor) -> None:
        """Take note of whether an update's gradients were finite."""
        grown = self.good + 1 >= self.PATIENT
        larger = tf.minimum(tf.where(grown, self.value * 2, self.value), self.MOST)
        self.value.assign(tf.where(finite, larger, tf.maximum(self.value / 2, 1.0)))
        self.good.assign(tf.where(finite & ~grown, self.good + 1, 0))
