"""Which pairs are in which update."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import TrainSettings
from nmt.corpus.encode import Encoded
from nmt.errors import CorpusError
from nmt.training.batches import Batches, Position, ahead


def made_up(lengths):
    """Encoded pairs of the given (source, target) lengths; the ids name the pair they belong to."""
    offsets = [np.concatenate([[0], np.cumsum([pair[side] for pair in lengths])]).astype(np.int64) for side in (0, 1)]
    ids = [np.concatenate([np.full(pair[side], 10 + n) for n, pair in enumerate(lengths)]) for side in (0, 1)]
    return Encoded(ids[0], ids[1], offsets[0], offsets[1], np.arange(len(lengths)))


LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=80)


@given(LENGTHS, st.integers(1, 4), st.integers(1, 64), st.sampled_from(["tokens", "pairs"]), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_every_pair_is_seen_once_per_epoch_by_exactly_one_rank(lengths, ranks, batch, unit, epoch):
    train = TrainSettings(batch=batch, batch_unit=unit, max_length=100)
    seen = []
    for rank in range(ranks):
        batches = Batches(made_up(lengths), train, 1, rank, ranks)
        for item in itertools.islice(batches(Position(epoch)), len(batches.plan(epoch))):
            assert item.after.epoch in (epoch, epoch + 1)
            (share,) = item.batches
            seen.extend(share.pairs.tolist())
            for row, pair in enumerate(share.pairs):  # both sides of a row are the same pair, padded with zeros
                assert share.source[row].tolist() == [10 + pair] * lengths[pair][0] + [0] * (
                    share.source.shape[1] - lengths[pair][0]
                )
                assert share.target[row].tolist() == [10 + pair] * lengths[pair][1] + [0] * (
                    share.target.shape[1] - lengths[pair][1]
                )
            width = max(share.source.shape[1], share.target.shape[1]) if unit == "tokens" else 1
            assert (len(share.pairs) - 1) * width <= batch  # sharing out a group may give a rank one pair more
    assert sorted(seen) == list(range(len(lengths)))


@given(LENGTHS, st.integers(1, 64), st.sampled_from(["tokens", "pairs"]))
@settings(max_examples=40, deadline=None)
def test_two_ranks_make_the_updates_of_one_with_twice_the_batch(lengths, batch, unit):
    data = made_up(lengths)
    one = Batches(data, TrainSettings(batch=2 * batch, batch_unit=unit, max_length=100), 1, 0, 1)
    two = Batches(data, TrainSettings(batch=batch, batch_unit=unit, max_length=100), 1, 0, 2)
    assert [group.tolist() for group in one.plan(0)] == [group.tolist() for group in two.plan(0)]


@given(LENGTHS, st.sampled_from([(1, 4), (2, 2), (4, 1)]), st.integers(1, 16), st.sampled_from(["tokens", "pairs"]))
@settings(max_examples=40, deadline=None)
def test_accumulating_shares_out_an_update_as_more_ranks_would(lengths, shares, batch, unit):
    ranks, accumulate = shares
    train = TrainSettings(batch=batch, batch_unit=unit, max_length=100, accumulate=accumulate)
    parts = {}
    for rank in range(ranks):
        update = next(Batches(made_up(lengths), train, 1, rank, ranks)(Position()))
        assert len(update.batches) == accumulate
        parts |= {rank + place * ranks: part.pairs.tolist() for place, part in enumerate(update.batches)}
    alone = TrainSettings(batch=batch, batch_unit=unit, max_length=100)
    four = [next(Batches(made_up(lengths), alone, 1, rank, 4)(Position())).batches[0] for rank in range(4)]
    assert [parts[part] for part in range(4)] == [part.pairs.tolist() for part in four]


def test_order_depends_on_seed_and_epoch_only():
    data = made_up([(n % 9 + 1, n % 7 + 1) for n in range(200)])
    train = TrainSettings(batch=8)
    plan = [group.tolist() for group in Batches(data, train, 1, 0, 2).plan(0)]
    assert plan == [group.tolist() for group in Batches(data, train, 1, 1, 2).plan(0)]
    assert plan != [group.tolist() for group in Batches(data, train, 1, 0, 2).plan(1)]
    assert plan != [group.tolist() for group in Batches(data, train, 2, 0, 2).plan(0)]


def test_a_stream_goes_on_from_any_position():
    batches = Batches(made_up([(n % 9 + 1, n % 7 + 1) for n in range(50)]), TrainSettings(batch=4), 1, 0, 1)
    stream = list(itertools.islice(batches(Position()), 40))  # over the end of several epochs
    for cut in (0, 5, 12, 13, 30):
        later = next(batches(stream[cut].after))
        assert later.group.tolist() == stream[cut + 1].group.tolist()


def test_pairs_of_like_length_share_a_batch(corpus):
    from nmt.corpus.encode import load

    batches = Batches(load(corpus / "ids", "train"), TrainSettings(batch=1_000, batch_unit="tokens"), 1, 0, 1)
    epoch = itertools.islice(batches(Position()), len(batches.plan(0)))
    updates = [(update.padding, [*update.batches[0].source, *update.batches[0].target]) for update in epoch]
    rows = [row for _, sides in updates for row in sides]  # of both languages
    assert 1 - sum(map(np.count_nonzero, rows)) / sum(map(len, rows)) < 0.1
    padding, rows = updates[0]
    assert padding == pytest.approx(1 - sum(map(np.count_nonzero, rows)) / sum(map(len, rows)))


@pytest.mark.parametrize(("batch", "ranks"), [(1_024, 1), (4_096, 2)])
def test_pairs_are_alike_in_both_languages(batch, ranks):
    """Lengths as they are in real text: the target's differs from the source's by a quarter, either way."""
    generator = np.random.default_rng(1)
    source = generator.gamma(4.0, 6.0, 20_000).astype(int) % 90 + 2
    target = np.clip(source * generator.normal(1.0, 0.25, 20_000), 2, 95).astype(int)
    lengths = np.stack([source, target])
    train = TrainSettings(batch=batch, batch_unit="tokens", max_length=100)
    batches = Batches(made_up(list(zip(source.tolist(), target.tolist(), strict=True))), train, 1, 0, ranks)
    groups = batches.plan(0)
    assert sorted(np.concatenate(groups).tolist()) == list(range(20_000))
    padded = sum(len(group) * lengths[:, group].max(axis=1).sum() for group in groups)
    assert 1 - lengths.sum() / padded < 0.1


def test_pairs_over_the_length_are_not_used():
    batches = Batches(made_up([(5, 5), (50, 5), (5, 50)]), TrainSettings(batch=8, max_length=10), 1, 0, 1)
    assert [group.tolist() for group in batches.plan(0)] == [[0]]
    with pytest.raises(CorpusError, match="max_length = 2"):
        Batches(made_up([(5, 5)]), TrainSettings(max_length=2), 1, 0, 1)


def test_batches_made_ahead_are_the_same_and_errors_arrive():
    batches = Batches(made_up([(3, 3)] * 30), TrainSettings(batch=4), 1, 0, 1)
    plain = itertools.islice(batches(Position()), 20)
    ready = itertools.islice(ahead(batches(Position())), 20)
    assert [u.batches[0].pairs.tolist() for u in plain] == [u.batches[0].pairs.tolist() for u in ready]

    def broken():
        yield from itertools.islice(batches(Position()), 1)
        raise CorpusError("unreadable")

    stream = ahead(broken())
    next(stream)
    with pytest.raises(CorpusError, match="unreadable"):
        next(stream)
