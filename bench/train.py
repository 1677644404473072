"""Training speed: ours beside OpenNMT-tf 2.32, the same model size on the same pieces with the same token budget.

    python bench/train.py [--size tiny] [--size base] [--rounds 3]

Both train in turn, in processes of their own, on all cores. Prints target pieces per second, the ratio, padding, and
the share of this machine's matrix-product rate that our model's arithmetic reaches. Writes JSON with --json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from side import SIZES, Size, corpus, job, middle, other

PRODUCT = 2_048  # rows and columns of the matrices whose product is timed


def ours(folder: Path, name: str) -> dict[str, float]:
    """Our half, in this process: some updates on one rank with all cores."""
    import tensorflow as tf

    from nmt.corpus.encode import load
    from nmt.training.batches import Batches, Position, ahead
    from nmt.training.ranks import Alone
    from nmt.training.step import Step

    tf.config.threading.set_intra_op_parallelism_threads(os.cpu_count() or 1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    size = SIZES[name]
    with tempfile.TemporaryDirectory() as work:
        settings = job(folder, size, Path(work))
        step = Step(settings, Alone())
        updates = ahead(Batches(load(folder / "ids", "train"), settings.train, 1, 0, 1)(Position()))
        for _ in range(size.warm):
            step(next(updates), 1e-4).numpy()
        rate = product_rate(tf)
        began = time.monotonic()
        done = [next(updates) for _ in range(size.timed)]
        for update in done:
            step(update, 1e-4).numpy()
        seconds = time.monotonic() - began
        rate = max(rate, product_rate(tf))
    pieces = sum(int((batch.target > 0).sum()) for update in done for batch in update.batches)
    flops = sum(arithmetic(size, settings.vocabulary_size, update) for update in done)
    return {
        "tokens_per_second": pieces / seconds,
        "padding": sum(update.padding for update in done) / len(done),
        "gflops": flops / seconds / 1e9,
        "product_gflops": rate / 1e9,
    }


def product_rate(tf: Any) -> float:
    """Operations per second of a large product of 32-bit matrices: the best of several."""
    left, right = (tf.random.stateless_normal([PRODUCT, PRODUCT], [1, seed]) for seed in (1, 2))
    best = float("inf")
    for _ in range(6):
        began = time.monotonic()
        tf.matmul(left, right).numpy()
        best = min(best, time.monotonic() - began)
    return float(2 * PRODUCT**3 / best)


def arithmetic(size: Size, vocabulary: int, update: Any) -> float:
    """The model's own operations for an update, on real pieces only: 2 forward and 4 backward for each weight used."""
    d, f, total = size.width, size.feed_forward, 0.0
    for batch in update.batches:
        sources, targets = ((side > 0).sum(axis=1) for side in (batch.source, batch.target))
        source, target = float(sources.sum()), float(targets.sum())
        weights = source * (4 * d * d + 2 * d * f) + target * (6 * d * d + 2 * d * f) + source * 2 * d * d
        attention = 2 * d * float((sources**2 + targets**2 + sources * targets).sum())
        total += 6 * (size.layers * (weights + attention) + target * vocabulary * d)
    return total


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Both in turn, several rounds."""
    threads = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="wmtflow-bench-") as place:
        folder = corpus(Path(place, "corpus"), SIZES[name])
        found: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
        for number in range(rounds):
            command = [sys.executable, __file__, "--half", str(folder), "--size", name]
            env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env)
            found["ours"].append(json.loads(done.stdout.splitlines()[-1]))
            found["theirs"].append(other("train", folder, SIZES[name], Path(place, f"theirs-{number}"), threads))
            mine, theirs = found["ours"][-1], found["theirs"][-1]
            print(
                f"{name} round {number + 1}: ours {mine['tokens_per_second']:,.0f} target pieces/s, "
                f"OpenNMT-tf {theirs['tokens_per_second']:,.0f}, "
                f"ratio {mine['tokens_per_second'] / theirs['tokens_per_second']:.2f}",
                flush=True,
            )
    summary: dict[str, Any] = {
        side: {key: round(middle([row[key] for row in rows]), 4) for key in rows[0]} for side, rows in found.items()
    }
    pairs = zip(found["ours"], found["theirs"], strict=True)
    summary["ratio"] = round(middle([a["tokens_per_second"] / b["tokens_per_second"] for a, b in pairs]), 2)
    summary["of_product_rate"] = round(middle([row["gflops"] / row["product_gflops"] for row in found["ours"]]), 3)
    return summary


def main() -> None:
    """Measure the sizes asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", action="append", choices=SIZES, help="default: both")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--half", type=Path, help=argparse.SUPPRESS)  # our half alone, on a corpus made before
    options = parser.parse_args()
    if options.half:
        print(json.dumps(ours(options.half, options.size[0])))
        return
    results = {name: measure(name, options.rounds) for name in options.size or SIZES}
    print(
        f"\n{'size':<6}{'ours/s':>9}{'theirs/s':>10}{'ratio':>7}{'padding':>9}{'theirs':>8}{'GFLOP/s':>9}{'of rate':>9}"
    )
    for name, found in results.items():
        mine, theirs = found["ours"], found["theirs"]
        print(
            f"{name:<6}{mine['tokens_per_second']:>9,.0f}{theirs['tokens_per_second']:>10,.0f}{found['ratio']:>7}"
            f"{mine['padding']:>9.1%}{theirs['padding']:>8.1%}{mine['gflops']:>9.1f}{found['of_product_rate']:>9.1%}"
        )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
