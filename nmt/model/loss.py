"""Label-smoothed cross entropy with its own gradient.

Loss and gradient are computed together, some tokens at a time: no logits-sized tensor outlives its block, and no
one-hot is ever built. With
uniform smoothing e over V pieces, the target distribution is q = e/V + (1 - e) * [y], so

    loss        = logsumexp(z) - z_y + e * z_y - e/V * sum(z)
    dloss/dz    = softmax(z) - e/V - (1 - e) * [y]

and the one-hot part of the gradient is a gather (towards the hidden states) and a scatter (towards the embedding).
logsumexp(z) - z_y is the negative logarithm of y's share in the softmax, which oneDNN makes in one go over the logits.
The shift by e/V is made in the products' few columns rather than in those of the whole vocabulary:

    dloss/dz . E = softmax(z) . E - e/V * sum over pieces of E - ...            and likewise towards the embedding.

With R-Drop (`apart` > 0) rows 2i and 2i+1 are one token seen through two dropouts, with softmaxes p and q, and their
divergence is added to the loss of the two:

    a/2 * (KL(p|q) + KL(q|p)),      whose gradient towards the first row's z is a/2 * (p * (log p/q - KL(p|q) + 1) - q).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from nmt.model import kernels
from nmt.model.kernels import product
from nmt.model.shape import LOSS_BLOCK as BLOCK

Tensor = Any
TINY = 1e-37  # added to shares that may be 0 in 32 bits, so that their logarithm is -85 and not minus infinity


def token_losses(
    hidden: Tensor, embedding: Tensor, labels: Tensor, smoothing: float, scale: Tensor | float = 1.0, apart: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Summed smoothed loss and summed negative log-likelihood of `labels` [n] given `hidden` [n, width].

    Only the first has a gradient, and that is multiplied by `scale`, before anything can vanish in 16 bits.
    `embedding` [vocabulary, width] serves as the softmax matrix. Matrix products are in the precision of `hidden`,
    all else in 32 bits.
    """
    vocabulary = embedding.shape[0]
    spread = smoothing / vocabulary
    certain = 1.0 - smoothing

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def losses(hidden: Tensor, embedding: Tensor) -> tuple[tuple[Tensor, Tensor], Any]:
        count, short = tf.shape(hidden)[0], hidden.dtype
        row_sum = tf.reduce_sum(tf.cast(embedding, tf.float32), axis=0)  # sum over pieces of z is hidden . row_sum

        def block(start: Tensor, loss: Tensor, nll: Tensor, dhidden: Any, dembedding: Tensor) -> tuple[Any, ...]:
            end = tf.minimum(start + BLOCK, count)
            h, y = hidden[start:end], labels[start:end]
            z = product(h, embedding, turn_b=True)
            shares, nll_of_each, right, divergence = softmax(z, y, 1.0 if short == tf.float32 else scale, apart / 2)
            long, rows = tf.cast(h, tf.float32), tf.cast(tf.gather(embedding, y), tf.float32)
            mean = tf.linalg.matvec(long, row_sum)  # of a row of z, times the number of pieces
            loss += tf.reduce_sum(nll_of_each + smoothing * right - spread * mean + divergence)
            nll += tf.reduce_sum(nll_of_each)
            after = scale if short == tf.float32 else 1.0
            towards = tf.cast(product(shares, embedding), tf.float32) * after
            towards -= spread * scale * row_sum + certain * scale * rows
            dhidden = dhidden.write(start // BLOCK, tf.cast(towards, short))
            dembedding += tf.cast(product(shares, tf.cast(long * after, short), turn_a=True), tf.float32)
            return start + BLOCK, loss, nll, dhidden, dembedding

        # One block even where there is no token at all: a rank that a short last group left without pairs.
        rounds = tf.maximum((count + BLOCK - 1) // BLOCK, 1)
        blocks = tf.TensorArray(short, size=rounds, element_shape=[None, hidden.shape[1]], infer_shape=False)
        state = (tf.constant(0), tf.constant(0.0), tf.constant(0.0), blocks, tf.zeros(embedding.shape))
        _, loss, nll, blocks, dembedding = tf.while_loop(lambda start, *_: start < rounds * BLOCK, block, state)
        dhidden = blocks.concat()
        states = tf.cast(hidden, tf.float32)
        scattered = tf.math.unsorted_segment_sum(states, labels, vocabulary)
        dembedding -= certain * scale * scattered + spread * scale * tf.reduce_sum(states, axis=0)

        def gradient(dloss: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
            return tf.cast(dloss, short) * dhidden, tf.cast(dloss * dembedding, short)

        return (loss, nll), gradient

    loss, nll = losses(hidden, embedding)
    return loss, nll


def softmax(z: Tensor, labels: Tensor, scale: Tensor | float, factor: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of logits z [n, vocabulary]: the gradient of logsumexp(z), times `scale` and in the precision of z.

    And of each row the negative log-likelihood of its label, the label's logit z_y, and for R-Drop `factor` times its
    divergence, whose gradient is then added to the other.
    """
    if kernels.library and z.dtype in (tf.float32, tf.bfloat16):
        return kernels.softmax(z, labels, scale, factor)
    short, z = z.dtype, tf.cast(z, tf.float32)
    shares = tf.nn.softmax(z)
    nll = -tf.math.log(tf.gather(shares, labels, batch_dims=1) + TINY)
    divergence = tf.zeros_like(nll)
    if factor:
        divergence, shares = towards_each_other(tf.math.log(shares + TINY), shares, factor)
    if short != tf.float32:
        shares = tf.cast(shares * scale, short)
    return shares, nll, tf.gather(z, labels, batch_dims=1), divergence


def towards_each_other(logs: Tensor, shares: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    """R-Drop: `factor` times the divergence of each row from its other, and the gradient of those and of logsumexp(z).

    `logs` and `shares` [n, vocabulary] are the logarithms of the softmax and the softmax itself.
    """
    vocabulary = logs.shape[-1]
    logs, shares = (tf.reshape(x, [-1, 2, vocabulary]) for x in (logs, shares))
    ratio = logs[:, 0] - logs[:, 1]
    ratios = tf.stack([ratio, -ratio], axis=1)
    divergence = tf.reduce_sum(shares * ratios, axis=-1, keepdims=True)
    gradient = shares * (1.0 + factor * (1.0 - divergence) + factor * ratios) - factor * tf.reverse(shares, [1])
    return factor * tf.reshape(divergence, [-1]), tf.reshape(gradient, [-1, vocabulary])
