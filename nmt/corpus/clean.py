"""clean: parallel text in → the pairs worth training on, and an account of the rest.

The rule is the reference's `clean-corpus-n 1 80`: white space is folded, then a pair is dropped when a side
is empty, too short, too long, or many times longer than the other. Every drop has a reason; reasons are
counted, and a sample of each is kept to look at.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from nmt.config import CleanSettings
from nmt.corpus.text import Pair, fold, read_pairs
from nmt.errors import CorpusError
from nmt.progress import progress

SAMPLES = 50  # dropped pairs kept per reason


def clean(source: Path, target: Path, out: Path, settings: CleanSettings) -> dict[str, Any]:
    """Write the kept pairs of `source` and `target` under the same names into `out`, and `dropped.tsv`.

    Returns how many pairs were read and kept, and how many were dropped for each reason.
    """
    dropped: Counter[str] = Counter()
    repaired = kept = 0
    with (
        (out / source.name).open("w", encoding="utf-8", newline="\n") as left,
        (out / target.name).open("w", encoding="utf-8", newline="\n") as right,
        (out / "dropped.tsv").open("w", encoding="utf-8", newline="\n") as rejects,
        progress("clean", None) as advance,
    ):
        for raw in read_pairs(source, target):
            pair = fold(raw[0]), fold(raw[1])
            why = drop_reason(pair, settings)
            if why is None:
                left.write(pair[0] + "\n")
                right.write(pair[1] + "\n")
                kept += 1
                repaired += pair != raw
            else:
                if dropped[why] < SAMPLES:
                    rejects.write(f"{why}\t{pair[0]}\t{pair[1]}\n")
                dropped[why] += 1
            advance(1)
    total = kept + dropped.total()
    if not total:
        raise CorpusError(f"{source} and {target} are empty. The training text needs at least one pair.")
    if not kept:
        reasons = ", ".join(f"{name} {count:,}" for name, count in dropped.most_common())
        raise CorpusError(f"all {total:,} training pairs were dropped ({reasons}). Loosen the settings of 'clean'.")
    return {"read": total, "kept": kept, "repaired": repaired, "dropped": dict(sorted(dropped.items()))}


def drop_reason(pair: Pair, settings: CleanSettings) -> str | None:
    """Why a folded pair is dropped, or None to keep it."""
    words = [side.count(" ") + 1 if side else 0 for side in pair]
    if 0 in words:
        return "empty"
    if min(words) < settings.min_words:
        return "short"
    if max(words) > settings.max_words:
        return "long"
    if max(words) > settings.max_ratio * min(words):
        return "ratio"
    return None
