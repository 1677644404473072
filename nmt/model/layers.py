"""The layers of the Transformer as functions of tensors and weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from nmt.model import kernels
from nmt.model.shape import NORM_EPSILON

Tensor = Any  # TensorFlow ships no types, hence the ignored decorators too
Weights = Mapping[str, Tensor]
Dropout = Callable[[Tensor], Tensor]

MASKED = -1e9  # added to the score of a key that must not be seen


@tf.custom_gradient  # type: ignore[untyped-decorator]
def layer_norm(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Normalise the last axis. The gradient by hand takes a third of the operations that autodiff would."""
    centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    inverse = tf.math.rsqrt(tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True) + NORM_EPSILON)
    normal = centred * inverse

    def gradient(dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows = list(range(dy.shape.rank - 1))
        dnormal = dy * scale
        mean = tf.reduce_mean(dnormal, axis=-1, keepdims=True)
        along = tf.reduce_mean(dnormal * normal, axis=-1, keepdims=True)
        dx = inverse * (dnormal - mean - normal * along)
        return dx, tf.reduce_sum(dy * normal, rows), tf.reduce_sum(dy, rows)

    return normal * scale + bias, gradient


def norm(x: Tensor, weights: Weights, name: str) -> Tensor:
    """Layer normalisation with the weights called `name`; in 32 bits, whatever the precision of the rest."""
    normalise = kernels.layer_norm if kernels.library else layer_norm
    return tf.cast(normalise(tf.cast(x, tf.float32), weights[f"{name}/scale"], weights[f"{name}/bias"]), x.dtype)


def dense(x: Tensor, kernel: Tensor, finish: Callable[[Tensor], Tensor] = lambda flat: flat) -> Tensor:
    """x [..., in] times kernel [in, out]; as one flat matrix product, which is faster than a batched one.

    TensorFlow fuses `finish`, a bias and a ReLU, with the product where it is next to it.
    """
    shape = tf.shape(x)
    flat = finish(product(tf.reshape(x, [-1, kernel.shape[0]]), tf.convert_to_tensor(kernel)))
    return tf.reshape(flat, tf.concat([shape[:-1], [kernel.shape[1]]], 0))


@tf.custom_gradient  # type: ignore[untyped-decorator]
def product(x: Tensor, kernel: Tensor) -> tuple[Tensor, Any]:
    """x [rows, in] times kernel [in, out]. oneDNN makes a tall gradient of the kernel faster lying on its side."""

    def gradient(dy: Tensor) -> tuple[Tensor, Tensor]:
        tall = kernel.shape[0] > kernel.shape[1] and not kernels.on_tiles(x)
        left, right = (dy, x) if tall else (x, dy)
        dkernel = kernels.product(left, right, turn_a=True)
        return kernels.product(dy, kernel, turn_b=True), tf.transpose(dkernel) if tall else dkernel

    return kernels.product(x, kernel), gradient


def self_attention(x: Tensor, bias: Tensor, weights: Weights, name: str, heads: int, dropout: Dropout) -> Tensor:
    """Every position looks at every other of the same sentence, but where `bias` forbids it."""
    query, key, value = split_heads(dense(x, weights[f"{name}/qkv"]), 3, heads)
    return dense(attend(query, key, value, bias, dropout), weights[f"{name}/out"])


def cross_attention(
    x: Tensor, memory: Tensor, bias: Tensor, weights: Weights, name: str, heads: int, dropout: Dropout
) -> Tensor:
    """Every target position looks at the encoded source."""
    (query,) = split_heads(dense(x, weights[f"{name}/q"]), 1, heads)
    key, value = split_heads(dense(memory, weights[f"{name}/kv"]), 2, heads)
    return dense(attend(query, key, value, bias, dropout), weights[f"{name}/out"])


def split_heads(x: Tensor, parts: int, heads: int) -> list[Tensor]:
    """x [batch, length, parts * width] as `parts` tensors [batch, heads, length, width / heads]."""
    shape = tf.shape(x)
    size = x.shape[-1] // (parts * heads)
    x = tf.reshape(x, [shape[0], shape[1], parts, heads, size])
    return list(tf.unstack(tf.transpose(x, [2, 0, 3, 1, 4]), num=parts))


def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, dropout: Dropout) -> Tensor:
    """Scaled dot-product attention; the heads come back side by side: [batch, length, width]."""
    scores = tf.matmul(query * query.shape[-1] ** -0.5, key, transpose_b=True)  # [batch, heads, queries, keys]
    shares = tf.nn.softmax(tf.cast(scores, tf.float32) + bias)
    mixed = tf.matmul(dropout(tf.cast(shares, value.dtype)), value)
    shape = tf.shape(mixed)
    width = mixed.shape[1] * mixed.shape[3]
    return tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [shape[0], shape[2], width])


def feed_forward(x: Tensor, weights: Weights, name: str, dropout: Dropout) -> Tensor:
    """Two linear maps with a ReLU between."""
    in_bias, out_bias = weights[f"{name}/in_bias"], weights[f"{name}/out_bias"]
    inner = dense(x, weights[f"{name}/in"], lambda flat: tf.nn.relu(tf.nn.bias_add(flat, in_bias)))
    return dense(dropout(inner), weights[f"{name}/out"], lambda flat: tf.nn.bias_add(flat, out_bias))
