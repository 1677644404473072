"""Why a training pair is not worth training on: one function per filter, each reason one word.

A pair comes in folded. The first filter that objects gives the reason, in this order:

    empty short long ratio    the reference's rule, always on
    identical                 both sides are the same text
    alphabet                  too few letters of the language's script
    numbers                   the sides hold different numbers
    language                  a side is surely in another language
    held_out                  a side also stands in the dev or test set
    duplicate                 the pair was there before; the only one that remembers, so it comes last
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from string import ascii_letters

from nmt.config import CleanSettings
from nmt.corpus.language import foreign
from nmt.corpus.text import Pair, fold, read_lines

REASONS = (
    "empty",
    "short",
    "long",
    "ratio",
    "identical",
    "alphabet",
    "numbers",
    "language",
    "held_out",
    "duplicate",
)
Sentences = tuple[frozenset[int], frozenset[int]]  # marks of the held-out sentences of each side
NOTHING: Sentences = (frozenset(), frozenset())
Check = Callable[[Pair], bool]


def checks(settings: CleanSettings, languages: Pair, held_out: Sentences) -> list[tuple[str, Check]]:
    """The optional filters that are on and need no memory, in order, each with its reason."""
    found: list[tuple[str, Check]] = []
    if settings.drop_identical:
        found.append(("identical", identical))
    if settings.min_alphabet:
        found.append(("alphabet", lambda pair: foreign_letters(pair, languages, settings.min_alphabet)))
    if settings.match_numbers:
        found.append(("numbers", numbers_differ))
    if settings.detect_language:
        found.append(("language", lambda pair: foreign_language(pair, languages)))
    if settings.drop_held_out:
        found.append(("held_out", lambda pair: is_held_out(pair, held_out)))
    return found


def wrong_length(pair: Pair, settings: CleanSettings) -> str | None:
    """The reference's rule: why the lengths of a pair do not do, or None."""
    source, target = pair
    if not source or not target:
        return "empty"
    fewer, more = source.count(" ") + 1, target.count(" ") + 1
    if fewer > more:
        fewer, more = more, fewer
    if fewer < settings.min_words:
        return "short"
    if more > settings.max_words:
        return "long"
    return "ratio" if more > settings.max_ratio * fewer else None


def identical(pair: Pair) -> bool:
    """Whether both sides are the same text."""
    return pair[0] == pair[1]


# --- alphabet

ASCII_LETTERS = ascii_letters.encode()
LATIN = ("LATIN",)  # of all languages that are not here
SCRIPTS = {
    ("be", "bg", "kk", "ky", "mk", "mn", "ru", "tg", "tt", "uk"): ("CYRILLIC",),
    ("sr",): ("CYRILLIC", "LATIN"),
    ("el",): ("GREEK",),
    ("hy",): ("ARMENIAN",),
    ("ka",): ("GEORGIAN",),
    ("he", "yi"): ("HEBREW",),
    ("ar", "fa", "ps", "ur"): ("ARABIC",),
    ("am", "ti"): ("ETHIOPIC",),
    ("hi", "mr", "ne"): ("DEVANAGARI",),
    ("bn",): ("BENGALI",),
    ("gu",): ("GUJARATI",),
    ("pa",): ("GURMUKHI",),
    ("ta",): ("TAMIL",),
    ("te",): ("TELUGU",),
    ("kn",): ("KANNADA",),
    ("ml",): ("MALAYALAM",),
    ("si",): ("SINHALA",),
    ("th",): ("THAI",),
    ("lo",): ("LAO",),
    ("km",): ("KHMER",),
    ("my",): ("MYANMAR",),
    ("zh",): ("CJK",),
    ("ja",): ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "CJK"),
    ("ko",): ("HANGUL", "CJK"),
}


def foreign_letters(pair: Pair, languages: Pair, minimum: float) -> bool:
    """Whether on some side too small a share of what is no space are letters of its language's script."""
    for text, language in zip(pair, languages, strict=True):
        # The letters of ASCII alone are counted ten times as fast, and are mostly enough.
        if scripts_of(language) == LATIN and ascii_share(text) >= minimum:
            continue
        if alphabet_share(text, language) < minimum:
            return True
    return False


def ascii_share(text: str) -> float:
    """The share of ASCII letters among the characters of `text` that are no spaces."""
    plain_text = text.encode("ascii", errors="ignore")
    count = len(plain_text) - len(plain_text.translate(None, ASCII_LETTERS))
    return count / (len(text) - text.count(" ") or 1)


