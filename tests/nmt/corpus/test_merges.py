"""Merges learnt here against subword-nmt's own, one by one."""

import contextlib
import io
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from nmt.corpus.builtin import sentence
from nmt.corpus.merges import Vocabulary, learn_merges


def reference(words, merges, min_frequency=2):
    codes = io.StringIO()
    with contextlib.redirect_stderr(io.StringIO()):
        learn_bpe([f"{word} {count}" for word, count in words.items()], codes, merges, min_frequency, is_dict=True)
    return [tuple(line.split(" ")) for line in codes.getvalue().split("\n")[1:-1]]


@given(
    # Two letters make the hard cases common: overlapping pairs, and pieces spelt in two ways inside one word.
    st.dictionaries(st.text("ab", min_size=2, max_size=14), st.integers(1, 40), min_size=1, max_size=30),
    st.integers(1, 60),
    st.integers(1, 4),
)
@settings(max_examples=300, deadline=None)
def test_words_of_two_letters(words, merges, min_frequency):
    assert learn_merges(Vocabulary(words.items()), merges, min_frequency) == reference(words, merges, min_frequency)


@given(st.dictionaries(st.text("abcdeäß.1", min_size=1, max_size=12), st.integers(1, 10**6), min_size=1, max_size=60))
@settings(max_examples=100, deadline=None)
def test_words_of_several_letters(words):
    words["both"] = 3  # subword-nmt cannot learn from words of one letter only
    assert learn_merges(Vocabulary(words.items()), 200, 2) == reference(words, 200)


@pytest.mark.parametrize("merges", [50, 3_000])
def test_real_words_with_pairs_set_aside_and_fetched_back(merges):
    """Enough merges that rare pairs are set aside and fetched back several times, as in a real corpus."""
    rng = random.Random(1)
    words = Counter(word for _ in range(4_000) for side in sentence(rng) for word in side.split())
    words.update({"".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 15))): rng.randint(1, 9) for _ in range(2_000)})
    found = learn_merges(Vocabulary(words.items()), merges, 2)
    assert len(found) == merges
    assert found == reference(words, merges)


def test_nothing_to_merge():
    assert learn_merges(Vocabulary([("a", 5), ("b", 3)]), 10, 2) == []
    assert learn_merges(Vocabulary([("ab", 1)]), 10, 2) == []


def check_segments(words, merges):
    """Where the learner says how a word is split, applying the merges splits it so."""
    vocabulary = Vocabulary(words.items())
    found = learn_merges(vocabulary, merges, 2)
    codes = io.StringIO("#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in found))
    bpe = BPE(codes)
    sure = 0
    for word, pieces in zip(words, vocabulary.segments(), strict=True):
        if pieces is not None:
            sure += 1
            assert "@@ ".join(pieces) == bpe.segment(word)
    return sure / len(words)


@given(
    st.dictionaries(st.text("ab", min_size=2, max_size=14), st.integers(2, 40), min_size=1, max_size=30),
    st.integers(1, 60),
)
@settings(max_examples=300, deadline=None)
def test_segments_of_words_of_two_letters(words, merges):
    check_segments(words, merges)


def test_segments_of_real_words_are_nearly_all_known():
    rng = random.Random(2)
    words = Counter(word for _ in range(2_000) for side in sentence(rng) for word in side.split())
    assert check_segments(words, 1_500) > 0.9
