"""The hand-made loss against TensorFlow's own, value and gradient."""

import numpy as np
import pytest
import tensorflow as tf

from nmt.model import loss
from nmt.model.loss import token_losses


def plain_loss(hidden, embedding, labels, smoothing):
    """Label-smoothed cross entropy the long way: logits, one-hot, TensorFlow's softmax loss."""
    size = embedding.shape[0]
    logits = tf.matmul(hidden, embedding, transpose_b=True)
    targets = tf.one_hot(labels, size) * (1 - smoothing) + smoothing / size
    return tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(targets, logits))


@pytest.mark.parametrize("count", [1, 7, 8, 9, 40])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_value_and_gradients_equal_the_plain_loss(monkeypatch, count, smoothing):
    monkeypatch.setattr(loss, "BLOCK", 8)  # several blocks, full and partial
    generator = np.random.default_rng(count)
    hidden = tf.Variable(generator.normal(size=(count, 6)).astype(np.float32))
    embedding = tf.Variable(generator.normal(size=(13, 6)).astype(np.float32))
    labels = tf.constant(generator.integers(0, 13, count), tf.int32)
    with tf.GradientTape(persistent=True) as tape:
        ours, nll = token_losses(hidden, tf.convert_to_tensor(embedding), labels, smoothing)
        theirs = plain_loss(hidden, embedding, labels, smoothing)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    np.testing.assert_allclose(nll, plain_loss(hidden, embedding, labels, 0.0), rtol=1e-5)
    for variable in (hidden, embedding):
        np.testing.assert_allclose(tape.gradient(ours, variable), tape.gradient(theirs, variable), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [0, 2, 8, 18])
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("float16", 2e-2)])
def test_what_two_dropouts_differ_by_is_their_divergence(monkeypatch, count, precision, tolerance):
    """Against the definition, differentiated by TensorFlow."""
    monkeypatch.setattr(loss, "BLOCK", 8)
    generator = np.random.default_rng(count)
    hidden, embedding = (
        tf.Variable(generator.normal(size=(n, 6)).astype(np.float16).astype(np.float32)) for n in (count, 13)
    )
    labels = tf.constant(np.repeat(generator.integers(0, 13, count // 2), 2), tf.int32)
    with tf.GradientTape(persistent=True) as tape:
        short = [tf.cast(variable, precision) for variable in (hidden, embedding)]
        ours = token_losses(*short, labels, 0.1, tf.constant(64.0), apart=3.0)[0]
        logs = tf.nn.log_softmax(tf.matmul(hidden, embedding, transpose_b=True))
        p, q = logs[0::2], logs[1::2]
        divergence = tf.reduce_sum(tf.exp(p) * (p - q)) + tf.reduce_sum(tf.exp(q) * (q - p))
        theirs = plain_loss(hidden, embedding, labels, 0.1) + 3.0 / 2 * divergence
    np.testing.assert_allclose(ours, theirs, rtol=1e-5 if precision == "float32" else 1e-2)
    for variable in (hidden, embedding):
        expected = 64 * tape.gradient(theirs, variable).numpy()
        most = abs(expected).max(initial=1e-3)
        np.testing.assert_allclose(tape.gradient(ours, variable), expected, atol=tolerance * most)


def test_the_gradient_scales_with_what_comes_from_above():
    hidden, embedding = (
        tf.Variable(tf.random.stateless_normal([3, 4], [1, 2])),
        tf.random.stateless_normal([5, 4], [3, 4]),
    )
    labels = tf.constant([0, 4, 2])
    with tf.GradientTape(persistent=True) as tape:
        once = token_losses(hidden, embedding, labels, 0.1)[0]
        thrice = 3 * once
    np.testing.assert_allclose(tape.gradient(thrice, hidden), 3 * tape.gradient(once, hidden), rtol=1e-5)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("float16", 2e-2)])
def test_the_gradient_is_scaled_where_it_is_made(monkeypatch, precision, tolerance):
    """In 16 bits too, where the gradient is made of shares instead of powers."""
    monkeypatch.setattr(loss, "BLOCK", 8)
    generator = np.random.default_rng(1)
    hidden, embedding = (
        tf.Variable(generator.normal(size=(n, 6)).astype(np.float16).astype(np.float32)) for n in (20, 13)
    )
    labels = tf.constant(generator.integers(0, 13, 20), tf.int32)
    with tf.GradientTape(persistent=True) as tape:
        short = [tf.cast(variable, precision) for variable in (hidden, embedding)]
        ours = token_losses(*short, labels, 0.1, tf.constant(64.0))[0]
        theirs = plain_loss(hidden, embedding, labels, 0.1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-2)
    for variable in (hidden, embedding):
        expected = 64 * tape.gradient(theirs, variable).numpy()
        np.testing.assert_allclose(tape.gradient(ours, variable), expected, atol=tolerance * abs(expected).max())


def test_no_token_is_no_loss():
    value, nll = token_losses(tf.zeros([0, 4]), tf.ones([5, 4]), tf.zeros([0], tf.int32), 0.1)
    assert (float(value), float(nll)) == (0.0, 0.0)
