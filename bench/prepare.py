"""Corpus preparation, ours beside the usual tools, on the same text with the same number of workers.

    python bench/prepare.py --pairs 500000             both, outputs compared byte for byte
    python bench/prepare.py --pairs 4500000 --ours     ours alone, at the size of WMT16

The usual tools are the `sacremoses` command with `-j`, `subword-nmt` with `--num-workers`, and `shuf`. Prints a
table and writes JSON: seconds, lines per second, the ratio, and the peak memory of the whole process tree.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from made_up import generate

from nmt.config import CleanSettings, LearnBpeSettings, ShuffleSettings, TokenizeSettings
from nmt.cores import available
from nmt.corpus.bpe import learn
from nmt.corpus.clean import clean
from nmt.corpus.encode import Encoder, encode, load, text_lines
from nmt.corpus.text import read_lines
from nmt.corpus.tokenize import tokenize

LANGUAGES = ("en", "de")
MERGES = 32_000
BIN = Path(sys.executable).parent


class Measured:
    """Seconds and peak memory of a block, over this process and all it starts."""

    def __enter__(self) -> Measured:
        self.peak, self.stop = 0, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        self.began = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self.began
        self.stop.set()
        self.thread.join()

    def watch(self) -> None:
        """Add up the resident memory of the process tree, five times a second."""
        me = psutil.Process()
        while not self.stop.wait(0.2):
            total = 0
            for process in [me, *me.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.Error:
                    continue
            self.peak = max(self.peak, total)


def ours(raw: Path, out: Path, workers: int) -> dict[str, Callable[[], Any]]:
    """Our stages, by name, in order."""
    folders = {name: out / name for name in ("clean", "tokenize", "learn_bpe", "shuffle")}
    for folder in folders.values():
        folder.mkdir(parents=True)
    tokens, bpe = folders["tokenize"], folders["learn_bpe"]

    def encode_all() -> None:
        encoder = Encoder(bpe)
        settings = ShuffleSettings(workers=workers)
        encode("train", (tokens / "train.en", tokens / "train.de"), encoder, folders["shuffle"], 1, settings)

    return {
        "clean": lambda: clean(raw / "train.en", raw / "train.de", folders["clean"], CleanSettings(workers=workers)),
        "tokenize": lambda: tokenize(
            {f"train.{language}": folders["clean"] / f"train.{language}" for language in LANGUAGES},
            tokens,
            TokenizeSettings(workers=workers),
        ),
        "learn_bpe": lambda: learn(
            [tokens / f"train.{language}" for language in LANGUAGES],
            bpe,
            LearnBpeSettings(merges=MERGES, workers=workers),
        ),
        "shuffle": encode_all,
    }


def theirs(clean_text: Path, out: Path, workers: int) -> dict[str, Callable[[], Any]]:
    """The usual tools for the same stages; they start from the text that was cleaned."""
    out.mkdir(parents=True)
    moses, subword = BIN / "sacremoses", BIN / "subword-nmt"

    def each(command: str) -> None:
        for language in LANGUAGES:
            shell(command.replace("LANG", language))

    def apply_and_shuffle() -> None:
        each(f"{subword} apply-bpe -c {out}/codes --num-workers {workers} -i {out}/tok.LANG -o {out}/bpe.LANG")
        shell(f"paste {out}/bpe.en {out}/bpe.de | shuf > {out}/shuffled")

    return {
        "tokenize": lambda: each(f"{moses} -l LANG -j {workers} tokenize < {clean_text}/train.LANG > {out}/tok.LANG"),
        "learn_bpe": lambda: shell(
            f"cat {out}/tok.en {out}/tok.de > {out}/both && "
            f"{subword} learn-bpe -s {MERGES} --num-workers {workers} -i {out}/both -o {out}/codes"
        ),
        "shuffle": apply_and_shuffle,
    }


def shell(command: str) -> None:
    """Run a command; its progress bars are not wanted."""
    subprocess.run(
        ["bash", "-c", command], check=True, stderr=subprocess.DEVNULL, env=os.environ | {"PYTHONWARNINGS": "ignore"}
    )


def compare(mine: Path, other: Path) -> dict[str, bool]:
    """Whether the outputs are the same, to the byte; ours is shuffled in its own order, which leads back to lines."""
    same = {f"tokens {lang}": same_bytes(mine / f"tokenize/train.{lang}", other / f"tok.{lang}") for lang in LANGUAGES}
    same["merges"] = same_bytes(mine / "learn_bpe/codes", other / "codes")
    data = load(mine / "shuffle", "train")
    pieces = Encoder(mine / "learn_bpe").pieces
    for side, language in (("source", "en"), ("target", "de")):
        lines = list(read_lines(other / f"bpe.{language}"))
        stored = text_lines(data, side, pieces)
        same[f"pieces {language}"] = all(lines[number] == line for number, line in zip(data.order, stored, strict=True))
    return same


def same_bytes(left: Path, right: Path) -> bool:
    """Whether two files hold the same."""
    return subprocess.run(["cmp", "-s", left, right]).returncode == 0


def run(stages: dict[str, Callable[[], Any]], pairs: int, title: str) -> dict[str, dict[str, float]]:
    """Run and measure each stage."""
    figures = {}
    for name, work in stages.items():
        with Measured() as measured:
            work()
        figures[name] = {
            "seconds": round(measured.seconds, 2),
            "lines_per_second": round(2 * pairs / measured.seconds),
            "peak_mb": round(measured.peak / 1e6),
        }
        print(f"{title:<7}{name:<10}{figures[name]}", flush=True)
    return figures


def main() -> None:
    """Generate, run, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=500_000)
    parser.add_argument("--workers", type=int, default=available())
    parser.add_argument("--ours", action="store_true", help="do not run the usual tools")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wmtflow-bench-") as folder:
        raw, mine, other = (Path(folder, name) for name in ("raw", "ours", "theirs"))
        print(f"making {options.pairs:,} pairs", flush=True)
        generate(raw, options.pairs)
        result: dict[str, Any] = {"pairs": options.pairs, "workers": options.workers, "command": shlex.join(sys.argv)}
        result["ours"] = run(ours(raw, mine, options.workers), options.pairs, "ours")
        if not options.ours:
            result["theirs"] = run(theirs(mine / "clean", other, options.workers), options.pairs, "theirs")
            result["same"] = compare(mine, other)
            result["ratio"] = ratios(result["ours"], result["theirs"])
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if not all(result.get("same", {}).values()):
        sys.exit("the outputs differ")


