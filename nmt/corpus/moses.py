"""Moses tokenization by sacremoses: text to tokens and back, with an experiment's settings."""

from __future__ import annotations

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from nmt.config import TokenizeSettings
from nmt.corpus.text import fold


class Tokenizer:
    """Splits lines of one language into tokens, joined by spaces."""

    def __init__(self, language: str, settings: TokenizeSettings) -> None:
        self.settings = settings
        self.moses = MosesTokenizer(lang=language)
        self.normalizer = MosesPunctNormalizer(lang=language) if settings.normalize_punctuation else None

    def __call__(self, line: str) -> str:
        """The tokens of a line."""
        line = fold(line)
        if self.normalizer:
            line = self.normalizer.normalize(line)
        tokens: str = self.moses.tokenize(
            line,
            aggressive_dash_splits=self.settings.aggressive_dash_splits,
            return_str=True,
            escape=self.settings.escape,
        )
        return tokens.lower() if self.settings.lowercase else tokens


class Detokenizer:
    """Puts tokens of one language together into text."""

    def __init__(self, language: str, settings: TokenizeSettings) -> None:
        self.settings = settings
        self.moses = MosesDetokenizer(lang=language)

    def __call__(self, tokens: str) -> str:
        """The text that a line of tokens stands for."""
        text: str = self.moses.detokenize(tokens.split(" "), unescape=self.settings.escape)
        return text
