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
