"""A whole run made of formulas: folders and manifests such as the stages before the report leave."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nmt.config import Experiment
from nmt.model.schedule import learning_rate
from nmt.settings_file import check
from nmt.store.manifest import Manifest, record

BLEU_SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
TOKENS_SIGNATURE = "nrefs:1|case:lc|eff:no|tok:none|smooth:exp|version:2.6.0"
CHRF_SIGNATURE = "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0"
PARAMETERS = 1_000_000
BEGAN = 1_750_000_000.0
SENTENCES = [
    (
        "The old baker sells fresh bread.",
        "Der alte Bäcker verkauft frisches Brot.",
        "Der alte Bäcker kauft frisches Brot.",
    ),
    (
        "My sister reads a long letter.",
        "Meine Schwester liest einen langen Brief.",
        "Meine Schwester liest einen langen Brief.",
    ),
    (
        "We saw the small dogs yesterday.",
        "Wir sahen gestern die kleinen Hunde.",
        "Gestern sahen wir die kleinen Hunde.",
    ),
    (
        "Nobody knows why the train is late.",
        "Niemand weiß, warum der Zug Verspätung hat.",
        "Niemand weiß, warum der Zug spät ist.",
    ),
]
DROPPED = [("empty", "", "Hallo."), ("long", "word " * 90, "Wort")]
Curve = Callable[[float], float]  # from the share of the run that is done


@dataclass(frozen=True)
class Run:
    """What `report` is given."""

    experiment: Experiment
    manifests: Mapping[str, Manifest]
    folders: Mapping[str, Path]


def rising(done: float) -> float:
    """BLEU that never stops rising."""
    return 40 * done


def flat(done: float) -> float:
    """BLEU that settles early."""
    return 30 * (1 - math.exp(-30 * done))


def falling(done: float) -> float:
    """A loss that falls to its floor early."""
    return 2 + 6 * math.exp(-30 * done)


def turning(done: float) -> float:
    """A dev loss that turns around half-way."""
    return 2 + 4 * (done - 0.5) ** 2


def host_row(
    second: float, host: str, mbit: float, speed: int | None, gpus: list[float] | None = None
) -> dict[str, Any]:
    """A monitor's sample: `mbit` of traffic each way on eth0, a quarter of it on the loopback."""
    rate = mbit * 1e6 / 8
    return {
        "time": BEGAN + second, "host": host, "cpu_percent": 80.0 + 10 * math.sin(second / 60),
        "memory_used_bytes": 3 * 10**9, "memory_total_bytes": 8 * 10**9,
        "sent_bytes_per_second": rate, "received_bytes_per_second": rate,
        "interfaces": {
            "eth0": {"sent": rate, "received": rate, "speed_mbit": speed},
            "lo": {"sent": rate / 4, "received": rate / 4, "speed_mbit": None},
        },
        "gpus": [
            {"name": "V100", "utilization": use, "memory_used_bytes": 1, "memory_total_bytes": 2, "power_watts": 200.0}
            for use in gpus or []
        ],
    }  # fmt: skip


