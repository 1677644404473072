"""Label-smoothed cross entropy with its own gradient.

Loss and gradient are computed together, some hundred tokens at a time: the logits of one block stay in the
processor's cache, no logits-sized tensor outlives its block, and no one-hot is ever built. With
uniform smoothing e over V pieces, the target distribution is q = e/V + (1 - e) * [y], so

    loss        = logsumexp(z) - (1 - e) * z_y - e/V * sum(z)
    dloss/dz    = softmax(z) - e/V - (1 - e) * [y]

and the one-hot part of the gradient is a gather (towards the hidden states) and a scatter (towards the
embedding).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

Tensor = Any
BLOCK = 512  # tokens; 512 x 32K logits are 64 MB, 512 x 2K are 4 MB


def token_losses(hidden: Tensor, embedding: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Summed smoothed loss and summed negative log-likelihood of `labels` [n] given `hidden` [n, width].

    Only the first has a gradient. `embedding` [vocabulary, width] serves as the softmax matrix.
    """
    vocabulary = embedding.shape[0]
    spread = smoothing / vocabulary
    certain = 1.0 - smoothing

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def losses(hidden: Tensor, embedding: Tensor) -> tuple[tuple[Tensor, Tensor], Any]:
        count = tf.shape(hidden)[0]
        row_sum = tf.reduce_sum(embedding, axis=0)  # sum over pieces of z is hidden . row_sum

        def block(start: Tensor, loss: Tensor, nll: Tensor, dhidden: Any, dembedding: Tensor) -> tuple[Any, ...]:
            end = tf.minimum(start + BLOCK, count)
            h, y = hidden[start:end], labels[start:end]
            z = tf.matmul(h, embedding, transpose_b=True)
            top = tf.reduce_max(z, axis=-1, keepdims=True)
            powers = tf.exp(z - top)
            total = tf.reduce_sum(powers, axis=-1, keepdims=True)
            log_total = tf.squeeze(top + tf.math.log(total), -1)
            rows = tf.gather(embedding, y)
            right = tf.reduce_sum(h * rows, axis=-1)  # z_y
            loss += tf.reduce_sum(log_total - certain * right - spread * tf.linalg.matvec(h, row_sum))
            nll += tf.reduce_sum(log_total - right)
            slope = powers / total - spread
            dhidden = dhidden.write(start // BLOCK, tf.matmul(slope, embedding) - certain * rows)
            dembedding += tf.matmul(slope, h, transpose_a=True)
            return start + BLOCK, loss, nll, dhidden, dembedding

        # One block even where there is no token at all: a rank that a short last group left without pairs.
        rounds = tf.maximum((count + BLOCK - 1) // BLOCK, 1)
        blocks = tf.TensorArray(hidden.dtype, size=rounds, element_shape=[None, hidden.shape[1]], infer_shape=False)
        zero = tf.zeros([], hidden.dtype)
        state = (tf.constant(0), zero, zero, blocks, tf.zeros_like(embedding))
        _, loss, nll, blocks, dembedding = tf.while_loop(lambda start, *_: start < rounds * BLOCK, block, state)
        dhidden = blocks.concat()
        scattered = tf.math.unsorted_segment_sum(hidden, labels, vocabulary)
        dembedding -= certain * scattered

        def gradient(dloss: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
            return dloss * dhidden, dloss * dembedding

        return (loss, nll), gradient

    loss, nll = losses(hidden, embedding)
    return loss, nll
