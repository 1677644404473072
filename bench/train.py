"""Training speed: ours beside OpenNMT-tf 2.32, the same model size on the same pieces with the same token budget.

    python bench/train.py [--size tiny] [--size base] [--rounds 3] [--ranks 1] [--precision bfloat16] [--products high]

Both train in turn on all cores, each in one process with a thread per core: theirs under TensorFlow's own defaults, as
OpenNMT-tf uses a machine without GPUs; ours a real training as the pipeline starts it. With `--ranks` ours is so many
Horovod processes, each with its share of the cores and of the token budget, so that an update has the same tokens.
OpenNMT-tf computes in 32 bits on a CPU whatever it is asked; ours also in bfloat16, where that is faster.
Prints target pieces per second, the ratio, padding, and the share of this machine's matrix-product rate
that our arithmetic reaches: the median of products of one process with all threads, for some seconds just before and
just after the training, the better of the two: TensorFlow's product of 32-bit numbers, which AMX and bfloat16 can
surpass. JSON with --json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from side import CORES, SIZES, Size, corpus, other, trained

from nmt.corpus.encode import load
from nmt.model.processor import is_fast_in_bfloat16
from nmt.training.batches import Batches, Position

PRODUCT = 2_048  # rows and columns of the matrices whose product is timed
PRODUCT_SECONDS = 4.0


def ours(folder: Path, size: Size, work: Path, ranks: int, precision: str, products: str) -> dict[str, float]:
    """Our half: a training of some updates, the first of them not timed."""
    share = replace(size, tokens=size.tokens // ranks)
    before = product_rate()
    how = {"ranks": ranks, "threads": CORES // ranks, "precision": precision, "products": products}
    settings, pieces, padding = trained(folder, share, work, size.timed, **how)
    rate = max(before, product_rate())
    flops = seen = 0.0
    for rank in range(ranks):
        updates = Batches(load(folder / "ids", "train"), settings.train, settings.seed, rank, ranks)(Position())
        for update in [next(updates) for _ in range(size.warm + size.timed)][size.warm :]:
            flops += arithmetic(size, settings.vocabulary_size, update)
            seen += sum(int((batch.target > 0).sum()) for batch in update.batches)
    return {
        "tokens_per_second": pieces,
        "padding": padding,
        "gflops": flops / seen * pieces / 1e9,
        "product_gflops": rate,
    }


def product_rate() -> float:
    """Billions of operations per second of a large product of 32-bit matrices on all cores, in a process of its own."""
    env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "TF_ENABLE_ONEDNN_OPTS": "1"}
    done = subprocess.run([sys.executable, __file__, "--product"], check=True, capture_output=True, text=True, env=env)
    return float(done.stdout.split()[-1])


def product() -> float:
    """The same, in this process: the median, for a training cannot live on its best moments."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(CORES)
    left, right = (tf.random.stateless_normal([PRODUCT, PRODUCT], [1, seed]) for seed in (1, 2))
    times = [time.monotonic()]
    while times[-1] < times[0] + PRODUCT_SECONDS:
        tf.matmul(left, right)
        times.append(time.monotonic())
    taken = [after - before for before, after in itertools.pairwise(times)]
    return float(2 * PRODUCT**3 / median(taken) / 1e9)


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


def measure(name: str, rounds: int, ranks: int, precisions: list[str], products: str) -> dict[str, Any]:
    """Ours in each precision and theirs in turn, several rounds; the medians of each precision."""
    size = SIZES[name]
    print(
        f"{name}: ours {ranks} ranks x {CORES // ranks} threads, 1/{ranks} of the batch each, products {products}; "
        f"OpenNMT-tf one process, {CORES} threads, float32"
    )
    mine: dict[str, list[dict[str, float]]] = {precision: [] for precision in precisions}
    theirs: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="wmtflow-bench-") as place:
        folder = corpus(Path(place, "corpus"), size)
        for number in range(rounds):
            for precision, rows in mine.items():
                rows.append(ours(folder, size, Path(place, f"{precision}-{number}"), ranks, precision, products))
            theirs.append(other("train", folder, size, Path(place, f"theirs-{number}"), CORES))
            for precision, rows in mine.items():
                own, other_speed = rows[-1], theirs[-1]["tokens_per_second"]
                print(
                    f"{name} round {number + 1}: ours in {precision} {own['tokens_per_second']:,.0f} target pieces/s, "
                    f"OpenNMT-tf {other_speed:,.0f}, ratio {own['tokens_per_second'] / other_speed:.2f}; "
                    f"{own['gflops']:.1f} of {own['product_gflops']:.1f} GFLOP/s",
                    flush=True,
                )
    return {
        precision: {
            "ours": medians(rows),
            "theirs": medians(theirs),
            "ratio": round(
                median([a["tokens_per_second"] / b["tokens_per_second"] for a, b in zip(rows, theirs, strict=True)]), 2
            ),
            "of_product_rate": round(median([row["gflops"] / row["product_gflops"] for row in rows]), 3),
        }
        for precision, rows in mine.items()
    }


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    """Each figure's median over the rounds."""
    return {key: round(median([row[key] for row in rows]), 4) for key in rows[0]}


def main() -> None:
    """Measure the sizes asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", action="append", choices=SIZES, help="default: both")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=1, help="processes of ours")
    parser.add_argument(
        "--precision",
        action="append",
        choices=["float32", "bfloat16"],
        help="train.precision, of ours; default: float32, and bfloat16 where the processor is fast in it",
    )
    parser.add_argument("--products", choices=["high", "highest"], default="high", help="train.products, of ours")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--product", action="store_true", help=argparse.SUPPRESS)  # only the matrix product's rate
    options = parser.parse_args()
    if options.product:
        print(product())
        return
    precisions = options.precision or ["float32", *(["bfloat16"] if is_fast_in_bfloat16() else [])]
    how = (options.rounds, options.ranks, precisions, options.products)
    results = {name: measure(name, *how) for name in options.size or SIZES}
    columns = f"{'ours/s':>9}{'theirs/s':>10}{'ratio':>7}{'padding':>9}{'theirs':>8}{'GFLOP/s':>9}{'of rate':>9}"
    print(f"\n{'size':<6}{'ours in':<9}{columns}")
    for name, precision in itertools.product(results, precisions):
        found = results[name][precision]
        mine, theirs = found["ours"], found["theirs"]
        print(
            f"{name:<6}{precision:<9}{mine['tokens_per_second']:>9,.0f}{theirs['tokens_per_second']:>10,.0f}"
            f"{found['ratio']:>7}{mine['padding']:>9.1%}{theirs['padding']:>8.1%}{mine['gflops']:>9.1f}"
            f"{found['of_product_rate']:>9.1%}"
        )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