def alphabet_share(text: str, language: str) -> float:
    """The share of letters of the language's script among the characters of `text` that are no spaces."""
    characters = len(text) - text.count(" ")
    return sum(map(len, letters(scripts_of(language)).findall(text))) / characters if characters else 0.0


@lru_cache(maxsize=8)
def scripts_of(language: str) -> tuple[str, ...]:
    """The scripts a language is written in."""
    return next((scripts for names, scripts in SCRIPTS.items() if language in names), LATIN)


@lru_cache(maxsize=8)
def letters(scripts: tuple[str, ...]) -> re.Pattern[str]:
    """Runs of letters of these scripts, by Unicode's own names: "LATIN SMALL LETTER U WITH DIAERESIS"."""
    names = (*scripts, "COMBINING")  # an accent that stands alone belongs to the letter before it
    ranges: list[list[int]] = []
    for code in range(0x32400):  # beyond are no letters
        character = chr(code)
        if unicodedata.category(character)[0] not in "LM":
            continue
        if unicodedata.name(character, "").partition(" ")[0] not in names:
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges) + "]+")


# --- numbers

# 1,000 and 1.000 and 1'000.50, then 3.5 and 3,5 and 10:30, are one number; 12.05.2010 is three.
NUMBER, SPACED = (
    re.compile(
        rf"(?<!\d)(?<!\d[.,:'’])(?:\d{{1,3}}(?:[.,'’{space}]\d{{3}})+(?:[.,]\d+)?|\d+[.,]\d+|\d\d?:\d\d)(?![.,:]?\d)|\d+"
    )
    for space in ("", " ")
)
RUN = re.compile(r"\d[\d.,:'’ ]*")  # what numbers are looked for in: quick to find, and mostly not there
NO_DIGIT = re.compile(r"\D")


def numbers_differ(pair: Pair) -> bool:
    """Whether the sides hold different numbers, each as often as it stands there, in whatever notation.

    Marks inside a number do not count: 1,000 is 1.000, and 3.5 is 3,5, but also 35. A space may part thousands (1 000)
    or numbers (May 12 300 people came): the pair passes if either reading agrees.
    """
    source, target = pair
    return all(numbers(source, pattern) != numbers(target, pattern) for pattern in (NUMBER, SPACED))


def numbers(text: str, pattern: re.Pattern[str]) -> list[str]:
    """The numbers in `text`, without their marks, sorted."""
    return sorted(plain(number) for run in RUN.findall(text) for number in pattern.findall(run))


def plain(number: str) -> str:
    """A number's digits in ASCII, without the zeros before them: 05 is 5, and .5 is 0.5."""
    if not number.isdigit():
        number = NO_DIGIT.sub("", number)
    if not number.isascii():
        number = "".join(str(unicodedata.decimal(digit)) for digit in number)
    return number.lstrip("0")


# --- language


def foreign_language(pair: Pair, languages: Pair) -> bool:
    """Whether some side is surely not in its language."""
    return any(foreign(text, language) for text, language in zip(pair, languages, strict=True))


# --- held_out and duplicate: sentences and pairs are remembered as marks

# A Python integer under 2^60 takes 32 bytes, a longer one 48. The set of 4.5 million is 330 MB, and the chance that
# any two of so many pairs share a mark is 1 in 100,000.
MARK_BITS = 60


def mark(text: str) -> int:
    """A hash of `text` that is the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> (64 - MARK_BITS)


def pair_mark(pair: Pair) -> int:
    """The mark of a pair, which two pairs share only if both their sides are equal."""
    return mark("\n".join(pair))


def sentence_mark(text: str) -> int:
    """The mark of a folded sentence, whatever its case."""
    return mark(text.casefold())


@lru_cache(maxsize=2)
def held_out_marks(source: tuple[Path, ...], target: tuple[Path, ...]) -> Sentences:
    """The sentences of the dev and test sets; each process reads them once."""
    first, second = (
        frozenset(sentence_mark(fold(line)) for path in paths for line in read_lines(path))
        for paths in (source, target)
    )
    return first, second


def is_held_out(pair: Pair, held_out: Sentences) -> bool:
    """Whether a side also stands in the dev or test set, whatever its case."""
    return any(sentence_mark(text) in marks for text, marks in zip(pair, held_out, strict=True))
