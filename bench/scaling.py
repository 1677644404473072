"""How training scales over Horovod ranks: the same updates made by one rank with one thread, and by two with one each.

    python bench/scaling.py [--rounds 5] [--precision float32] [--no-shared-memory]

Updates of two sizes: of two batches of 4,096 tokens, and of six, close to the 25,000 tokens an update has in the paper
on the Transformer. One rank accumulates them all, two do half each. Real trainings, started as the pipeline starts
them: all target pieces after the first updates, in which TensorFlow compiles, by the time they took.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

from side import SIZES, corpus, trained

TINY = SIZES["tiny"]
PARTS = (2, 6)  # batches in an update
WARM, TIMED = 12, 48  # batches


def speed(folder: Path, work: Path, ranks: int, parts: int, precision: str, shared: bool) -> tuple[float, str]:
    """Target pieces per second of a training on so many ranks of one thread, and what it computed in."""
    size = replace(TINY, warm=WARM // parts)
    how = {"ranks": ranks, "threads": 1, "accumulate": parts // ranks, "precision": precision, "shared_memory": shared}
    job, pieces, _ = trained(folder, size, work, TIMED // parts, **how)
    return pieces, job.train.precision


def main() -> None:
    """Both in turn, several rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", choices=["auto", "float32", "bfloat16"], default="auto", help="train.precision")
    how = argparse.BooleanOptionalAction
    parser.add_argument("--shared-memory", action=how, default=True, help="train.shared_memory")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    ratios: dict[int, list[float]] = {TINY.tokens * parts: [] for parts in PARTS}
    with tempfile.TemporaryDirectory(prefix="wmtflow-bench-") as place:
        folder = corpus(Path(place, "corpus"), TINY)
        for number in range(options.rounds):
            for parts, found in zip(PARTS, ratios.values(), strict=True):
                (one, used), (two, _) = (
                    speed(
                        folder,
                        Path(place, f"{number}-{parts}-{r}"),
                        r,
                        parts,
                        options.precision,
                        options.shared_memory,
                    )
                    for r in (1, 2)
                )
                found.append(two / one)
                print(
                    f"round {number + 1}, {used}, {TINY.tokens * parts:,} tokens an update: "
                    f"one rank {one:,.0f} pieces/s, two {two:,.0f}, {two / one:.2f} x",
                    flush=True,
                )
    for tokens, found in ratios.items():
        print(
            f"{used}, updates of {tokens:,} tokens: two ranks are {median(found):.2f} x one, "
            f"the median of {options.rounds}"
        )
    if options.json:
        figures = {
            tokens: {"precision": used, "ratios": found, "median": median(found)} for tokens, found in ratios.items()
        }
        options.json.write_text(json.dumps(figures) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
