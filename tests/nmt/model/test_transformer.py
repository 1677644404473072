"""What must hold for any Transformer: shapes, masks, reproducible weights and dropout."""

import numpy as np
import pytest
import tensorflow as tf

from nmt.config import TrainSettings
from nmt.corpus.bpe import BEGIN, PAD, SPECIALS
from nmt.model import layers
from nmt.model.shape import POSITIONS, ModelShape, positions
from nmt.model.transformer import (
    BEGIN_ID,
    LEVELS,
    NO_DROPOUT,
    PAD_ID,
    Dropouts,
    Transformer,
    nothing_dropped,
    random_levels,
    seeded_dropout,
)

SHAPE = ModelShape(vocabulary=24, layers=2, width=16, heads=4, feed_forward=32)
SOURCE = tf.constant([[5, 6, 7, 3, 0], [8, 9, 3, 0, 0]])
TARGET = tf.constant([[10, 11, 3, 0], [12, 13, 14, 3]])


@pytest.fixture(scope="module")
def model():
    return Transformer(SHAPE, seed=1)


def test_special_ids_are_the_vocabulary_s():
    assert (SPECIALS[PAD_ID], SPECIALS[BEGIN_ID]) == (PAD, BEGIN)


def test_the_longest_training_pair_has_a_position_for_each_piece_and_its_end():
    field = TrainSettings.model_fields["max_length"]
    assert next(limit.le for limit in field.metadata if hasattr(limit, "le")) + 1 == POSITIONS


def test_base_model_has_the_published_number_of_parameters():
    # Without attention biases: embedding 32,768 x 512, six encoder and six decoder layers.
    assert ModelShape(32_768, 6, 512, 8, 2048).parameters == 16_777_216 + 6 * 3_150_336 + 6 * 4_199_936 + 2_048


def test_weights_have_the_shapes_of_the_table(model):
    assert {name: tuple(value.shape) for name, value in model.numpy().items()} == SHAPE.weights()
    assert sum(value.size for value in model.numpy().values()) == SHAPE.parameters


def test_the_same_seed_gives_the_same_weights(model):
    again, other = Transformer(SHAPE, seed=1), Transformer(SHAPE, seed=2)
    assert all(np.array_equal(value, again.numpy()[name]) for name, value in model.numpy().items())
    assert not np.array_equal(model.numpy()["embedding"], other.numpy()["embedding"])


def test_two_readings_without_dropout_are_one(model):
    once, twice = (model.losses(SOURCE, TARGET, 0.1, NO_DROPOUT, r_drop=weight) for weight in (0.0, 5.0))
    np.testing.assert_allclose(twice, once, rtol=1e-5)


def test_two_readings_are_their_mean_and_what_they_differ_by(model):
    def losses(r_drop):
        dropout = seeded_dropout(0.3, 0.3, 0.0, 1, tf.constant(7, tf.int64))
        return [float(value) for value in model.losses(SOURCE, TARGET, 0.1, dropout, r_drop=r_drop)]

    (little, nll, pieces), (much, *same) = losses(1e-6), losses(2.0)
    assert [nll, pieces] == pytest.approx(same) and pieces == 7
    assert much > little + 0.01
    assert losses(4.0)[0] - little == pytest.approx(2 * (much - little), rel=1e-3)


def test_padding_changes_no_loss(model):
    alone = [model.losses(SOURCE[:1, :4], TARGET[:1, :3], 0.1, NO_DROPOUT)[0]]
    alone.append(model.losses(SOURCE[1:, :3], TARGET[1:], 0.1, NO_DROPOUT)[0])
    together, _, pieces = model.losses(SOURCE, TARGET, 0.1, NO_DROPOUT)
    np.testing.assert_allclose(together, sum(alone), rtol=1e-5)
    assert float(pieces) == 7


def test_a_batch_of_padding_only_has_no_loss_and_no_gradient(model):
    empty = tf.zeros([1, 1], tf.int32)
    with tf.GradientTape() as tape:
        loss, _, pieces = model.losses(empty, empty, 0.1, NO_DROPOUT)
    gradients = tape.gradient(loss, list(model.weights.values()))
    assert (float(loss), float(pieces)) == (0.0, 0.0)
    assert all(not np.any(tf.convert_to_tensor(gradient).numpy()) for gradient in gradients)


def test_no_position_sees_a_later_one(model):
    changed = tf.constant([[10, 11, 3, 0], [12, 13, 20, 21]])
    before, after = (model.log_probabilities(SOURCE, target).numpy() for target in (TARGET, changed))
    np.testing.assert_allclose(before[1, :2], after[1, :2], rtol=1e-5)
    assert not np.allclose(before[1, 3], after[1, 3])


