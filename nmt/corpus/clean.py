"""clean: parallel text in → the pairs worth training on, and an account of the rest.

The rule is the reference's `clean-corpus-n 1 80`: white space is folded, then a pair is dropped when a side
is empty, too short, too long, or many times longer than the other. Optional filters come after it (`filters.py`).
Every drop has a reason; reasons are counted, and a sample of each is kept to look at.

Blocks of lines are cleaned on all cores. What was there before is known only where blocks come together again in
order, so duplicates are dropped there, and the output is the same for any number of workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nmt.config import CleanSettings
from nmt.corpus.blocks import Block, Workers, paired
from nmt.corpus.filters import NOTHING, checks, held_out_marks, pair_mark, wrong_length
from nmt.corpus.language import check_languages
from nmt.corpus.text import Pair, fold
from nmt.errors import CorpusError
from nmt.progress import progress

SAMPLES = 50  # dropped pairs kept per reason
Paths = tuple[Path, Path]  # parallel files


@dataclass
class Cleaned:
    """A block after all filters but the last. Lines are counted from the block's first."""

    kept: list[int] = field(default_factory=list)  # the lines kept
    repaired: set[int] = field(default_factory=set)  # those of them that folding has changed
    text: tuple[bytes, bytes] = b"", b""  # what stands in them, each side as it is to be written
    marks: list[int] = field(default_factory=list)  # of the kept pairs, if duplicates are looked for
    dropped: Counter[str] = field(default_factory=Counter)
    samples: list[tuple[int, str, Pair]] = field(default_factory=list)

    def drop(self, line: int, why: str, pair: Pair) -> None:
        """Count a dropped pair, and keep it to look at if it is one of the first."""
        if self.dropped[why] < SAMPLES:
            self.samples.append((line, why, pair))
        self.dropped[why] += 1


def clean(
    source: Path, target: Path, out: Path, settings: CleanSettings, held_out: Iterable[Paths] = ()
) -> dict[str, Any]:
    """Write the kept pairs of `source` and `target` under the same names into `out`, and `dropped.tsv`.

    Files are named `<split>.<language>`; `held_out` are the dev and test sets. Returns how many pairs were read and
    kept, and how many were dropped for each reason.
    """
    if settings.detect_language:
        check_languages(path.suffix[1:] for path in (source, target))
    blocks = paired(source, target)
    sets = tuple(held_out)
    jobs = ((*block, settings, sets) for block in blocks)
    seen: set[int] = set()
    dropped: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    kept = repaired = 0
    with (
        (out / source.name).open("wb") as left,
        (out / target.name).open("wb") as right,
        (out / "dropped.tsv").open("w", encoding="utf-8", newline="\n") as rejects,
        Workers(settings.workers, (source, target)) as workers,
        progress("clean", sum(block.lines for block, _ in blocks)) as advance,
    ):
        for done in workers.map(clean_block, jobs):
            if settings.drop_duplicates:
                drop_duplicates(done, seen)
            left.write(done.text[0])
            right.write(done.text[1])
            for _, why, pair in sorted(done.samples):
                shown[why] += 1
                if shown[why] <= SAMPLES:
                    rejects.write(f"{why}\t{pair[0]}\t{pair[1]}\n")
            kept += len(done.kept)
            repaired += len(done.repaired)
            dropped += done.dropped
            advance(len(done.kept) + done.dropped.total())
    total = kept + dropped.total()
    if not total:
        raise CorpusError(f"{source} and {target} are empty. The training text needs at least one pair.")
    if not kept:
        reasons = ", ".join(f"{name} {count:,}" for name, count in dropped.most_common())
        raise CorpusError(f"all {total:,} training pairs were dropped ({reasons}). Loosen the settings of 'clean'.")
    return {"read": total, "kept": kept, "repaired": repaired, "dropped": dict(sorted(dropped.items()))}


def clean_block(left: Block, right: Block, settings: CleanSettings, held_out: tuple[Paths, ...]) -> Cleaned:
    """All filters but the last, on two blocks that belong together."""
    marks = held_out_marks(*zip(*held_out, strict=True)) if settings.drop_held_out and held_out else NOTHING
    filters = checks(settings, (left.path.suffix[1:], right.path.suffix[1:]), marks)
    raw = left.text(), right.text()
    done, pairs = Cleaned(), list[Pair]()
    for line, pair in enumerate(zip(*map(folded, raw), strict=True)):
        why = wrong_length(pair, settings) or next((why for why, drop in filters if drop(pair)), None)
        if why:
            done.drop(line, why, pair)
            continue
        pairs.append(pair)
        done.kept.append(line)
        if pair != (raw[0][line], raw[1][line]):
            done.repaired.add(line)
    done.text = joined(source for source, _ in pairs), joined(target for _, target in pairs)
    if settings.drop_duplicates:
        done.marks = [pair_mark(pair) for pair in pairs]
    return done


def folded(lines: list[str]) -> list[str]:
    """Each line as `fold` has it. Few need it: whatever `fold` changes, other than " ", is not printable."""
    return [
        line if line.isprintable() and "  " not in line and line == line.strip(" ") else fold(line) for line in lines
    ]


def joined(lines: Iterable[str]) -> bytes:
    """Lines as they are written to a file."""
    return "\n".join([*lines, ""]).encode()


def drop_duplicates(block: Cleaned, seen: set[int]) -> None:
    """Drop the pairs whose marks were seen, in this block or before it, and remember the others'."""
    first: list[int] = []  # places among the kept
    again: list[int] = []
    for place, mark in enumerate(block.marks):
        (again if mark in seen else first).append(place)
        seen.add(mark)
    if not again:
        return
    left, right = (text.decode().split("\n") for text in block.text)
    for place in again:
        block.drop(block.kept[place], "duplicate", (left[place], right[place]))
        block.repaired.discard(block.kept[place])
    block.kept = [block.kept[place] for place in first]
    block.text = joined(left[place] for place in first), joined(right[place] for place in first)
