"""How training scales over Horovod ranks: one rank with one thread against two with one thread each.

    python bench/scaling.py [--rounds 3]

Real trainings, started as the pipeline starts them: all target pieces after the first updates, in which TensorFlow
compiles, by the time they took.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from side import SIZES, corpus, job, middle

from nmt.cluster.launch import run, training_command
from nmt.training.records import read

STEPS, WARM = 36, 6


def speed(folder: Path, work: Path, ranks: int) -> float:
    """Target pieces per second of a training on so many ranks of one thread."""
    every = {"steps": STEPS, "log_every": 1, "eval_every": 10**6, "checkpoint_every": 10**6, "average": 1}
    settings = job(folder, SIZES["tiny"], work, ranks=ranks, threads=1, **every)
    path = work / "job.json"
    path.write_text(settings.model_dump_json(), encoding="utf-8")
    run(training_command(settings.train, path), lambda _: None)
    rows = [row for row in read(work / "metrics.jsonl") if row["kind"] == "train"]
    seconds = rows[-1]["time"] - rows[WARM - 1]["time"]
    return float(sum(row["pieces_per_step"] for row in rows[WARM:]) / seconds)


def main() -> None:
    """Both in turn, several rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory(prefix="wmtflow-bench-") as place:
        folder = corpus(Path(place, "corpus"), SIZES["tiny"])
        for number in range(options.rounds):
            one, two = (speed(folder, Path(place, f"{number}-{ranks}"), ranks) for ranks in (1, 2))
            ratios.append(two / one)
            print(f"round {number + 1}: one rank {one:,.0f} pieces/s, two {two:,.0f}, {two / one:.2f} x", flush=True)
    print(f"two ranks are {middle(ratios):.2f} x one (median of {options.rounds})")
    if options.json:
        options.json.write_text(json.dumps({"ratios": ratios, "median": middle(ratios)}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
