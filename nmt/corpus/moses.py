"""Moses tokenization by sacremoses: text to tokens and back, with an experiment's settings.

sacremoses works on a line with some twenty regular expressions. Almost all of what it does to a
space-separated chunk depends on that chunk alone, and the exceptions are few:

- a final full stop stays on its word or not by what comes next: a small letter, a digit, or else;
- an apostrophe that closes one chunk takes the space after it from one that opens the next, and a comma or
  an apostrophe at the very edge of a line has nothing beside it.

So sacremoses is asked once about each chunk in each of those contexts and the answers are remembered;
lines of the second kind are given to it whole. A chunk of nothing but letters and digits, with a comma after
it or not, needs no asking. A test compares every line with sacremoses.
"""

from __future__ import annotations

import re

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from nmt.config import TokenizeSettings

SPACES = re.compile(r"\s+")
JUNK = re.compile(r"[\000-\037]")
REMEMBERED = 600_000  # chunks; some 120 MB
TOGETHER = 100  # chunks in one question: a line has a price of its own
APART = "\ue000"  # stands between them: of no language's letters, so it is a token of its own and touches nothing
DIGITS = frozenset("0123456789")


class Tokenizer:
    """Splits lines of one language into tokens, joined by spaces: sacremoses' own output, many times faster."""

    def __init__(self, language: str, settings: TokenizeSettings) -> None:
        self.settings = settings
        self.moses = MosesTokenizer(lang=language)
        self.normalizer = MosesPunctNormalizer(lang=language) if settings.normalize_punctuation else None
        self.small_letters = frozenset(self.moses.IsLower)
        letters = frozenset(self.moses.IsAlpha)
        # The same answers as its own, which make a set of some thousand characters at every question.
        self.moses.islower = self.small_letters.issuperset
        self.moses.isanyalpha = lambda text: not letters.isdisjoint(text)
        self.plain = re.compile(f"[{self.moses.IsAlnum}]+(,?)")
        self.known: dict[str, str] = {}  # chunk, with a stand-in for what follows a final full stop → tokens

    def __call__(self, line: str) -> str:
        """The tokens of a line."""
        return self.lines([line])[0]

    def lines(self, lines: list[str]) -> list[str]:
        """The tokens of each line. The more lines at once, the better: new chunks are asked about together."""
        if self.normalizer:
            lines = [self.normalizer.normalize(line) for line in lines]
        texts = [line if is_tidy(line) else tidy(line) for line in lines]
        split = [None if must_be_whole(text) else self.chunks(text) for text in texts]
        self.learn({chunk for chunks in split if chunks for chunk in chunks} - self.known.keys())
        known = self.known
        found = [
            self.ask(text) if chunks is None else " ".join([known[chunk] for chunk in chunks])
            for text, chunks in zip(texts, split, strict=True)
        ]
        if len(known) > REMEMBERED:
            known.clear()  # the frequent ones are soon back
        return [tokens.lower() for tokens in found] if self.settings.lowercase else found

    def chunks(self, text: str) -> list[str]:
        """The chunks of a line, each that ends in a full stop with a stand-in for what follows it."""
        chunks = text.split(" ")
        if ". " in text:
            for place, following in enumerate(chunks[1:]):
                if chunks[place].endswith("."):
                    chunks[place] += self.after(following)
        return chunks

    def after(self, following: str) -> str:
        """A stand-in for the chunk after a full stop: all that counts is how it begins."""
        return " x" if following[0] in self.small_letters else " 0" if following[0] in DIGITS else ""

    def learn(self, chunks: set[str]) -> None:
        """Ask sacremoses about new chunks, many in one line, and remember what it says."""
        asked = []
        for chunk in sorted(chunks):
            plain = self.plain.fullmatch(chunk)
            if plain is None or "MULTI" in chunk:  # sacremoses' own mark for several dots
                asked.append(chunk)
            else:
                self.known[chunk] = chunk[:-1] + " ," if plain[1] else chunk
        for start in range(0, len(asked), TOGETHER):
            some = asked[start : start + TOGETHER]
            answers = self.ask(f" {APART} ".join(["X", *some, "X"])).split(f" {APART} ")[1:-1]
            for chunk, tokens in zip(some, answers, strict=True):
                stand_in = chunk.partition(" ")[2]
                self.known[chunk] = tokens[: -len(stand_in) - 1] if stand_in else tokens

    def ask(self, text: str) -> str:
        """sacremoses itself."""
        tokens: str = self.moses.tokenize(
            text,
            aggressive_dash_splits=self.settings.aggressive_dash_splits,
            return_str=True,
            escape=self.settings.escape,
        )
        return tokens


def is_tidy(line: str) -> bool:
    """Whether `tidy` would change nothing; all it changes, other than " ", is not printable."""
    return line.isprintable() and "  " not in line and line[:1] != " " and line[-1:] != " "


def tidy(line: str) -> str:
    """White space folded and control characters gone, as sacremoses does it first."""
    return SPACES.sub(" ", JUNK.sub("", SPACES.sub(" ", line))).strip(" ")


def must_be_whole(text: str) -> bool:
    """Whether a line's chunks cannot be told apart: see above."""
    return not text or text[0] in ",'" or text[-1] == "'" or "' '" in text or APART in text


class Detokenizer:
    """Puts tokens of one language together into text."""

    def __init__(self, language: str, settings: TokenizeSettings) -> None:
        self.settings = settings
        self.moses = MosesDetokenizer(lang=language)

    def __call__(self, tokens: str) -> str:
        """The text that a line of tokens stands for."""
        text: str = self.moses.detokenize(tokens.split(" "), unescape=self.settings.escape)
        return text
