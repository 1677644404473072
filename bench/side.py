"""What the training and decoding benchmarks share: a corpus, the two model sizes, and the other tool.

OpenNMT-tf cannot live beside our TensorFlow, so it has an environment of its own (`other_python`), made once and kept
in the cache folder; `bench/opennmt_side.py` is what runs in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from made_up import generate

from nmt.cluster.launch import run, training_command
from nmt.config import (
    LearnBpeSettings,
    ScoreSettings,
    ShuffleSettings,
    TokenizeSettings,
    TrainSettings,
    cache_folder,
)
from nmt.cores import available
from nmt.corpus.bpe import learn, read_vocabulary
from nmt.corpus.encode import Encoder, encode, load, text_lines
from nmt.corpus.tokenize import tokenize
from nmt.model.processor import settled
from nmt.training.job import Job
from nmt.training.records import read

CORES = available()
OPENNMT = "OpenNMT-tf==2.32.0"
HERE = Path(__file__).parent
ONLY_STEPS = {"eval_every": 10**6, "checkpoint_every": 10**6, "average": 1}  # of a timed training
NAMES = [f"{split}.{language}" for split in ("train", "dev") for language in ("en", "de")]


@dataclass(frozen=True)
class Size:
    """A model and the corpus it is measured on."""

    layers: int
    width: int
    heads: int
    feed_forward: int
    merges: int
    pairs: int
    tokens: int  # padded pieces of the longer side in a batch
    warm: int  # updates before the clock starts
    timed: int


SIZES = {
    "tiny": Size(4, 128, 4, 256, merges=10_000, pairs=40_000, tokens=4_096, warm=6, timed=12),
    "base": Size(6, 512, 8, 2_048, merges=32_000, pairs=150_000, tokens=4_096, warm=2, timed=3),
}


def corpus(folder: Path, size: Size) -> Path:
    """Make the corpus and prepare it with our stages; also as text in pieces, for the other tool."""
    raw, tokens, bpe, ids = (folder / name for name in ("raw", "tokens", "bpe", "ids"))
    for path in (tokens, bpe, ids):
        path.mkdir(parents=True)
    generate(raw, size.pairs)
    tokenize({name: raw / name for name in NAMES}, tokens, TokenizeSettings())
    learn([tokens / "train.en", tokens / "train.de"], bpe, LearnBpeSettings(merges=size.merges))
    encoder = Encoder(bpe)
    for split, seed in (("train", 1), ("dev", None)):
        encode(split, (tokens / f"{split}.en", tokens / f"{split}.de"), encoder, ids, seed, ShuffleSettings())
        for side in ("source", "target"):
            lines = text_lines(load(ids, split), side, encoder.pieces)
            (folder / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    write_vocabulary(folder, encoder.pieces)
    return folder


def write_vocabulary(folder: Path, pieces: list[str]) -> None:
    """Our pieces in OpenNMT-tf's order: it has the unknown one at the end, unwritten."""
    theirs = ["<blank>", "<s>", "</s>", *pieces[4:]]
    (folder / "vocabulary").write_text("".join(f"{piece}\n" for piece in theirs), encoding="utf-8")


def job(folder: Path, size: Size, work: Path, **settings: Any) -> Job:
    """A training of ours on that corpus."""
    work.mkdir(parents=True, exist_ok=True)
    bpe = folder / "bpe"
    model = {"layers": size.layers, "width": size.width, "heads": size.heads, "feed_forward": size.feed_forward}
    batch: dict[str, Any] = {"batch": size.tokens, "batch_unit": "tokens", "max_length": 100}
    return Job(
        train=settled(TrainSettings(**model, **batch, **settings), gpu=False),
        decode=ScoreSettings(max_length=10, beam=1),
        tokenize=TokenizeSettings(),
        source="en",
        target="de",
        seed=1,
        vocabulary_size=len(read_vocabulary(bpe / "vocabulary.tsv")),
        work=work,
        data=folder / "ids",
        codes=bpe / "codes",
        vocabulary=bpe / "vocabulary.tsv",
        dev_source=folder / "raw/dev.en",
        dev_target=folder / "raw/dev.de",
        export=work / "model",
    )


def trained(folder: Path, size: Size, work: Path, timed: int, **settings: Any) -> tuple[Job, float, float]:
    """Train as the pipeline does, `size.warm` updates and then `timed` more; pieces per second of those, padding.

    A line of progress is written every `size.warm` updates, not at each: rank 0 writes it while the others wait.
    """
    training = job(folder, size, work, log_every=size.warm, steps=size.warm + timed, **ONLY_STEPS, **settings)
    path = work / "job.json"
    path.write_text(training.model_dump_json(), encoding="utf-8")
    run(training_command(training, path), lambda _: None)
    first, *rows = [row for row in read(work / "metrics.jsonl") if row["kind"] == "train"]
    steps = [after["step"] - before["step"] for before, after in pairwise([first, *rows])]
    pieces = sum(row["pieces_per_step"] * count for row, count in zip(rows, steps, strict=True))
    padding = sum(row["padding"] * count for row, count in zip(rows, steps, strict=True)) / timed
    return training, pieces / (rows[-1]["time"] - first["time"]), padding


def other_python() -> Path:
    """The Python of an environment with OpenNMT-tf in it; made at the first call, some minutes."""
    folder = cache_folder() / "opennmt-tf-2.32"
    python = folder / "bin/python"
    if not (folder / "complete").exists():
        print(f"installing {OPENNMT} into {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", OPENNMT, "tensorflow-cpu<2.14"], check=True)
        (folder / "complete").touch()
    return python


def other(what: str, folder: Path, size: Size, work: Path, threads: int, **params: Any) -> dict[str, Any]:
    """Run OpenNMT-tf in its own environment; its figures."""
    request = {
        "what": what,
        "folder": str(folder),
        "work": str(work),
        "threads": threads,
        "params": params,
        **asdict(size),
    }
    command = [str(other_python()), str(HERE / "opennmt_side.py"), json.dumps(request)]
    env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        sys.exit(f"OpenNMT-tf failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
