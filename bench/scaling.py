"""How training scales over Horovod ranks: one rank with one thread against two with one thread each.

    python bench/scaling.py [--rounds 5]

Real trainings, started as the pipeline starts them: all target pieces after the first updates, in which TensorFlow
compiles, by the time they took.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median

from side import SIZES, corpus, trained

TIMED = 36  # updates, after the first few


def speed(folder: Path, work: Path, ranks: int) -> float:
    """Target pieces per second of a training on so many ranks of one thread."""
    _, pieces, _ = trained(folder, SIZES["tiny"], work, TIMED, ranks=ranks, threads=1)
    return pieces


def main() -> None:
    """Both in turn, several rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory(prefix="wmtflow-bench-") as place:
        folder = corpus(Path(place, "corpus"), SIZES["tiny"])
        for number in range(options.rounds):
            one, two = (speed(folder, Path(place, f"{number}-{ranks}"), ranks) for ranks in (1, 2))
            ratios.append(two / one)
            print(f"round {number + 1}: one rank {one:,.0f} pieces/s, two {two:,.0f}, {two / one:.2f} x", flush=True)
    print(f"two ranks are {median(ratios):.2f} x one (median of {options.rounds})")
    if options.json:
        options.json.write_text(json.dumps({"ratios": ratios, "median": median(ratios)}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
