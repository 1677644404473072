"""The filters of clean: each by a table of pairs, and the numbers they are sure of."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import CleanSettings
from nmt.corpus import language
from nmt.corpus.filters import (
    MARK_BITS,
    NOTHING,
    REASONS,
    alphabet_share,
    ascii_share,
    checks,
    foreign_language,
    foreign_letters,
    held_out_marks,
    identical,
    is_held_out,
    mark,
    numbers_differ,
    pair_mark,
    wrong_length,
)
from nmt.errors import ConfigError, MachineError

Pair = tuple[str, str]
EN_DE = ("en", "de")
ALL = {
    "drop_identical": True,
    "min_alphabet": 0.5,
    "match_numbers": True,
    "detect_language": True,
    "drop_held_out": True,
    "drop_duplicates": True,
}


def words(count: int) -> str:
    return " ".join(f"w{number}" for number in range(count))


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
    assert wrong_length(pair, CleanSettings()) == why


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
    assert wrong_length(pair, CleanSettings(**settings)) == why


@pytest.mark.parametrize(
    ("pair", "same"), [(("Berlin", "Berlin"), True), (("Berlin", "berlin"), False), (("a b", "a  b"), False)]
)
def test_identical(pair: Pair, same: bool):
    assert identical(pair) is same


@pytest.mark.parametrize(
    ("text", "code", "share"),
    [
        ("abc def", "en", 1.0),
        ("äöü ÄÖÜ ß", "de", 1.0),
        ("u\u0308ber", "de", 1.0),  # decomposed
        ("Łódź", "pl", 1.0),
        ("ab12", "en", 0.5),
        ("a...", "en", 0.25),
        ("1 2 3", "en", 0.0),
        ("мир", "en", 0.0),
        ("мир", "ru", 1.0),
        ("abмм", "de", 0.5),
        ("мир abc", "sr", 1.0),
        ("ελλάδα", "el", 1.0),
        ("שָׁלוֹם", "he", 1.0),
        ("नमस्ते", "hi", 1.0),
        ("中文", "zh", 1.0),
        ("ひらがなカタカナー漢字", "ja", 1.0),
        ("한국어", "ko", 1.0),
        ("中文", "de", 0.0),
        ("×÷", "de", 0.0),
        ("\ufffd\ufffd", "de", 0.0),
        ("", "de", 0.0),
    ],
)
def test_the_share_of_an_alphabet(text: str, code: str, share: float):
    assert alphabet_share(text, code) == share
    assert ascii_share(text) <= share or code not in ("en", "de", "pl")


@pytest.mark.parametrize(
    ("pair", "minimum", "dropped"),
    [
        (("Good morning.", "Guten Morgen."), 0.5, False),
        (("Good morning.", "Guten Morgen."), 0.92, True),
        (("Good morning.", "+++ 12 +++"), 0.5, True),
        (("+++ 12 +++", "Guten Morgen."), 0.5, True),
        (("ab12", "ab12"), 0.5, False),
        (("ab", "ab"), 1.0, False),
        (("öäü 12", "öäü 12"), 0.6, False),
        (("öäü 12", "öäü 12"), 0.61, True),
    ],
)
def test_alphabet(pair: Pair, minimum: float, dropped: bool):
    assert foreign_letters(pair, EN_DE, minimum) is dropped


@pytest.mark.parametrize(
    "pair",
    [
        ("no numbers", "keine Zahlen"),
        ("12 and 13", "13 und 12"),
        ("1,000 people", "1.000 Menschen"),
        ("1,000 people", "1000 Menschen"),
        ("1,000 people", "1 000 Menschen"),
        ("1,000 people", "1’000 Menschen"),
        ("1,234,567.89 euros", "1.234.567,89 Euro"),
        ("1,234,567.89 euros", "1 234 567,89 Euro"),
        ("3.5 percent", "3,5 Prozent"),
        (".5 percent", "0,5 Prozent"),
        ("at 10:30", "um 10.30 Uhr"),
        ("at 10:30, 2,000 came", "um 10.30 Uhr kamen 2.000"),
        ("12/05/2010", "12.05.2010"),
        ("on 5 May 2010", "am 05. Mai 2010"),
        ("on May 12 300 people", "am 12. Mai 300 Leute"),
        ("they won 3-2", "sie siegten 3:2"),
        ("at 10:30:15", "um 10:30:15 Uhr"),
        ("the 1990s", "die 1990er"),
        ("2010-2011", "2010–2011"),
        ("versions 1.2.3", "Version 1.2.3"),
        ("٣٥", "35"),
    ],
)
def test_numbers_that_agree_in_whatever_notation(pair: Pair):
    assert not numbers_differ(pair)
    assert not numbers_differ(pair[::-1])


@pytest.mark.parametrize(
    "pair",
    [
        ("1 of them", "einer davon"),
        ("in 1989", "im Jahr 1998"),
        ("1,000 people", "10.000 Menschen"),
        ("3.5 percent", "3,6 Prozent"),
        ("3.5 percent", "5,3 Prozent"),
        ("12 and 12", "12"),
        ("12 and 13", "12 und 12"),
        ("page 0", "Seite"),
    ],
)
def test_numbers_that_differ(pair: Pair):
    assert numbers_differ(pair)
    assert numbers_differ(pair[::-1])


@pytest.mark.parametrize(
    "text", ["1" * 100_000, "1." * 50_000, "111'" * 25_000 + "11", "1 " * 40_000, "111." * 25_000, "111 " * 80 + "1"]
)
def test_numbers_take_time_that_grows_with_the_text(text: str):
    began = time.process_time()
    assert numbers_differ((text, "2"))
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("pair", "dropped"),
    [
        (("The black cat sleeps under the big table.", "Die schwarze Katze schläft unter dem großen Tisch."), False),
        (("The black cat sleeps under the big table.", "The black cat sleeps under the big table."), True),
        (("Die schwarze Katze schläft unter dem großen Tisch.", "Die schwarze Katze schläft hier."), True),
        (("We bought apples at the market.", "Nous avons acheté des pommes au marché hier."), True),
        (("The children play in the garden.", "Дети играют в саду со своей большой собакой."), True),
        (("He wrote the book.", 'Er schrieb das Buch "The Long Way Home", das jeder kennt.'), False),
        (("Thank you very much", "Thank you"), False),  # too short to tell
        (("New York", "New York"), False),
        (("1 2 3 4 5", "1 2 3 4 5"), False),
        (("The cat \ufffe\uffff sleeps here.", "Le chat noir \ufffe dort sous la table."), False),  # CLD2 refuses
        (("\ufffd \ufffd \ufffd \ufffd", "\ufffd \ufffd \ufffd \ufffd"), False),
    ],
)
def test_language(pair: Pair, dropped: bool):
    assert foreign_language(pair, EN_DE) is dropped


def test_languages_under_older_codes_are_known():
    language.check_languages(["en", "de", "he", "nb", "zh"])
    assert not language.foreign("זה משפט בעברית שנכתב כדי לבדוק את הזיהוי של השפה", "he")
    assert not language.foreign("這 是 一個 用來 測試 語言 檢測 的 中文 句子 希望 它 能 正確 識別", "zh")
    assert language.foreign("This is a sentence that is written in English.", "he")


def test_a_language_that_the_detector_does_not_know_is_an_error():
    with pytest.raises(ConfigError, match="does not know 'qq'"):
        language.check_languages(["en", "qq"])


def test_without_the_detector_the_error_names_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pycld2", None)
    language.cld2.cache_clear()
    with pytest.raises(MachineError, match=r"clean\.detect_language needs the package pycld2"):
        language.check_languages(EN_DE)


def test_held_out(tmp_path: Path):
    files = {"dev.en": "Thank you.\n", "dev.de": "Danke.\n", "test.en": "Hello  there.", "test.de": "STRASSE\n"}
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    marks = held_out_marks(*(tuple(tmp_path / f"{split}.{code}" for split in ("dev", "test")) for code in EN_DE))
    assert is_held_out(("Thank you.", "Vielen Dank."), marks)
    assert is_held_out(("thank YOU.", "Vielen Dank."), marks)
    assert is_held_out(("Hello there.", "x"), marks)
    assert is_held_out(("Thanks.", "danke."), marks)
    assert is_held_out(("Street", "Straße"), marks)
    assert not is_held_out(("Thank you", "Vielen Dank."), marks)
    assert not is_held_out(("Danke.", "Thank you."), marks)  # on the wrong side
    assert not is_held_out(("Thank you.", "Danke."), NOTHING)


def test_marks_tell_pairs_apart_and_are_the_same_everywhere():
    assert mark("Straße") == 283428905485633953
    assert pair_mark(("a b", "c")) != pair_mark(("a", "b c"))
    assert pair_mark(("a", "b")) != pair_mark(("b", "a"))
    assert pair_mark(("a", "b")) != pair_mark(("A", "b"))
    assert len({mark(str(number)) for number in range(50_000)}) == 50_000
    assert max(mark(str(number)) for number in range(100)).bit_length() <= MARK_BITS


def test_filters_are_off_unless_asked_for_and_come_in_order():
    assert checks(CleanSettings(), EN_DE, NOTHING) == []
    found = [why for why, _ in checks(CleanSettings(**ALL), EN_DE, NOTHING)]
    assert found == ["identical", "alphabet", "numbers", "language", "held_out"] == list(REASONS[4:-1])
    for number, name in enumerate(list(ALL)[:-1]):
        (only,) = checks(CleanSettings(**{name: ALL[name]}), EN_DE, NOTHING)
        assert only[0] == found[number]


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_is_too_odd_for_a_filter(left: str, right: str):
    pair = left.encode(errors="replace").decode(), right.encode(errors="replace").decode()
    for _, drop in checks(CleanSettings(**ALL), EN_DE, NOTHING):
        assert drop(pair) in (True, False)


@given(st.text(max_size=40), st.sampled_from([0.1, 0.5, 0.9, 1.0]))
def test_the_fast_way_to_count_letters_agrees_with_the_slow_one(text: str, minimum: float):
    shares = (alphabet_share(text, "en"), alphabet_share(text, "de"))
    assert foreign_letters((text, text), EN_DE, minimum) == (min(shares) < minimum)
