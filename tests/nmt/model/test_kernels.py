"""Our own kernels: the same dropout as TensorFlow's operations to the last bit, the same norm to its rounding.

Products are ours only on processors with AMX; on others these tests look at TensorFlow's, which keep more bits.
"""

import shutil
import subprocess
import sys
import textwrap
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from nmt.config import TrainSettings
from nmt.model import kernels, layers, loss
from nmt.model.shape import ModelShape
from nmt.model.transformer import Transformer, seeded_dropout
from nmt.training.ranks import Alone
from nmt.training.step import Step

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs a C++ compiler: apt-get install -y g++")
SHAPES = [(9, 5, 7), (3, 16), (40, 12, 128), (5, 3), (1, 1_000), (0, 4), (4, 2, 0)]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The kernels, freshly compiled; in use only where a test says so."""
    assert kernels.use(tmp_path_factory.mktemp("cache")) == ""
    found, kernels.library = kernels.library, None
    return found


@pytest.fixture
def both(library, monkeypatch):
    """Call a function without the kernels and with them."""

    def call(function):
        plain = function()
        monkeypatch.setattr(kernels, "library", library)
        own = function()
        monkeypatch.setattr(kernels, "library", None)
        return plain, own

    return call


def dropped(shape, seed, number, first, rate=0.3, precision="float32"):
    """What dropout makes of some numbers, and the gradient that comes back through it."""
    x = tf.Variable(tf.cast(tf.random.stateless_normal(shape, [1, 2]), precision))
    with tf.GradientTape() as tape:
        y = seeded_dropout(rate, 0.0, 0.0, seed, tf.constant(number, tf.int64), tf.constant(first)).outer(x)
        total = tf.reduce_sum(y * tf.cast(tf.random.stateless_normal(shape, [3, 4]), precision))
    return y.numpy(), tf.convert_to_tensor(tape.gradient(total, x)).numpy()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_dropout_is_tensorflows_to_the_last_bit(both, shape, precision):
    for seed, number, first, rate in ((1, 7, 0, 0.3), (2**31 - 1, 2**40, 1_234, 0.1), (0, 0, 2**30, 0.99)):
        plain, own = both(partial(dropped, shape, seed, number, first, rate, precision))
        for left, right in zip(own, plain, strict=True):
            assert left.tobytes() == right.tobytes()  # even the sign of a zero


def test_dropout_of_every_bfloat16_is_tensorflows(both):
    x = tf.bitcast(tf.reshape(tf.cast(tf.range(2**16), tf.uint16), [256, 256]), tf.bfloat16)
    plain, own = both(lambda: seeded_dropout(0.1, 0.0, 0.0, 1, tf.constant(3, tf.int64)).outer(x).numpy())
    np.testing.assert_array_equal(np.isnan(own), np.isnan(plain))
    number = ~np.isnan(plain)
    np.testing.assert_array_equal(own[number].view(np.uint16), plain[number].view(np.uint16))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("factor", [0.0, 1.5], ids=["alone", "r_drop"])
@pytest.mark.parametrize("shape", [(2, 1), (8, 13), (6, 1_000), (4, 32_768), (0, 5)], ids=str)
def test_softmax_is_tensorflows_to_its_rounding(both, precision, factor, shape):
    generator = np.random.default_rng(shape[1])
    z = tf.cast(generator.normal(0, 6, shape) - 50, precision)
    labels = tf.constant(generator.integers(0, shape[1], shape[0]), tf.int32)
    plain, own = both(lambda: tf.function(lambda: loss.softmax(z + 0, labels, 1.0, factor))())  # traced anew
    for left, right in zip(own, plain, strict=True):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        left, right = (tf.cast(x, tf.float32).numpy() for x in (left, right))
        rounding = 2.0**-7 if left.ndim == 2 and precision == "bfloat16" else 2e-5
        np.testing.assert_allclose(left, right, rtol=rounding, atol=1e-5 * abs(right).max(initial=1e-3))


def test_softmax_of_what_is_no_number_is_none(both):
    """A training that goes wrong is to be seen to."""
    for bad in (np.nan, np.inf):
        z = tf.constant([[1.0, bad, 2.0], [1.0, -np.inf, 2.0]])
        _, (shares, nll, _, _) = both(lambda z=z: loss.softmax(z, tf.constant([0, 0]), 1.0, 0.0))
        assert np.isnan(nll[0]) and np.isnan(shares[0]).all()
        np.testing.assert_allclose(shares[1], [0.268941, 0, 0.731059], rtol=1e-5, atol=1e-30)


def test_logits_that_others_need_stay_as_they_are(both):
    z, labels = tf.random.stateless_normal([4, 9], [1, 2]), tf.constant([0, 1, 2, 8])
    before = z.numpy()
    both(lambda: loss.softmax(z, labels, 1.0, 0.0))
    np.testing.assert_array_equal(z, before)


@pytest.mark.parametrize(("labels", "factor"), [([0, 9], 0.0), ([-1, 0], 0.0), ([0], 0.0), ([0, 0, 0], 1.0)])
def test_softmax_refuses_what_does_not_fit(library, labels, factor):
    z = tf.zeros([max(len(labels), 2), 9])
    with pytest.raises(tf.errors.InvalidArgumentError, match="a row of logits for each label"):
        library.wmtflow_softmax(z=z, labels=labels, scale=1.0, apart=factor)


def test_processors_without_wide_registers_draw_the_same(tmp_path):
    """In a process of its own: TensorFlow knows each operation by its name."""
    script = f"""
        import numpy as np, tensorflow as tf
        from pathlib import Path
        from nmt.model import kernels
        from tests.nmt.model.test_kernels import SHAPES, dropped
        plain = [dropped(shape, 1, 7, 5) for shape in SHAPES]
        kernels.FLAGS.append("-DPORTABLE")
        assert kernels.use(Path({str(tmp_path)!r})) == ""
        for before, shape in zip(plain, SHAPES):
            for left, right in zip(before, dropped(shape, 1, 7, 5)):
                np.testing.assert_array_equal(left, right)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("width", [8, 9, 33, 512])
