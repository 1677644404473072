"""Moses tokenization by sacremoses: text to tokens and back, with an experiment's settings.

sacremoses works on a line with some twenty regular expressions. Almost all of what it does to a
space-separated chunk depends on that chunk alone, and the exceptions are few:

- a final full stop stays on its word or not by what comes next: a small letter, a digit, or else;
- an apostrophe that closes one chunk takes the space after it from one that opens the next, and a comma or
  an apostrophe at the very edge of a line has nothing beside it.

So sacremoses is asked once about each chunk in each of those contexts and the answers are remembered;
lines of the second kind are given to it whole. A chunk of nothing but letters and digits stays as it is and is
never looked at. A test compares every line with sacremoses.
"""

from __future__ import annotations

import re
import sys

import numpy as np
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from nmt.config import TokenizeSettings

SPACES = re.compile(r"\s+")
JUNK = re.compile(r"[\000-\037]")
REMEMBERED = 600_000  # chunks; some 120 MB
TOGETHER = 100  # chunks in one question: a line has a price of its own
APART = "\ue000"  # stands between them: of no language's letters, so it is a token of its own and touches nothing
MARKS = ("", "\ue001", "\ue002")  # put after a final full stop: nothing, a small letter comes next, a digit does
STAND_INS = {"\ue001": "x", "\ue002": "0"}
BETWEEN = " \n "  # two lines
MANY_DOTS = "MULTI"  # sacremoses' own mark


class Tokenizer:
    """Splits lines of one language into tokens, joined by spaces: sacremoses' own output, many times faster.

    To the byte, also where its own text has a space too many: at the end of an English line that ends in .'
    """

    def __init__(self, language: str, settings: TokenizeSettings) -> None:
        self.settings = settings
        self.moses = MosesTokenizer(lang=language)
        self.normalizer = MosesPunctNormalizer(lang=language) if settings.normalize_punctuation else None
        letters = frozenset(self.moses.IsAlpha)
        # The same answers as its own, which make a set of some thousand characters at every question.
        self.moses.islower = frozenset(self.moses.IsLower).issuperset
        self.moses.isanyalpha = lambda text: not letters.isdisjoint(text)
        self.special = np.ones(sys.maxunicode + 1, np.bool_)  # by code: all but spaces, letters and digits
        self.special[[ord(character) for character in " \n" + self.moses.IsAlnum]] = False
        self.with_comma = re.compile(f"[{self.moses.IsAlnum}]+,")
        self.after = np.zeros(sys.maxunicode + 1, np.uint8)  # by code: the number of the mark for what begins with it
        self.after[[ord(character) for character in self.moses.IsLower]] = 1
        self.after[[ord(character) for character in "0123456789"]] = 2
        self.known: dict[str, str] = {}  # chunk, with a mark for what follows a final full stop → tokens

    def __call__(self, line: str) -> str:
        """The tokens of a line."""
        return self.lines([line])[0]

    def lines(self, lines: list[str]) -> list[str]:
        """The tokens of each line. The more lines at once, the better: new chunks are asked about together."""
        if not lines:
            return []
        if self.normalizer:
            lines = [self.normalizer.normalize(line) for line in lines]
        texts = [line if is_tidy(line) else tidy(line) for line in lines]
        marked = has_marks("\n".join(texts))  # hardly ever, so one look at all lines will do
        whole = [n for n, text in enumerate(texts) if must_be_whole(text) or (marked and has_marks(text))]
        answers = [self.ask(texts[number]) for number in whole]
        for number in whole:
            texts[number] = ""
        found = self.chunk_by_chunk(texts)
        for number, tokens in zip(whole, answers, strict=True):
            found[number] = tokens
        return [tokens.lower() for tokens in found] if self.settings.lowercase else found

    def chunk_by_chunk(self, texts: list[str]) -> list[str]:
        """The tokens of lines that have no mark of ours in them. Only chunks with a special character change."""
        text = BETWEEN.join(texts)
        begins, ends, marks = self.special_chunks(text)
        chunks = [text[begin:end] + mark for begin, end, mark in zip(begins, ends, marks, strict=True)]
        self.learn(set(chunks) - self.known.keys())
        parts = [""] * (2 * len(chunks) + 1)
        parts[0::2] = [text[end:begin] for end, begin in zip([0, *ends], [*begins, len(text)], strict=True)]
        parts[1::2] = map(self.known.__getitem__, chunks)
        if len(self.known) > REMEMBERED:
            self.known.clear()  # the frequent ones are soon back
        return "".join(parts).split(BETWEEN)

    def special_chunks(self, text: str) -> tuple[list[int], list[int], list[str]]:
        """Where the chunks with a special character begin and end, and the mark that each needs after it."""
        codes = np.frombuffer((text + BETWEEN).encode("utf-32-le", "surrogatepass"), np.uint32)
        ends = np.flatnonzero(codes == ord(" "))[:-1]
        begins = np.concatenate([[0], ends[:-1] + 1])
        chosen = np.unique(np.searchsorted(ends, np.flatnonzero(self.special[codes[: len(text)]])))
        begins, ends = begins[chosen], ends[chosen]
        after = np.where(codes[ends - 1] == ord("."), self.after[codes[ends + 1]], 0)
        return begins.tolist(), ends.tolist(), [MARKS[number] for number in after.tolist()]

    def learn(self, chunks: set[str]) -> None:
        """Ask sacremoses about new chunks, many in one line, and remember what it says."""
        asked = []
        for chunk in sorted(chunks):
            if self.with_comma.fullmatch(chunk):
                self.known[chunk] = chunk[:-1] + " ,"
            else:
                asked.append(chunk)
        for start in range(0, len(asked), TOGETHER):
            some = asked[start : start + TOGETHER]
            questions = (chunk[:-1] + " " + STAND_INS[chunk[-1]] if chunk[-1] in STAND_INS else chunk for chunk in some)
            answers = self.ask(f" {APART} ".join(["X", *questions, "X"])).split(f" {APART} ")[1:-1]
            for chunk, tokens in zip(some, answers, strict=True):
                self.known[chunk] = tokens[:-2] if chunk[-1] in STAND_INS else tokens

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
    return not text or text[0] in ",'" or text[-1] == "'" or "' '" in text


def has_marks(text: str) -> bool:
    """Whether something stands in the text that we, or sacremoses, would take for a mark."""
    return any(mark in text for mark in (APART, *MARKS[1:], MANY_DOTS))


class Detokenizer:
    """Puts tokens of one language together into text."""

    def __init__(self, language: str, settings: TokenizeSettings) -> None:
        self.settings = settings
        self.moses = MosesDetokenizer(lang=language)

    def __call__(self, tokens: str) -> str:
        """The text that a line of tokens stands for."""
        text: str = self.moses.detokenize(tokens.split(" "), unescape=self.settings.escape)
        return text