def test_layer_norm_equals_autodiff():
    x = tf.Variable(tf.random.stateless_normal([3, 5, 8], [1, 1]))
    scale, bias = tf.Variable(tf.random.stateless_normal([8], [2, 2])), tf.Variable(tf.zeros([8]))
    with tf.GradientTape(persistent=True) as tape:
        ours = tf.reduce_sum(tf.sin(layers.layer_norm(x, scale, bias)))
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        theirs = tf.reduce_sum(tf.sin((x - mean) * tf.math.rsqrt(variance + 1e-6) * scale + bias))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    for variable in (x, scale, bias):
        np.testing.assert_allclose(tape.gradient(ours, variable), tape.gradient(theirs, variable), rtol=1e-3, atol=1e-5)


def test_dropout_follows_from_seed_and_number():
    x = tf.ones([64, 64])

    def draw(seed, number):
        dropout = seeded_dropout(0.25, 0.5, 0.0, seed, tf.constant(number))
        return dropout.outer(x).numpy(), dropout.inner(x).numpy()

    first, second = draw(1, 7)
    assert not np.array_equal(first, second)  # two places in a model
    assert np.array_equal(first, draw(1, 7)[0])
    assert not np.array_equal(first, draw(1, 8)[0])
    assert not np.array_equal(first, draw(2, 7)[0])
    assert abs((first == 0).mean() - 0.25) < 0.03
    assert first.max() == pytest.approx(1 / 0.75)
    assert abs((second == 0).mean() - 0.5) < 0.03
    assert seeded_dropout(0.0, 0.0, 0.0, 1, tf.constant(1)).outer(x) is x


def test_word_dropout_takes_whole_pieces_from_both_languages(model):
    x = tf.random.stateless_normal([40, 50, 16], [1, 1])
    dropout = seeded_dropout(0.0, 0.0, 0.1, 1, tf.constant(7))
    dropped = dropout.words(x).numpy()
    gone = (dropped == 0).all(axis=-1)
    assert abs(gone.mean() - 0.1) < 0.02
    np.testing.assert_allclose(dropped[~gone], x.numpy()[~gone] / 0.9, rtol=1e-4)
    blank = Dropouts(nothing_dropped, nothing_dropped, tf.zeros_like)
    # With every piece blank, a model knows only where they stand: other words, same states.
    other_source, other_target = (tf.where(ids > 3, ids + 1, ids) for ids in (SOURCE, TARGET))
    memory, bias = model.encode(SOURCE, blank)
    np.testing.assert_array_equal(memory, model.encode(other_source, blank)[0])
    states = [model.decode(target, memory, bias, blank) for target in (TARGET, other_target)]
    np.testing.assert_array_equal(*states)


def test_dropout_is_the_plain_formula_on_its_random_numbers():
    """x / (1 - rate) where the number of that place is high enough, else 0; the gradient is masked alike."""
    x = tf.Variable(tf.random.stateless_normal([3, 5, 7], [1, 1]))  # rows of 35: of the last 128 bits most are left
    levels = random_levels(tf.constant([3, 5, 7]), tf.constant([7], tf.uint64), 1_000, 0).numpy()
    kept = levels >= round(0.3 * LEVELS)
    with tf.GradientTape() as tape:
        dropped = seeded_dropout(0.3, 0.0, 0.0, 1, tf.constant(7)).outer(x)
        total = tf.reduce_sum(tf.sin(dropped))
    np.testing.assert_allclose(dropped, np.where(kept, x.numpy() / 0.7, 0), rtol=1e-4)
    np.testing.assert_allclose(
        tape.gradient(total, x), np.where(kept, np.cos(dropped.numpy()) / 0.7, 0), rtol=1e-4, atol=1e-6
    )


def test_rows_draw_the_same_numbers_whether_alone_or_in_a_batch():
    key = tf.constant([7], tf.uint64)
    for row in ([5, 7], [8], [3]):
        whole = random_levels(tf.constant([9, *row]), key, 1, 0).numpy()
        parts = [
            random_levels(tf.constant([end - begin, *row]), key, 1, begin) for begin, end in ((0, 4), (4, 4), (4, 9))
        ]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
        assert not np.array_equal(whole, random_levels(tf.constant([9, *row]), key, 2, 0))


def test_random_levels_are_even_and_unrelated_to_their_neighbours():
    levels = random_levels(tf.constant([200, 1_000]), tf.constant([2], tf.uint64), 1, 0).numpy().ravel() / LEVELS
    counts = np.histogram(levels, bins=16, range=(0, 1))[0]
    assert abs(counts / len(levels) - 1 / 16).max() < 0.003
    assert abs(np.corrcoef(levels[:-1], levels[1:])[0, 1]) < 0.01


def test_position_table():
    table = positions(8)
    assert table.shape == (POSITIONS, 8)
    np.testing.assert_allclose(table[0], [0, 0, 0, 0, 1, 1, 1, 1])
    np.testing.assert_allclose(table[3, 0], np.sin(3), rtol=1e-6)
