"""tokenize: clean training text and raw dev text in → the same lines as tokens, on all cores."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from nmt.config import TokenizeSettings
from nmt.corpus.blocks import Block, Workers, blocks
from nmt.corpus.moses import Tokenizer
from nmt.progress import progress


def tokenize(files: dict[str, Path], out: Path, settings: TokenizeSettings) -> dict[str, Any]:
    """Tokenize each of `files` (named `<split>.<language>`) into `out` under its own name; counts lines and tokens."""
    counts: dict[str, Any] = {}
    with Workers(settings.workers, files.values()) as workers, progress("tokenize", None, "lines") as advance:
        for name, path in files.items():
            language = name.rpartition(".")[2]
            jobs = ((block, language, settings) for block in blocks(path))
            lines = tokens = 0
            with (out / name).open("wb") as file:
                for text, block_lines, block_tokens in workers.map(tokenize_block, jobs):
                    file.write(text)
                    lines += block_lines
                    tokens += block_tokens
                    advance(block_lines)
            counts[name] = {"lines": lines, "tokens": tokens}
    return counts


def tokenize_block(block: Block, language: str, settings: TokenizeSettings) -> tuple[bytes, int, int]:
    """The tokens of a block as bytes to write, the number of its lines, and of its tokens."""
    split = tokenizer(language, settings.model_dump_json())
    done = split.lines(block.text())
    text = "\n".join([*done, ""])
    return text.encode(), len(done), len(text.split())


@lru_cache(maxsize=1)
def tokenizer(language: str, settings: str) -> Tokenizer:
    """A language's tokenizer; a process keeps it, and what it has learnt, until the next language."""
    return Tokenizer(language, TokenizeSettings.model_validate_json(settings))
