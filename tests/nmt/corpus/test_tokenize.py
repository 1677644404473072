"""tokenize: line for line what sacremoses says, in one process or several, and back again."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from nmt.config import TokenizeSettings
from nmt.corpus import blocks
from nmt.corpus import tokenize as stage
from nmt.corpus.moses import Detokenizer, Tokenizer
from nmt.corpus.text import read_lines
from nmt.corpus.tokenize import tokenize

SENTENCES = {
    "en": [
        "Hello, world!",
        "Mr. Smith paid $3.50 for 1,000 well-known apples, i.e. nothing.",
        "It's the dogs' house; don't you \"see\" it?",
        "“Quoted”, ‘single’ – and a dash — here…",
        "See https://example.org/a?b=1&c=2 or mail me@example.org.",
        "a|b [c] <d> & e",
        "&amp; &quot; &#124;",
        "The U.S. and the E.U. met on Jan. 5th at 10:30 a.m.",
        "",
        "UPPER Case",
        "@-@ and @@ stay",
    ],
    "de": [
        "„Guten Tag“, sagte Dr. Müller z.B. am 3. Oktober.",
        "Das kostet 1.000,50 €, d.h. zu viel!",
        "Die Nord-Süd-Verbindung ist 3,5 km lang.",
        "»So?«, fragte er: ›Nein.‹",
        "Größe, Straße, Übermaß – alles & mehr",
        "",
        "Ist das (wirklich) wahr?",
    ],
}
CHOICES = {
    "defaults": {},
    "no escape": {"escape": False},
    "lowercase": {"lowercase": True},
    "dashes": {"aggressive_dash_splits": True},
    "punctuation": {"normalize_punctuation": True},
    "all": {"escape": False, "lowercase": True, "aggressive_dash_splits": True, "normalize_punctuation": True},
}


def expected(line: str, language: str, settings: TokenizeSettings) -> str:
    """What sacremoses itself makes of a line."""
    if settings.normalize_punctuation:
        line = MosesPunctNormalizer(lang=language).normalize(line)
    text = MosesTokenizer(lang=language).tokenize(
        line, aggressive_dash_splits=settings.aggressive_dash_splits, return_str=True, escape=settings.escape
    )
    return text.lower() if settings.lowercase else text


def files(folder: Path, times: int = 1) -> dict[str, Path]:
    found = {}
    for language, lines in SENTENCES.items():
        found[f"train.{language}"] = folder / f"raw.{language}"
        found[f"train.{language}"].write_text("".join(f"{line}\n" for line in lines * times), encoding="utf-8")
    return found


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES.keys())
@pytest.mark.parametrize("language", SENTENCES)
def test_tokens_are_those_of_sacremoses(language: str, choice: dict[str, bool]):
    settings = TokenizeSettings(**choice)
    tokenizer = Tokenizer(language, settings)
    for line in SENTENCES[language]:
        assert tokenizer(line) == expected(line, language, settings)


@pytest.mark.parametrize(
    ("language", "line", "tokens"),
    [
        ("en", "It's 3.5% of 1,000.", "It &apos;s 3.5 % of 1,000 ."),
        ("en", 'a|b [c] <d> & "e"', "a &#124; b &#91; c &#93; &lt; d &gt; &amp; &quot; e &quot;"),
        ("de", "„Guten Tag“, sagte z.B. Dr. Müller.", "„ Guten Tag “ , sagte z.B. Dr. Müller ."),
        ("en", "one\u2028line\ttwo  \x00", "one line two"),
    ],
)
def test_golden_tokens(language: str, line: str, tokens: str):
    assert Tokenizer(language, TokenizeSettings())(line) == tokens


@given(st.text(max_size=40), st.sampled_from(list(CHOICES.values())))
def test_a_line_stays_one_line_whatever_the_text(text: str, choice: dict[str, bool]):
    tokens = Tokenizer("en", TokenizeSettings(**choice))(text)
    assert "\n" not in tokens and "\r" not in tokens
    assert tokens.split() == [token for token in tokens.split(" ") if token]


@pytest.mark.parametrize("line", ["He said 'no.'", ".'", "foo .'"])
def test_a_space_too_many_is_kept_and_counted_as_none(tmp_path: Path, line: str):
    tokens = Tokenizer("en", TokenizeSettings())(line)
    assert tokens == expected(line, "en", TokenizeSettings()) and tokens != " ".join(tokens.split())
    (tmp_path / "train.en").write_text(f"{line}\n", encoding="utf-8")
    (tmp_path / "out").mkdir()
    counts = tokenize({"train.en": tmp_path / "train.en"}, tmp_path / "out", TokenizeSettings())
    assert counts["train.en"] == {"lines": 1, "tokens": len(tokens.split())}


def test_no_line_is_no_line_and_half_a_character_is_kept():
    tokenizer = Tokenizer("en", TokenizeSettings())
    assert tokenizer.lines([]) == []
    assert tokenizer("\ud800 x.") == expected("\ud800 x.", "en", TokenizeSettings())


@pytest.mark.parametrize("choice", [{}, {"escape": False}], ids=["escape", "plain"])
@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("en", "Hello, world!"),
        ("en", "It's the dog's house; don't you see it?"),
        ("en", "He paid $3.50 (1,000 cents) for it."),
        ("de", "„Guten Tag“, sagte Dr. Müller."),
        ("de", "Die Nord-Süd-Verbindung ist 3,5 km lang."),
        ("de", "Das ist wahr: Äpfel, Öl & Übermut!"),
        ("en", ""),
    ],
)
def test_detokenizing_restores_plain_sentences(language: str, line: str, choice: dict[str, bool]):
    settings = TokenizeSettings(**choice)
    assert Detokenizer(language, settings)(Tokenizer(language, settings)(line)) == line


def test_files_keep_their_lines_and_are_counted(tmp_path: Path):
    (tmp_path / "out").mkdir()
    counts = tokenize(files(tmp_path), tmp_path / "out", TokenizeSettings())
    for language, lines in SENTENCES.items():
        found = list(read_lines(tmp_path / "out" / f"train.{language}"))
        assert found == [expected(line, language, TokenizeSettings()) for line in lines]
        assert counts[f"train.{language}"] == {
            "lines": len(lines),
            "tokens": sum(len(line.split()) for line in found),
        }


def test_lines_with_separators_inside_stay_one_line(tmp_path: Path):
    raw = tmp_path / "raw"
    raw.write_bytes("a\u2028b\nc\rd\ne\u0085f\n\xff".encode() + b"\xff")
    tokenize({"train.en": raw}, tmp_path, TokenizeSettings())
    assert list(read_lines(tmp_path / "train.en")) == ["a b", "c d", "e f", "ÿ \ufffd"]


def test_several_processes_write_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    given_files = {"train.de": files(tmp_path, times=5)["train.de"]}
    for name in ("one", "many"):
        (tmp_path / name).mkdir()
    settings = TokenizeSettings(workers=2)
    alone = tokenize(given_files, tmp_path / "one", settings)
    monkeypatch.setattr(blocks, "SMALL", 0)
    monkeypatch.setattr(stage, "blocks", lambda path: blocks.blocks(path, 3))  # more blocks than may wait at once
    pooled = tokenize(given_files, tmp_path / "many", settings)
    assert pooled == alone
    for name in given_files:
        assert (tmp_path / "many" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()


PARTS = [*"''..,,-abUS1\"`()%tsüßÉ&<>|[]/@lΣ日’۳²€!?:", "..", "...", "``", "23", "don", "Mr", "No", "z.B", "etc"]
PARTS += [
    "e.g",
    "Nr",
    "Art",
    "http://x.y/z",
    "DOTMULTI",
    "DOT",
    "\u00ad",
    "\u0301",
    "\ue000",
    "\u00a0",
    "\t",
    "\x01",
    "\u2028",
]


@pytest.mark.parametrize("language", ["en", "de", "fr"])
@given(st.lists(st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map("".join), max_size=7).map(" ".join))
@settings(max_examples=400, deadline=None)
def test_lines_made_of_everything_the_rules_look_for(language: str, line: str):
    """Each line by itself and after others, so that remembered chunks are used in new company."""
    for tokenizer, moses in (pair_of(language, False), pair_of(language, True)):
        dashes = tokenizer.settings.aggressive_dash_splits
        assert tokenizer(line) == moses.tokenize(line, return_str=True, aggressive_dash_splits=dashes)


@lru_cache
def pair_of(language: str, dashes: bool) -> tuple[Tokenizer, MosesTokenizer]:
    return Tokenizer(language, TokenizeSettings(aggressive_dash_splits=dashes)), MosesTokenizer(lang=language)