def metrics(
    steps: int, log_every: int, eval_every: int, bleu: Curve, dev: Curve, train: Curve, clock: bool
) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl; a step takes 0.5 s, a quarter more half-way through, an evaluation 5 s."""
    rows: list[dict[str, Any]] = []
    seconds = evaluating = 0.0
    for step in range(1, steps + 1):
        done = step / steps
        if step % log_every == 0 or step == steps:
            each = 0.5 * (1 + 0.25 * math.exp(-(((done - 0.5) * 20) ** 2)))
            seconds += each * (log_every if step % log_every == 0 else step % log_every)
            rows.append({
                "kind": "train", "step": step, "loss": train(done) + 0.8, "nll": train(done),
                "gradient_norm": 0.5 + math.exp(-10 * done), "tokens_per_second": 2_000 / each, "step_seconds": each,
                "pieces_per_step": 2_000.0, "padding": 0.05, "learning_rate": learning_rate(step - 1, 1.0, 128, 300),
                "seconds": seconds, "epoch": int(3 * done), **({"time": BEGAN + seconds + evaluating} if clock else {}),
            })  # fmt: skip
        if step % eval_every == 0 or step == steps:
            evaluating += 5
            rows.append({
                "kind": "eval", "step": step, "loss": dev(done) + 0.8, "nll": dev(done), "bleu": round(bleu(done), 2),
                "piece_bleu_not_sacrebleu": round(bleu(done) * 1.2, 2), "samples": [], "eval_seconds": 5.0,
                "signature": BLEU_SIGNATURE,
                **({"time": BEGAN + seconds + evaluating} if clock else {}),
            })  # fmt: skip
    return rows


CURVES: dict[str, Curve] = {"rising": rising, "flat": flat, "falling": falling, "turning": turning}


@pytest.fixture
def sample() -> Callable[..., dict[str, Any]]:
    """`host_row`, for tests that make their own monitor rows."""
    return host_row


@pytest.fixture
def monitored() -> Callable[..., list[dict[str, Any]]]:
    """A function that gives ten minutes of some hosts with steady traffic."""

    def rows(mbit: float = 95, speed: int | None = 100, gpus: list[float] | None = None,
             hosts: tuple[str, ...] = ("alpha", "beta")) -> list[dict[str, Any]]:  # fmt: skip
        return [host_row(second, host, mbit, speed, gpus) for second in range(0, 600, 5) for host in hosts]

    return rows


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    """A function that writes a run under `tmp_path` and returns what `report` is given."""

    def make(
        steps: int = 1_000, log_every: int = 20, eval_every: int = 100, ranks: int = 2, samples: int = 6,
        settings: dict[str, Any] | None = None,
        bleu: str | Curve = "flat", dev: str | Curve = "falling", train: str | Curve = "falling", clock: bool = True,
        monitor: list[dict[str, Any]] | None = None, sentences: list[tuple[str, str, str]] = SENTENCES,
        dropped: list[tuple[str, str, str]] = DROPPED,
    ) -> Run:  # fmt: skip
        train_settings = {
            "steps": steps, "log_every": log_every, "eval_every": eval_every, "ranks": ranks, "width": 128, "heads": 4,
            "learning_rate": 1.0, "warmup": 300, **(settings or {}),
        }  # fmt: skip
        experiment = check({"name": "synthetic", "report": {"samples": samples}, "train": train_settings}, "test")
        folders = {
            name: tmp_path / "store" / name
            for name in ("download", "clean", "tokenize", "learn_bpe", "shuffle", "train", "score")
        }
        for folder in folders.values():
            folder.mkdir(parents=True)
        columns = list(zip(*(sentences * 25), strict=True))
        for split in ("train", "dev", "test"):
            write(folders["download"] / f"{split}.en", columns[0])
            write(folders["download"] / f"{split}.de", columns[1])
        for side, language in enumerate(("en", "de")):
            write(folders["clean"] / f"train.{language}", columns[side][:-10])
        write(folders["clean"] / "dropped.tsv", ["\t".join(row) for row in dropped])
        for name in ("order", "source.ids", "target.ids"):
            (folders["shuffle"] / f"train.{name}.npy").write_bytes(b"\0" * 1_000)
        (folders["train"] / "checkpoint").mkdir()
        with (folders["train"] / "checkpoint" / "weights.data-00000-of-00001").open("wb") as file:
            file.truncate(12 * PARAMETERS)
        (folders["train"] / "checkpoint" / "weights.index").write_bytes(b"\0" * 100)
        (folders["train"] / "checkpoint" / "state.json").write_bytes(b"{}")
        b, d, t = (CURVES[curve] if isinstance(curve, str) else curve for curve in (bleu, dev, train))
        rows = metrics(steps, log_every, eval_every, b, d, t, clock)
        write(folders["train"] / "metrics.jsonl", [json.dumps(row) for row in rows])
        if monitor is not None:
            write(folders["train"] / "monitor.jsonl", [json.dumps(row) for row in monitor])
        for split in ("dev", "test"):
            write(folders["score"] / f"{split}.de", columns[2])
        score = {
            "bleu": 31.25,
            "signature": BLEU_SIGNATURE,
            "tokens_bleu": 33.5,
            "tokens_signature": TOKENS_SIGNATURE,
            "chrf": 58.5,
            "chrf_signature": CHRF_SIGNATURE,
            "sentences": len(columns[0]),
        }
        (folders["score"] / "scores.json").write_text(json.dumps({"test": score, "dev": score | {"bleu": 30.75}}))
        trains, evals = ([row for row in rows if row["kind"] == kind] for kind in ("train", "eval"))
        counts: dict[str, dict[str, Any]] = {
            "clean": {"read": 100, "kept": 90, "repaired": 4, "dropped": {"empty": 4, "long": 6}},
            "tokenize": {name: {"lines": 90, "tokens": 540} for name in ("train.en", "train.de")},
            "learn_bpe": {"words": 400, "merges": 300, "vocabulary": 512, "pieces": 2_000},
            "shuffle": {
                split: {"pairs": 90, "too_long": 0, "unknown": 1, "source_pieces": 900, "target_pieces": 1_100}
                for split in ("train", "dev")
            },
            "train": {
                "steps": steps, "epochs": trains[-1]["epoch"], "parameters": PARAMETERS,
                "training_seconds": trains[-1]["seconds"],
                "evaluation_seconds": 5.0 * len(evals), "dev_bleu": evals[-1]["bleu"], "dev_loss": evals[-1]["loss"],
            },
        }  # fmt: skip
        manifests = {name: manifest(name, folder, counts.get(name, {})) for name, folder in folders.items()}
        return Run(experiment, manifests, folders)

    return make


def manifest(stage: str, folder: Path, counts: dict[str, Any]) -> Manifest:
    """A manifest of what is in `folder`, with a fixed time and host."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return Manifest(
        stage=stage, key=f"{len(stage):016x}", settings={}, inputs={}, code={},
        libraries={"numpy": "2.0.2"} if stage == "shuffle" else {},
        outputs={str(path.relative_to(folder)): record(path) for path in files}, counts=counts,
        seconds=700.0, host="alpha",
        created="2025-06-15T12:00:00+00:00", versions={"python": "3.11.9", "wmtflow": "0.1.0"},
    )  # fmt: skip


def write(path: Path, lines: Any) -> None:
    """Lines to a file."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