@pytest.mark.parametrize("rows", [0, 1, 7, 300])
def test_norm_and_its_gradient_are_the_plain_ones(both, rows, width):
    x, scale, bias, dy = (
        tf.Variable(1.5 + tf.random.stateless_normal(shape, [seed, 1]))
        for seed, shape in enumerate(([rows, width], [width], [width], [rows, width]))
    )

    def normed():
        weights = {"n/scale": scale, "n/bias": bias}
        with tf.GradientTape() as tape:
            y = layers.norm(tf.reshape(x, [rows, 1, width]), weights, "n")
        return [y, *tape.gradient(y, [x, scale, bias], tf.reshape(dy, [rows, 1, width]))]

    plain, own = both(normed)
    for left, right in zip(own, plain, strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-5, atol=2e-5 * rows)


@pytest.mark.parametrize(
    ("precision", "products", "tolerance"),
    [("float32", "highest", 1e-5), ("float32", "high", 1e-4), ("bfloat16", "high", 0.05)],
)
def test_a_model_computes_with_them_what_it_computes_without(both, monkeypatch, precision, products, tolerance):
    monkeypatch.setattr(kernels, "tiles", kernels.tiles and products == "high")
    model = Transformer(ModelShape(60, 2, 32, 4, 64), 1, precision)
    source, target = (tf.random.stateless_uniform([6, 9], [1, n], 4, 60, tf.int32) for n in (1, 2))

    def gradients():
        with tf.GradientTape() as tape:
            loss, *_ = model.losses(source, target, 0.1, seeded_dropout(0.2, 0.1, 0.1, 1, tf.constant(7, tf.int64)))
        return [loss, *map(tf.convert_to_tensor, tape.gradient(loss, list(model.weights.values())))]

    plain, own = both(gradients)
    for left, right in zip(own, plain, strict=True):
        assert float(tf.norm(left - right)) <= tolerance * float(tf.norm(right))


@pytest.mark.parametrize("turned", ["", "a", "b"])
@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [
        (1, 1, 1),
        (32, 32, 32),
        (33, 40, 17),
        (5, 3, 70),
        (16, 31, 48),
        (100, 700, 130),
        (4_130, 9, 40),
        (40, 530, 4_130),
    ],
)
def test_products_keep_16_bits_of_their_factors(both, rows, depth, columns, turned):
    a = tf.random.stateless_normal([depth, rows] if turned == "a" else [rows, depth], [1, 2])
    b = tf.random.stateless_normal([columns, depth] if turned == "b" else [depth, columns], [3, 4])
    _, found = both(lambda: kernels.product(a, b, turn_a=turned == "a", turn_b=turned == "b"))
    left, right = (a.numpy().T if turned == "a" else a.numpy(), b.numpy().T if turned == "b" else b.numpy())
    error = np.abs(found.numpy() - left.astype(np.float64) @ right.astype(np.float64))
    assert (error <= 3 * 2.0**-16 * (np.abs(left) @ np.abs(right))).all()


