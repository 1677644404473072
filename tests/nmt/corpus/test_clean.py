"""clean: the reference's rule, checked against a table by hand and against the rule written a second time."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import CleanSettings
from nmt.corpus.builtin import generate
from nmt.corpus.clean import SAMPLES, clean, drop_reason
from nmt.corpus.text import fold, read_pairs
from nmt.errors import CorpusError

Pair = tuple[str, str]
DEFAULT = CleanSettings()


def words(count: int) -> str:
    return " ".join(f"w{number}" for number in range(count))


def run(
    folder: Path, pairs: list[tuple[str | bytes, str | bytes]], settings: CleanSettings = DEFAULT
) -> dict[str, Any]:
    """Clean these pairs into `folder/out`."""
    for side, name in enumerate(("train.en", "train.de")):
        lines = (line if isinstance(line, bytes) else line.encode() for line in (pair[side] for pair in pairs))
        (folder / name).write_bytes(b"".join(line + b"\n" for line in lines))
    (folder / "out").mkdir()
    return clean(folder / "train.en", folder / "train.de", folder / "out", settings)


def kept(folder: Path) -> list[Pair]:
    return list(read_pairs(folder / "out" / "train.en", folder / "out" / "train.de"))


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        (("a b c", "d e f"), None),
        (("a", "b"), None),
        (("", "b"), "empty"),
        (("a", ""), "empty"),
        (("", ""), "empty"),
        ((words(80), words(80)), None),
        ((words(81), words(80)), "long"),
        ((words(80), words(81)), "long"),
        ((words(9), "a"), None),
        ((words(10), "a"), "ratio"),
        (("a b", words(18)), None),
        (("a b", words(19)), "ratio"),
        (("", words(81)), "empty"),
        (("a", words(81)), "long"),
    ],
)
def test_the_rule_of_the_reference(pair: Pair, why: str | None):
    assert drop_reason(pair, DEFAULT) == why


@pytest.mark.parametrize(
    ("settings", "pair", "why"),
    [
        ({"min_words": 2}, ("a b", "a"), "short"),
        ({"min_words": 2}, ("a b", "a b"), None),
        ({"max_words": 2}, ("a b c", "a b"), "long"),
        ({"max_ratio": 1}, ("a b", "a b"), None),
        ({"max_ratio": 1}, ("a b", "a b c"), "ratio"),
        ({"max_ratio": 1.5}, ("a b", "a b c"), None),
    ],
)
def test_the_rule_follows_its_settings(settings: dict[str, Any], pair: Pair, why: str | None):
    assert drop_reason(pair, CleanSettings(**settings)) == why


def reference(raw: Pair, settings: CleanSettings) -> Pair | None:
    """The rule, written again from its description."""
    left, right = fold(raw[0]).split(), fold(raw[1]).split()
    shorter, longer = sorted((len(left), len(right)))
    if shorter == 0 or shorter < settings.min_words or longer > settings.max_words:
        return None
    return None if longer > settings.max_ratio * shorter else (" ".join(left), " ".join(right))


LINE = st.lists(st.sampled_from(["a", "bc", "ü", " ", "\t", "\u2028", "\x00", "\u00a0", " d "]), max_size=25).map(
    "".join
) | st.lists(st.just("w"), max_size=14).map(" ".join)
SETTINGS = st.builds(
    CleanSettings, min_words=st.integers(1, 3), max_words=st.integers(5, 12), max_ratio=st.sampled_from([1, 1.5, 3, 9])
)


@given(st.lists(st.tuples(LINE, LINE), max_size=12), SETTINGS)
def test_what_is_kept_is_what_the_rule_keeps_and_cleaning_again_changes_nothing(
    pairs: list[Pair], settings: CleanSettings
):
    expected = [found for pair in [("a b c", "d e f"), *pairs] if (found := reference(pair, settings))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counts = run(folder, [("a b c", "d e f"), *pairs], settings)
        assert kept(folder) == expected
        assert counts["read"] == len(pairs) + 1 == counts["kept"] + sum(counts["dropped"].values())
        assert counts["kept"] == len(expected)
        (folder / "again").mkdir()
        again = run(folder / "again", list(kept(folder)), settings)
        assert again == {"read": counts["kept"], "kept": counts["kept"], "repaired": 0, "dropped": {}}
        assert kept(folder / "again") == expected


def test_counts_samples_and_repairs(tmp_path: Path):
    pairs: list[tuple[str | bytes, str | bytes]] = [
        ("a good one", "ein guter"),
        ("white \t space", "ein  guter"),
        (b"broken \xff byte", "ein guter"),
        ("", "nichts"),
        (words(81), words(80)),
        (words(20), "kurz"),
        ("  ", "nichts\tdrin"),
    ]
    counts = run(tmp_path, pairs)
    assert counts == {"read": 7, "kept": 3, "repaired": 1, "dropped": {"empty": 2, "long": 1, "ratio": 1}}
    assert kept(tmp_path)[1:] == [("white space", "ein guter"), ("broken \ufffd byte", "ein guter")]
    samples = (tmp_path / "out" / "dropped.tsv").read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[0] for line in samples] == ["empty", "long", "ratio", "empty"]
    assert samples[-1] == "empty\t\tnichts drin"


def test_samples_of_each_reason_are_capped(tmp_path: Path):
    empty, ratio = [("", "x")] * (SAMPLES + 20), [(words(10), "x")] * (SAMPLES + 1)
    counts = run(tmp_path, [("a", "b"), *empty, *ratio])
    assert counts["dropped"] == {"empty": SAMPLES + 20, "ratio": SAMPLES + 1}
    samples = (tmp_path / "out" / "dropped.tsv").read_text(encoding="utf-8").splitlines()
    assert Counter(line.split("\t")[0] for line in samples) == {"empty": SAMPLES, "ratio": SAMPLES}


def test_an_empty_corpus_is_an_error(tmp_path: Path):
    with pytest.raises(CorpusError, match=r"train\.en and .*train\.de are empty"):
        run(tmp_path, [])


def test_a_corpus_of_which_nothing_is_left_is_an_error_with_the_reasons(tmp_path: Path):
    with pytest.raises(CorpusError, match=r"all 3 training pairs were dropped \(empty 2, ratio 1\)"):
        run(tmp_path, [("", "x"), ("x", ""), (words(10), "x")])


def test_sides_of_different_length_are_an_error(tmp_path: Path):
    (tmp_path / "train.en").write_text("a\nb\n", encoding="utf-8")
    (tmp_path / "train.de").write_text("a\n", encoding="utf-8")
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(CorpusError, match=r"train\.en 2; train\.de 1"):
        clean(tmp_path / "train.en", tmp_path / "train.de", out, DEFAULT)


def test_exactly_the_dirt_that_the_rule_is_for_is_dropped_from_the_builtin_corpus(tmp_path: Path):
    made = generate(tmp_path / "raw", seed=1, train=2_000, dev=10, test=10, dirt=0.05, workers=1)
    (tmp_path / "out").mkdir()
    counts = clean(tmp_path / "raw" / "train.en", tmp_path / "raw" / "train.de", tmp_path / "out", DEFAULT)
    assert counts["dropped"] == {
        "empty": made["dirt.empty"],
        "long": made["dirt.overlong"],
        "ratio": made["dirt.ratio"],
    }
    assert min(counts["dropped"].values()) > 0
    assert counts["read"] == 2_000
    assert counts["repaired"] == made["dirt.control"]
