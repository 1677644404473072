"""clean: the reference's rule against the rule written a second time; what filters leave, and that workers and blocks
do not matter. The filters themselves are in test_filters.py.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import CleanSettings
from nmt.corpus import blocks
from nmt.corpus import clean as module
from nmt.corpus.builtin import generate
from nmt.corpus.builtin.dirt import FRENCH
from nmt.corpus.clean import SAMPLES, clean, folded
from nmt.corpus.filters import REASONS
from nmt.corpus.text import CONTROLS, SPACES, fold, read_lines, read_pairs
from nmt.errors import CorpusError

Pair = tuple[str, str]
DEFAULT = CleanSettings()
FILTERS: dict[str, Any] = {
    "drop_identical": True,
    "min_alphabet": 0.5,
    "match_numbers": True,
    "detect_language": True,
    "drop_held_out": True,
    "drop_duplicates": True,
}
EVERYTHING = CleanSettings(**FILTERS)


def words(count: int) -> str:
    return " ".join(f"w{number}" for number in range(count))


def run(
    folder: Path, pairs: Sequence[tuple[str | bytes, str | bytes]], settings: CleanSettings = DEFAULT, last: str = "\n"
) -> dict[str, Any]:
    """Clean these pairs into `folder/out`; `last` ends the last line."""
    for side, name in enumerate(("train.en", "train.de")):
        lines = [line if isinstance(line, bytes) else line.encode() for line in (pair[side] for pair in pairs)]
        (folder / name).write_bytes(b"\n".join(lines) + (last.encode() if lines else b""))
    (folder / "out").mkdir()
    return clean(folder / "train.en", folder / "train.de", folder / "out", settings)


def output(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def samples(folder: Path) -> list[list[str]]:
    return [line.split("\t") for line in read_lines(folder / "out" / "dropped.tsv")]


def kept(folder: Path) -> list[Pair]:
    return list(read_pairs(folder / "out" / "train.en", folder / "out" / "train.de"))


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
    assert [line[0] for line in samples(tmp_path)] == ["empty", "long", "ratio", "empty"]
    assert samples(tmp_path)[-1] == ["empty", "", "nichts drin"]


def test_samples_of_each_reason_are_capped(tmp_path: Path):
    empty, ratio = [("", "x")] * (SAMPLES + 20), [(words(10), "x")] * (SAMPLES + 1)
    counts = run(tmp_path, [("a", "b"), *empty, *ratio])
    assert counts["dropped"] == {"empty": SAMPLES + 20, "ratio": SAMPLES + 1}
    assert Counter(line[0] for line in samples(tmp_path)) == {"empty": SAMPLES, "ratio": SAMPLES}


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


def test_duplicates_and_foreign_lines_of_the_builtin_corpus_are_dropped(tmp_path: Path):
    made = generate(tmp_path / "raw", seed=1, train=2_000, dev=10, test=10, dirt=0.1, workers=1)
    source, target = tmp_path / "raw" / "train.en", tmp_path / "raw" / "train.de"
    french = {line.decode() for line in FRENCH}
    left = [pair for raw in read_pairs(source, target) if (pair := reference(raw, DEFAULT))]

    def cleaned(name: str, **settings: Any) -> tuple[dict[str, int], list[Pair]]:
        (tmp_path / name).mkdir()
        dropped = clean(source, target, tmp_path / name, CleanSettings(**settings))["dropped"]
        return dropped, list(read_pairs(tmp_path / name / source.name, tmp_path / name / target.name))

    # The grammar repeats itself too, so there are more duplicates than were put in.
    dropped, pairs = cleaned("duplicates", drop_duplicates=True)
    assert dropped["duplicate"] == len(left) - len(set(left)) >= made["dirt.duplicate"] > 0
    assert pairs == list(dict.fromkeys(left))
    # A foreign line is English, which is its other side too, or French.
    dropped, pairs = cleaned("identical", drop_identical=True)
    english = sum(left == right for left, right in left)
    assert dropped["identical"] == english == made["dirt.language"] - sum(right in french for _, right in left) > 0
    dropped, pairs = cleaned("language", detect_language=True)
    assert not any(right in french for _, right in pairs)
    assert sum(left == right for left, right in pairs) <= 0.1 * english  # a few are too short to tell
    good = [pair for pair in left if pair[0] != pair[1] and pair[1] not in french]
    assert len(set(good) - set(pairs)) <= 0.005 * len(good)


HOSTILE = [
    (b"nul \x00 here", b"null \x00 hier"),
    (b"carriage\rreturn\r", b"wagen\rlauf"),
    (b"\xff\xfe broken \xe2\x82", b"kaputt \xf0\x9f"),
    (b"half \xc3\x00\xa4 of it", "ganz ä".encode()),
    ("line\u2028separator \u2029".encode(), "zeilen\u0085trenner".encode()),
    (b"tab\tand\x0bfeeds\x0c\x1c\x1d", b"\ttabulator\t"),
    ("\ufeffmark \u200b zero".encode(), "\u00a0fest\u3000weit\u202f".encode()),
    (b"\xed\xa0\x80 half a pair", b"\xf4\x90\x80\x80 too far"),
    (b"\x00\x01", b"nichts"),
    (b" ", b"\xe2\x80\xa8"),
]


@pytest.mark.parametrize("last", ["\n", ""])
@pytest.mark.parametrize("settings", [DEFAULT, EVERYTHING], ids=["rule", "filters"])
def test_hostile_bytes_neither_shift_a_pair_nor_crash(last: str, settings: CleanSettings, tmp_path: Path):
    marked = [
        (b"<%d> %s" % (number, left), b"<%d> %s" % (number, right)) for number, (left, right) in enumerate(HOSTILE)
    ]
    counts = run(tmp_path, [*marked, *HOSTILE, (b"the end", b"das Ende")], settings, last)
    assert counts["read"] == 2 * len(HOSTILE) + 1
    assert kept(tmp_path)[-1] == ("the end", "das Ende")
    both = [*kept(tmp_path), *((left, right) for _, left, right in samples(tmp_path))]
    assert len(both) == counts["read"]
    numbered = [pair for pair in both if pair[0].startswith("<")]
    assert len(numbered) == len(HOSTILE)
    assert all(left.split()[0] == right.split()[0] for left, right in numbered)
    for name in ("train.en", "train.de"):
        text = (tmp_path / "out" / name).read_bytes().decode()
        assert text.splitlines() == text.split("\n")[:-1]
    if settings is DEFAULT:
        raws = [tuple(side.decode(errors="replace") for side in pair) for pair in (*marked, *HOSTILE)]
        assert kept(tmp_path)[:-1] == [pair for raw in raws if (pair := reference((raw[0], raw[1]), DEFAULT))]


def test_dropped_pairs_cannot_break_their_table(tmp_path: Path):
    run(tmp_path, [("a", "b"), ("", "x\ty\u2028z\rw"), ("\t", "\x00")])
    assert samples(tmp_path) == [["empty", "", "x y z w"], ["empty", "", ""]]


def test_what_is_printable_needs_no_folding():
    text = "".join(character for character in map(chr, range(sys.maxunicode + 1)) if character.isprintable())
    assert SPACES.findall(text) == [" "]
    assert not CONTROLS.search(text)


@given(st.lists(st.text(st.sampled_from("ab \t\u00a0\x00\x1c\ufeff\u2028ä\u200b"), max_size=8)))
def test_the_fast_way_to_fold_agrees_with_the_slow_one(lines: list[str]):
    assert folded(lines) == [fold(line) for line in lines]


SIDE = st.sampled_from(
    [
        "The black cat sleeps under the table.",
        "Die schwarze Katze schläft unter dem Tisch.",
        "Le chat noir dort sous la grande table.",
        "It costs 12 euros and 50 cents.",
        "Es kostet 12,50 Euro.",
        "+++ 1 2 3 +++",
        "Danke.",
        "Thank  you.",
        "",
    ]
)


@given(st.lists(st.tuples(SIDE, SIDE), max_size=15))
def test_the_reason_is_the_first_of_those_that_each_filter_alone_would_give(pairs: list[Pair]):
    pairs = [("A good one.", "Ein guter."), *pairs]
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "dev.en").write_text("thank you.\n", encoding="utf-8")
        (root / "dev.de").write_text("bitte.\n", encoding="utf-8")

        def reasons(title: str, settings: CleanSettings, pairs: list[Pair]) -> dict[Pair, set[str]]:
            """Each dropped pair with its reasons; two if only its repetitions are dropped for one."""
            folder = root / title
            folder.mkdir()
            for side, file in enumerate(("train.en", "train.de")):
                (folder / file).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
            (folder / "out").mkdir()
            clean(
                folder / "train.en", folder / "train.de", folder / "out", settings, [(root / "dev.en", root / "dev.de")]
            )
            found: dict[Pair, set[str]] = {}
            for why, left, right in samples(folder):
                found.setdefault((left, right), set()).add(why)
            return found

        alone = [reasons(title, CleanSettings(**{title: value}), pairs) for title, value in FILTERS.items()]
        together = reasons("together", EVERYTHING, pairs)
        assert together.keys() == {pair for found in alone for pair in found}
        for pair, found in together.items():
            assert found == {min((why for each in alone for why in each.get(pair, ())), key=REASONS.index)}
        again = reasons("again", EVERYTHING, kept(root / "together"))
        assert not again


def test_neither_workers_nor_the_size_of_blocks_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    generate(tmp_path / "raw", seed=2, train=2_000, dev=50, test=50, dirt=0.3, workers=1)
    train, dev, test = (
        (tmp_path / "raw" / f"{split}.en", tmp_path / "raw" / f"{split}.de") for split in ("train", "dev", "test")
    )
    results = []
    monkeypatch.setattr(blocks, "SMALL", 0)
    for number, (workers, lines) in enumerate([(1, 20_000), (1, 1), (1, 77), (2, 300)]):
        monkeypatch.setattr(module, "paired", partial(blocks.paired, lines=lines))
        out = tmp_path / str(number)
        out.mkdir()
        settings = EVERYTHING.model_copy(update={"workers": workers})
        results.append((clean(*train, out, settings, iter([dev, test])), output(out)))
    assert all(result == results[0] for result in results)
    assert results[0][0]["dropped"].keys() >= {"empty", "long", "ratio", "identical", "language", "duplicate"}
