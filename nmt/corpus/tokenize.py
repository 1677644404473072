"""tokenize: clean training text and raw dev text in → the same lines as tokens, on all cores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from nmt.config import TokenizeSettings
from nmt.corpus.moses import Tokenizer
from nmt.corpus.text import chunks, read_lines
from nmt.progress import progress

CHUNK = 5_000  # lines handed to a worker at once
POOL_FROM = 20_000  # below this many bytes of work, starting processes costs more than they save

_tokenizers: dict[tuple[str, str], Tokenizer] = {}


def tokenize(files: dict[str, Path], out: Path, settings: TokenizeSettings) -> dict[str, Any]:
    """Tokenize each of `files` (named `<split>.<language>`) into `out` under its own name; counts lines and tokens."""
    counts: dict[str, Any] = {}
    total = sum(path.stat().st_size for path in files.values())
    workers = (settings.workers or os.cpu_count() or 1) if total > POOL_FROM else 1
    with progress("tokenize", None, "lines") as advance:
        for name, path in files.items():
            lines = tokens = 0
            with (out / name).open("w", encoding="utf-8", newline="\n") as file:
                for done in mapped(path, name.rpartition(".")[2], settings, workers):
                    file.writelines(f"{line}\n" for line in done)
                    lines += len(done)
                    tokens += sum(line.count(" ") + 1 for line in done if line)
                    advance(len(done))
            counts[name] = {"lines": lines, "tokens": tokens}
    return counts


def mapped(path: Path, language: str, settings: TokenizeSettings, workers: int) -> Iterator[list[str]]:
    """The tokenized chunks of a file, in order."""
    jobs = chunks(read_lines(path), CHUNK)
    if workers == 1:
        for job in jobs:
            yield tokenize_chunk(job, language, settings.model_dump_json())
        return
    # forkserver: a fork of a process with threads (Prefect's, TensorFlow's) can deadlock.
    with ProcessPoolExecutor(workers, mp_context=get_context("forkserver")) as pool:
        futures = []
        for job in jobs:
            futures.append(pool.submit(tokenize_chunk, job, language, settings.model_dump_json()))
            if len(futures) >= 4 * workers:  # enough to keep the workers busy, few enough to keep memory flat
                yield futures.pop(0).result()
        for future in futures:
            yield future.result()


def tokenize_chunk(lines: list[str], language: str, settings: str) -> list[str]:
    """Tokenize lines; each process makes a language's tokenizer once."""
    key = (language, settings)
    if key not in _tokenizers:
        _tokenizers[key] = Tokenizer(language, TokenizeSettings.model_validate_json(settings))
    return [_tokenizers[key](line) for line in lines]