def test_products_of_small_whole_numbers_are_exact(both):
    a, b = (tf.cast(tf.random.stateless_uniform([60, 60], [1, n], -9, 9, tf.int32), tf.float32) for n in (1, 2))
    plain, own = both(lambda: kernels.product(a, b))
    np.testing.assert_array_equal(own, plain)


def test_products_of_nothing_and_with_bad_numbers(both):
    _, nothing = both(lambda: kernels.product(tf.zeros([0, 5]), tf.ones([5, 40])))
    assert nothing.shape == (0, 40)
    _, of_no_depth = both(lambda: kernels.product(tf.zeros([0, 5]), tf.ones([0, 40]), turn_a=True))
    np.testing.assert_array_equal(of_no_depth, np.zeros((5, 40)))
    for bad in (np.nan, np.inf):
        _, found = both(lambda bad=bad: kernels.product(tf.constant([[1.0, bad], [1.0, 2.0]]), tf.ones([2, 40])))
        assert not np.isfinite(found[0]).any() and np.isfinite(found[1]).all()


def test_products_that_cannot_be_are_refused(library, monkeypatch):
    monkeypatch.setattr(kernels, "library", library)
    for a, b, turned in (([2, 3], [2, 3], {}), ([2, 3], [3, 2], {"turn_a": True}), ([2, 3], [4], {"turn_b": True})):
        with pytest.raises(tf.errors.InvalidArgumentError):
            kernels.product(tf.ones(a), tf.ones(b), **turned)


def test_a_product_knows_its_shape_before_it_is_made(both):
    @tf.function(input_signature=[tf.TensorSpec([None, 7]), tf.TensorSpec([None, 9])])
    def traced(x, y):
        assert kernels.product(x, tf.ones([7, 5])).shape.as_list() == [None, 5]
        assert kernels.product(x, y, turn_a=True).shape.as_list() == [7, 9]
        return kernels.product(x, tf.ones([6, 7]), turn_b=True)

    both(lambda: traced.get_concrete_function())
    both(lambda: np.testing.assert_allclose(traced(tf.ones([2, 7]), tf.ones([2, 9])), 7 * np.ones((2, 6))))


def test_they_are_compiled_once_and_a_broken_compiler_is_told(tmp_path, monkeypatch):
    first = kernels.compiled(tmp_path)
    assert [first] == list(tmp_path.iterdir())
    made = first.stat().st_mtime_ns
    assert kernels.compiled(tmp_path) == first and first.stat().st_mtime_ns == made
    for compiler, why in (
        ("no-such-compiler", "apt-get install -y g++"),
        ("false", "status 1"),
        ("g++ '", "quotation"),
    ):
        monkeypatch.setenv("CXX", compiler)
        assert why in kernels.use(tmp_path)
    assert kernels.library is None


def test_a_damaged_library_is_made_again(tmp_path):
    """In a process of its own, which has not loaded one yet."""
    kernels.compiled(tmp_path).write_bytes(b"")
    script = f"from pathlib import Path; from nmt.model import kernels; assert not kernels.use(Path({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_lanes_without_pairs_add_nothing(both):
    """A batch of one pair in three lanes: two of them have no rows at all."""
    sizes = {"layers": 1, "width": 16, "heads": 2, "feed_forward": 32}
    job = SimpleNamespace(train=TrainSettings(**sizes, precision="float32"), seed=1)
    job.shape = ModelShape(50, 1, 16, 2, 32)
    ids = tf.constant([[5, 6, 7, 3]])

    def gradients(lanes):
        step = Step(job, Alone(), lanes)
        return tf.function(lambda: step.gradients(ids, ids, 0))()

    (one, _), (_, three) = (both(partial(gradients, lanes)) for lanes in (1, 3))
    for left, right in zip(three, one, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)
