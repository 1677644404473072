"""The Transformer of the reference: pre-norm, sinusoidal positions, one embedding for source, target and softmax."""

from __future__ import annotations

import copy
import itertools
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from nmt.model import kernels, layers
from nmt.model.layers import MASKED, Dropout, Tensor
from nmt.model.loss import token_losses
from nmt.model.shape import ModelShape, positions

PAD_ID, BEGIN_ID = 0, 2  # as in nmt.corpus.bpe.SPECIALS; a test holds the two together
PHILOX = 1  # TensorFlow's number for that generator
LEVELS = 2**16  # of the random numbers of dropout: a rate is met to within 1 / 131,072


class Transformer:
    """The weights of one model and what can be computed with them."""

    def __init__(self, shape: ModelShape, seed: int, precision: str = "float32") -> None:
        self.shape = shape
        self.precision = tf.as_dtype(precision)
        self.positions = tf.constant(positions(shape.width))
        self.weights: dict[str, Any] = {
            name: tf.Variable(initial(name, size, seed), name=name) for name, size in shape.weights().items()
        }

    def losses(
        self,
        source: Tensor,
        target: Tensor,
        smoothing: float,
        dropout: Dropouts,
        scale: Tensor | float = 1.0,
        r_drop: float = 0.0,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Summed smoothed loss, summed negative log-likelihood and number of target pieces of a padded batch.

        `source` and `target` are ids [batch, length], each sentence closed by </s> and then padded. Gradients are
        `scale` times those of the loss. With `r_drop` each pair is read twice, through other dropout masks: the mean of
        both, and the divergence of their predictions with that weight.
        """
        if self.weights["embedding"].dtype != self.precision:
            return self.cast().losses(source, target, smoothing, dropout, scale, r_drop)
        inputs = shift_right(target)
        if r_drop:
            source, inputs = tf.repeat(source, 2, axis=0), tf.repeat(inputs, 2, axis=0)
        memory, source_bias = self.encode(source, dropout)
        hidden = self.decode(inputs, memory, source_bias, dropout)
        if r_drop:
            hidden, target = side_by_side(hidden), tf.repeat(target, 2, axis=1)
        real = tf.not_equal(target, PAD_ID)
        # Padding is dropped here, before the softmax, which is the dearest part of a small model.
        hidden, labels = tf.boolean_mask(hidden, real), tf.boolean_mask(target, real)
        weights = tf.convert_to_tensor(self.weights["embedding"])
        times = 2 if r_drop else 1
        loss, nll = token_losses(hidden, weights, labels, smoothing, scale, r_drop)
        return loss / times, nll / times, tf.cast(tf.size(labels) // times, tf.float32)

    def cast(self) -> Transformer:
        """The same model with its matrices in the precision of the arithmetic; gradients reach the 32-bit weights."""
        model = copy.copy(self)
        model.positions = tf.cast(self.positions, self.precision)
        model.weights = {
            name: weight if "norm/" in name else tf.cast(weight, self.precision)
            for name, weight in self.weights.items()
        }
        return model

    def encode(self, source: Tensor, dropout: Dropouts) -> tuple[Tensor, Tensor]:
        """The encoded source [batch, length, width], and the bias that hides its padding."""
        bias = tf.cast(tf.equal(source, PAD_ID), tf.float32)[:, None, None, :] * MASKED
        x = self.embed(source, dropout)
        for layer in range(self.shape.layers):
            name = f"encoder/{layer}"
            x = self.residual(x, f"{name}/self", dropout, lambda y, name: self.attend_self(y, bias, name, dropout))
            x = self.residual(x, f"{name}/ffn", dropout, lambda y, name: self.feed(y, name, dropout))
        return layers.norm(x, self.weights, "encoder/norm"), bias

    def decode(self, inputs: Tensor, memory: Tensor, source_bias: Tensor, dropout: Dropouts) -> Tensor:
        """The decoder's last states [batch, length, width] for target inputs that begin with <s>."""
        length = tf.shape(inputs)[1]
        causal = (1.0 - tf.linalg.band_part(tf.ones([length, length]), -1, 0)) * MASKED
        x = self.embed(inputs, dropout)
        for layer in range(self.shape.layers):
            name = f"decoder/{layer}"
            x = self.residual(x, f"{name}/self", dropout, lambda y, name: self.attend_self(y, causal, name, dropout))
            x = self.residual(x, f"{name}/cross", dropout, lambda y, name: layers.cross_attention(
                y, memory, source_bias, self.weights, name, self.shape.heads, dropout.inner))  # fmt: skip
            x = self.residual(x, f"{name}/ffn", dropout, lambda y, name: self.feed(y, name, dropout))
        return layers.norm(x, self.weights, "decoder/norm")

    def embed(self, ids: Tensor, dropout: Dropouts) -> Tensor:
        """Pieces as vectors, with their positions added."""
        vectors = tf.gather(self.weights["embedding"], ids) * self.shape.width**0.5  # [batch, length, width]
        vectors = dropout.words(vectors)
        return dropout.outer(vectors + self.positions[: tf.shape(ids)[1]])

    def residual(self, x: Tensor, name: str, dropout: Dropouts, layer: Callable[[Tensor, str], Tensor]) -> Tensor:
        """x plus a layer's view of its normalised self."""
        return x + dropout.outer(layer(layers.norm(x, self.weights, f"{name}/norm"), name))

    def attend_self(self, x: Tensor, bias: Tensor, name: str, dropout: Dropouts) -> Tensor:
        """Self-attention with this model's weights."""
        return layers.self_attention(x, bias, self.weights, name, self.shape.heads, dropout.inner)

    def feed(self, x: Tensor, name: str, dropout: Dropouts) -> Tensor:
        """Feed-forward layer with this model's weights."""
        return layers.feed_forward(x, self.weights, name, dropout.inner)

    def log_probabilities(self, source: Tensor, target: Tensor) -> Tensor:
        """The log-probability of each target piece [batch, length]; for checks, not for training."""
        memory, bias = self.encode(source, NO_DROPOUT)
        hidden = self.decode(shift_right(target), memory, bias, NO_DROPOUT)
        logits = tf.einsum("btd,vd->btv", hidden, self.weights["embedding"])
        return tf.gather(tf.nn.log_softmax(logits), target, batch_dims=2)

    def numpy(self) -> dict[str, NDArray[np.float32]]:
        """The weights as arrays."""
        return {name: variable.numpy() for name, variable in self.weights.items()}


def side_by_side(x: Tensor) -> Tensor:
    """Two readings of each pair [2n, length, width] as [n, 2 * length, width], those of a piece next to each other."""
    shape = tf.shape(x)
    turned = tf.transpose(tf.reshape(x, [-1, 2, shape[1], x.shape[2]]), [0, 2, 1, 3])
    return tf.reshape(turned, [-1, 2 * shape[1], x.shape[2]])


def shift_right(target: Tensor) -> Tensor:
    """What the decoder is fed: <s>, then the target without its last piece."""
    begin = tf.fill([tf.shape(target)[0], 1], BEGIN_ID)
    return tf.concat([begin, target[:, :-1]], axis=1)


class Dropouts(NamedTuple):
    """Where values are dropped: `outer` on embeddings and residuals, `inner` on attention weights and ReLU outputs.

    `words` drops all of a piece's vector, or none of it.
    """

    outer: Dropout
    inner: Dropout
    words: Dropout


def nothing_dropped(x: Tensor) -> Tensor:
    """For evaluation, and for a rate of 0."""
    return x


NO_DROPOUT = Dropouts(nothing_dropped, nothing_dropped, nothing_dropped)


def seeded_dropout(
    outer: float, inner: float, words: float, seed: int, number: Tensor, first: Tensor | int = 0
) -> Dropouts:
    """Dropout whose masks follow from the seed, the place in the model, and `number` (of the update and part).

    No generator has a state of its own, so a resumed run draws the masks that the stopped one would have; and a batch
    cut in two draws those of the whole, `first` being how many rows of it come before these.
    """
    places = itertools.count()
    key = tf.cast(number, tf.uint64)[None]

    def at_rate(rate: float, whole: bool = False) -> Dropout:
        dropped = round(rate * LEVELS)

        def dropout(x: Tensor) -> Tensor:
            stream = seed * 1_000 + next(places)
            if kernels.library and x.dtype in (tf.float32, tf.bfloat16) and not whole:
                return kernels.drop(x, key, stream, tf.cast(first, tf.uint64), dropped)
            drawn = random_levels(tf.shape(x[..., :1] if whole else x), key, stream, first)
            keep = tf.greater_equal(drawn, tf.constant(dropped, tf.uint16))
            return x * (tf.cast(keep, x.dtype) * (LEVELS / (LEVELS - dropped)))

        return dropout if dropped else nothing_dropped

    return Dropouts(at_rate(outer), at_rate(inner), at_rate(words, whole=True))


def random_levels(shape: Tensor, key: Tensor, stream: int, first: Tensor | int) -> Tensor:
    """Whole numbers below LEVELS, those of rows `first` on; Philox makes 8 of them, of 16 bits, from each counter.

    Drawing is much of what dropout costs on a CPU, so no bit is thrown away but at the end of a row.
    """
    row = tf.reduce_prod(shape[1:])
    counters = (row + 7) // 8
    start = tf.cast(first, tf.uint64) * tf.cast(counters, tf.uint64)
    drawn = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[shape[0], 4 * counters],
        key=key,
        counter=tf.stack([start, tf.constant(stream, tf.uint64)]),
        alg=PHILOX,
        dtype=tf.int32,
    )
    levels = tf.reshape(tf.bitcast(drawn, tf.uint16), [shape[0], 8 * counters])
    return tf.reshape(levels[:, :row], shape)


def initial(name: str, shape: tuple[int, ...], seed: int) -> NDArray[np.float32]:
    """A weight's first value: ones and zeros for norms and biases, Glorot for matrices, the same on every machine."""
    if len(shape) == 1:
        return np.ones(shape, np.float32) if name.endswith("scale") else np.zeros(shape, np.float32)
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if name == "embedding":
        return generator.normal(0.0, shape[1] ** -0.5, shape).astype(np.float32)
    # q, k and v share one matrix but each is a map of its own, so the fan-out is that of one part.
    limit = (6.0 / (shape[0] + (shape[0] if name.endswith(("qkv", "kv")) else shape[1]))) ** 0.5
    return generator.uniform(-limit, limit, shape).astype(np.float32)
