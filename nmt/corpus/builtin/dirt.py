"""The dirt that real parallel corpora hold, put into clean lines on request so that cleaning has something to find."""

from __future__ import annotations

import random
from collections.abc import Callable

Line = tuple[bytes, bytes]
DIRT: tuple[str, ...] = ("empty", "overlong", "ratio", "duplicate", "control", "broken_utf8", "language")

CONTROLS = ("\0", "\x07", "\r", "\x0b", "\x1b", "\u2028", "\u0085")
BROKEN = (b"\xff", b"\xc3", b"\xe2\x82", b"\x80", b"\xf0\x9f")
BLANK = (b"", b" ", b"   ", b"\t")
FRENCH = tuple(
    text.encode()
    for text in (
        "Le chat noir dort sous la grande table.",
        "Nous avons acheté des pommes au marché hier.",
        "Est-ce que tu connais cette vieille maison ?",
        "Ma sœur habite près de la gare depuis longtemps.",
        "Il ne veut pas lire ce livre très ennuyeux.",
        "Les enfants jouent dans le jardin avec leur chien.",
    )
)
WORDS, RATIO = 80, 9  # the limits of cleaning: a side longer than WORDS, or RATIO times as long as the other


def inside(rng: random.Random, text: bytes, extra: bytes) -> bytes:
    """The text with the extra bytes at a space, so that no character or word is cut."""
    spaces = [index for index, byte in enumerate(text) if byte == 32]
    at = rng.choice(spaces) if spaces else len(text)
    return text[:at] + extra + text[at:]


def one_side(rng: random.Random, line: Line, change: Callable[[bytes], bytes]) -> Line:
    """The line with one of its sides, taken at random, changed."""
    en, de = line
    return (change(en), de) if rng.random() < 0.5 else (en, change(de))


def gather(rng: random.Random, clean: list[Line], words: int) -> Line:
    """Clean lines joined until both sides have more than so many words."""
    parts: list[Line] = []
    while min(sum(len(part[side].split()) for part in parts) for side in (0, 1)) <= words:
        parts.append(rng.choice(clean))
    return b" ".join(en for en, _ in parts), b" ".join(de for _, de in parts)


def empty(rng: random.Random, line: Line, before: list[Line]) -> Line:
    """A line one side of which is empty or blank."""
    return one_side(rng, line, lambda _: rng.choice(BLANK))


def overlong(rng: random.Random, line: Line, before: list[Line]) -> Line:
    """A line with more than WORDS words on both sides."""
    return gather(rng, before, WORDS)


def ratio(rng: random.Random, line: Line, before: list[Line]) -> Line:
    """A line one side of which has more than RATIO times the words of the other, none of them over WORDS."""
    en, de = gather(rng, before, 3 * RATIO)
    few = rng.choice((1, 2))
    if rng.random() < 0.5:
        return en, b" ".join(de.split()[:few])
    return b" ".join(en.split()[:few]), de


def duplicate(rng: random.Random, line: Line, before: list[Line]) -> Line:
    """An exact copy of an earlier clean line."""
    return rng.choice(before)


def control(rng: random.Random, line: Line, before: list[Line]) -> Line:
    """A good line with a control character in it, which cleaning should repair."""
    return one_side(rng, line, lambda text: inside(rng, text, rng.choice(CONTROLS).encode()))


def broken_utf8(rng: random.Random, line: Line, before: list[Line]) -> Line:
    """A line with bytes that are not UTF-8."""
    return one_side(rng, line, lambda text: inside(rng, text, rng.choice(BROKEN)))


def language(rng: random.Random, line: Line, before: list[Line]) -> Line:
    """A line whose German side is English or French."""
    return line[0], line[0] if rng.random() < 0.5 else rng.choice(FRENCH)


MAKERS: dict[str, Callable[[random.Random, Line, list[Line]], Line]] = {
    maker.__name__: maker for maker in (empty, overlong, ratio, duplicate, control, broken_utf8, language)
}


def soil(rng: random.Random, lines: list[Line], counts: dict[str, int]) -> list[Line]:
    """The clean lines with so many of each kind spoiled, at random places but never the first.

    A kind that needs other lines takes clean ones before its place, so that a copy always follows its original.
    """
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    rng.shuffle(kinds)
    places = dict(zip(rng.sample(range(1, len(lines)), len(kinds)), kinds, strict=True))
    made: list[Line] = []
    clean: list[Line] = []
    for place, line in enumerate(lines):
        if kind := places.get(place):
            made.append(MAKERS[kind](rng, line, clean))
        else:
            made.append(line)
            clean.append(line)
    return made