def ratios(mine: dict[str, dict[str, float]], other: dict[str, dict[str, float]]) -> dict[str, float]:
    """How many times faster each stage is, and the chain of those that both have."""
    found = {name: round(other[name]["seconds"] / mine[name]["seconds"], 1) for name in other}
    total = [sum(side[name]["seconds"] for name in other) for side in (other, mine)]
    return found | {"chain": round(total[0] / total[1], 1)}


def show(result: dict[str, Any]) -> None:
    """The figures as a table."""
    print(f"\n{'stage':<11}{'ours s':>9}{'lines/s':>10}{'peak MB':>9}{'theirs s':>10}{'peak MB':>9}{'ratio':>8}")
    for name, figures in result["ours"].items():
        other = result.get("theirs", {}).get(name, {})
        ratio = result.get("ratio", {}).get(name, "")
        print(
            f"{name:<11}{figures['seconds']:>9}{figures['lines_per_second']:>10,}{figures['peak_mb']:>9,.0f}"
            f"{other.get('seconds', ''):>10}{other.get('peak_mb', ''):>9}{ratio:>8}"
        )
    if "ratio" in result:
        print(f"{'chain':<11}{'':>47}{result['ratio']['chain']:>9}")
        print("same bytes: " + ", ".join(f"{name} {'yes' if same else 'NO'}" for name, same in result["same"].items()))


if __name__ == "__main__":
    main()
