"""Writes the built-in corpus: train, dev and test files of any size, the same for a seed whatever the machine.

Work goes in blocks with a random generator each, so blocks can be made in any process and joined in order. A pair
belongs to one split by a hash of its German side; German is a function of English, so the splits share no sentence
on either side.
"""

from __future__ import annotations

import multiprocessing
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple
from zlib import crc32

from nmt import cores
from nmt.corpus.builtin.dirt import DIRT, soil
from nmt.corpus.builtin.grammar import sentence

BLOCK = 5_000
ALONE = 20_000  # fewer pairs than this are made faster without a pool
TRIES = 200  # times the wanted size that a held-out split may draw before the grammar counts as exhausted


class Job(NamedTuple):
    """One block: its seed, split, number and size, and how many dirty lines of each kind it holds."""

    seed: int
    split: str
    number: int
    size: int
    dirt: tuple[int, ...] = ()


def split_of(german: str) -> str:
    """The split that a pair with this German side belongs to."""
    residue = crc32(german.lower().encode()) % 25
    return "test" if residue == 0 else "dev" if residue == 1 else "train"


def pairs(rng: random.Random, split: str) -> Iterator[tuple[str, str]]:
    """Endless random pairs of the split."""
    while True:
        pair = sentence(rng)
        if split_of(pair[1]) == split:
            yield pair


def block(job: Job) -> tuple[bytes, bytes, int]:
    """The lines of a train block in English and German, and their number."""
    rng = random.Random(f"{job.seed}/{job.split}/{job.number}")
    lines = [(en.encode(), de.encode()) for en, de in islice(pairs(rng, job.split), job.size)]
    if job.dirt:
        lines = soil(rng, lines, dict(zip(DIRT, job.dirt, strict=True)))
    return b"".join(en + b"\n" for en, _ in lines), b"".join(de + b"\n" for _, de in lines), len(lines)


def share(total: int, parts: int, index: int) -> int:
    """How many of the total fall to one of the parts: all get the same but for rounding, and the sum is exact."""
    return total * (index + 1) // parts - total * index // parts


def train_jobs(seed: int, size: int, dirty: dict[str, int]) -> list[Job]:
    """The blocks of the train split; each kind of dirt is spread evenly over them."""
    count = -(-size // BLOCK)
    sizes = [share(size, count, number) for number in range(count)]
    spread = [tuple(share(dirty[kind], count, number) for kind in DIRT) for number in range(count)]
    return [
        Job(seed, "train", number, sizes[number], spread[number] if any(spread[number]) else ())
        for number in range(count)
    ]


def held_out(seed: int, split: str, size: int) -> list[tuple[str, str]]:
    """Distinct pairs of the dev or test split."""
    rng = random.Random(f"{seed}/{split}/0")
    found: dict[str, str] = {}
    for tried, (en, de) in enumerate(pairs(rng, split)):
        if len(found) == size:
            break
        if tried > TRIES * size:
            raise ValueError(f"the grammar has fewer than {size} distinct {split} sentences")
        found.setdefault(en, de)
    return list(found.items())


def write(
    out: tuple[BinaryIO, BinaryIO], made: Iterable[tuple[bytes, bytes, int]], told: Callable[[int], None]
) -> None:
    """Write finished blocks in order and tell the number of pairs of each."""
    for en, de, count in made:
        out[0].write(en)
        out[1].write(de)
        told(count)


def generate(
    folder: Path,
    *,
    seed: int,
    train: int,
    dev: int,
    test: int,
    dirt: float = 0.0,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, int]:
    """Write train, dev and test (`.en` and `.de`) into the folder; returns how many pairs and dirty lines of each kind.

    `dirt` is the share of the train lines to spoil, `workers` the number of processes (all cores if None), `progress`
    is called with the number of pairs newly written.
    """
    if not 0 <= dirt <= 0.5:
        raise ValueError(f"dirt must be between 0 and 0.5, not {dirt}")
    if min(train, dev, test) < 0:
        raise ValueError("sizes must not be negative")
    told = progress or (lambda count: None)
    folder.mkdir(parents=True, exist_ok=True)
    spoiled = round(train * dirt)
    dirty = {kind: share(spoiled, len(DIRT), index) for index, kind in enumerate(DIRT)}
    counts = Counter({"train": train, "dev": dev, "test": test})
    counts.update({f"dirt.{kind}": number for kind, number in dirty.items() if dirt})
    for split, size in (("dev", dev), ("test", test)):
        lines = held_out(seed, split, size)
        for side, language in enumerate(("en", "de")):
            (folder / f"{split}.{language}").write_bytes("".join(f"{pair[side]}\n" for pair in lines).encode())
        told(size)
    jobs, processes = train_jobs(seed, train, dirty), workers or cores.available()
    with ExitStack() as stack:
        out = (
            stack.enter_context((folder / "train.en").open("wb")),
            stack.enter_context((folder / "train.de").open("wb")),
        )
        if processes > 1 and train >= ALONE:
            pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(min(processes, len(jobs))))
            write(out, pool.imap(block, jobs), told)
        else:
            write(out, map(block, jobs), told)
    return dict(counts)
