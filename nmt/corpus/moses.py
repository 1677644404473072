"""Moses tokenization by sacremoses: text to tokens and back, with an experiment's settings.

sacremoses works on a line with some twenty regular expressions. Almost all of what it does to a
space-separated chunk depends on that chunk alone, and the exceptions are few:

- a final full stop stays on its word or not by what comes next: the end, a small letter, a digit, or else;
- an apostrophe that closes one chunk takes the space after it from one that opens the next, and a comma or
  an apostrophe at the very edge of a line has nothing beside it.

So sacremoses is asked once about each chunk in each of those contexts and the answers are remembered;
lines of the second kind are given to it whole. A test compares every line with sacremoses.
"""

from __future__ import annotations

import re

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from nmt.config import TokenizeSettings

SPACES = re.compile(r"\s+")
JUNK = re.compile(r"[\000-\037]")
REMEMBERED = 400_000  # chunks; some 60 MB. Frequent ones come early, so nothing is gained by forgetting
BEFORE = "X "  # what stands before a chunk when sacremoses is asked about it: anything but the line's start


class Tokenizer:
    """Splits lines of one language into tokens, joined by spaces: sacremoses' own output, many times faster."""

    def __init__(self, language: str, settings: TokenizeSettings) -> None:
        self.settings = settings
        self.moses = MosesTokenizer(lang=language)
        self.normalizer = MosesPunctNormalizer(lang=language) if settings.normalize_punctuation else None
        self.small_letters = frozenset(self.moses.IsLower)
        self.known = Answers(self)

    def __call__(self, line: str) -> str:
        """The tokens of a line."""
        if self.normalizer:
            line = self.normalizer.normalize(line)
        tokens = self.by_chunks(JUNK.sub("", SPACES.sub(" ", line)).strip(" "))
        return tokens.lower() if self.settings.lowercase else tokens

    def by_chunks(self, text: str) -> str:
        """Tokens of a line put together from those of its chunks."""
        chunks = text.split(" ")
        if not text or text[0] in ",'" or text[-1] == "'" or "' '" in text:
            return self.ask(text)
        if ". " in text:
            for place, following in enumerate(chunks[1:]):
                if chunks[place].endswith("."):
                    chunks[place] += self.after(following)
        return " ".join(map(self.known.__getitem__, chunks))

    def after(self, following: str) -> str:
        """A stand-in for the chunk after a full stop: all that counts is how it begins."""
        first = following[0]
        return " x" if first in self.small_letters else " 0" if first in "0123456789" else " X"

    def learn(self, chunk: str) -> str:
        """Ask sacremoses about a chunk, and its stand-in if it has one."""
        if chunk[-1] == "'":
            chunk += " X"  # never the line's last: those lines are asked about whole
        following = chunk.partition(" ")[2]
        tokens = self.ask(BEFORE + chunk)[len(BEFORE) :]
        return tokens[: -len(following) - 1] if following else tokens

    def ask(self, text: str) -> str:
        """sacremoses itself."""
        tokens: str = self.moses.tokenize(
            text,
            aggressive_dash_splits=self.settings.aggressive_dash_splits,
            return_str=True,
            escape=self.settings.escape,
        )
        return tokens


class Answers(dict[str, str]):
    """What sacremoses said: chunk, with a stand-in for what follows a final full stop → tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def __missing__(self, chunk: str) -> str:
        tokens = self.tokenizer.learn(chunk)
        if len(self) < REMEMBERED:
            self[chunk] = tokens
        return tokens


class Detokenizer:
    """Puts tokens of one language together into text."""

    def __init__(self, language: str, settings: TokenizeSettings) -> None:
        self.settings = settings
        self.moses = MosesDetokenizer(lang=language)

    def __call__(self, tokens: str) -> str:
        """The text that a line of tokens stands for."""
        text: str = self.moses.detokenize(tokens.split(" "), unescape=self.settings.escape)
        return text
