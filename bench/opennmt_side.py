"""OpenNMT-tf's half of a benchmark, run by its own Python: `python opennmt_side.py REQUEST`, figures as JSON."""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import opennmt
import tensorflow as tf
from opennmt.layers.position import SinusoidalPositionEncoder

Size = dict[str, Any]


class Lines(logging.Handler):
    """Keeps OpenNMT-tf's own log lines."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(record.getMessage())


def model_of(size: Size) -> Any:
    """Its Transformer in our sizes: pre-norm, one embedding for all, no biases where we have none."""
    return opennmt.models.Transformer(
        opennmt.inputters.WordEmbedder(embedding_size=size["width"]),
        opennmt.inputters.WordEmbedder(embedding_size=size["width"]),
        num_layers=size["layers"],
        num_units=size["width"],
        num_heads=size["heads"],
        ffn_inner_dim=size["feed_forward"],
        dropout=0.1,
        attention_dropout=0.1,
        ffn_dropout=0.1,
        mha_bias=False,
        output_layer_bias=False,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
    )


def config_of(size: Size) -> Size:
    """Its settings, as near to ours as they go."""
    folder = Path(size["folder"])
    return {
        "model_dir": size["work"],
        "data": {
            "train_features_file": str(folder / "train.source"),
            "train_labels_file": str(folder / "train.target"),
            "source_vocabulary": str(folder / "vocabulary"),
            "target_vocabulary": str(folder / "vocabulary"),
            "source_sequence_controls": {"end": True},
        },
        "params": {
            "optimizer": "Adam",
            "optimizer_params": {"beta_1": 0.9, "beta_2": 0.997},
            "learning_rate": 2.0,
            "decay_type": "NoamDecay",
            "decay_params": {"model_dim": size["width"], "warmup_steps": 8000},
            "label_smoothing": 0.1,
            **size["params"],
        },
        "train": {
            "batch_type": "tokens",
            "batch_size": size["tokens"],
            "length_bucket_width": 1,
            "maximum_features_length": 100,
            "maximum_labels_length": 100,
            "sample_buffer_size": -1,
            "max_step": size["warm"] + size["timed"],
            "save_summary_steps": 10**9,  # a report sets its counters back
            "save_checkpoints_steps": None,
            "average_last_checkpoints": 0,
        },
        "infer": {"batch_size": 32, "batch_type": "examples", "length_bucket_width": 5},  # what it comes with
    }


def train(size: Size) -> list[tuple[float, int]]:
    """Train some updates; the time after each, and the target pieces it has counted by then."""
    times: list[tuple[float, int]] = []
    update = opennmt.training.TrainingStats.update_on_step

    def timed(self: Any, step: int, loss: Any) -> None:
        update(self, step, loss)  # waits for the loss
        times.append((time.monotonic(), int(self._words_counters["target"].numpy())))

    opennmt.training.TrainingStats.update_on_step = timed
    opennmt.Runner(model_of(size), config_of(size), auto_config=False).train()
    return times


def padding(size: Size) -> float:
    """The share of the positions of its batches, of both languages, that hold no piece."""
    model = model_of(size)
    model.initialize(config_of(size)["data"], params=config_of(size)["params"])
    data = config_of(size)["data"]
    batches = model.examples_inputter.make_training_dataset(
        data["train_features_file"],
        data["train_labels_file"],
        size["tokens"],
        batch_type="tokens",
        length_bucket_width=1,
        shuffle_buffer_size=-1,
        maximum_features_length=100,
        maximum_labels_length=100,
    )
    real = full = 0
    for sides in batches.take(60):
        real += sum(int(tf.reduce_sum(side["length"])) for side in sides)
        full += sum(int(tf.size(side["ids"])) for side in sides)
    return 1 - real / full


def take_over(size: Size) -> None:
    """Write a checkpoint with our weights under its names."""
    weights = dict(np.load(Path(size["folder"], "weights.npz")))
    config = config_of(size)
    model = model_of(size)
    model.initialize(config["data"], params=config["params"])
    model.create_variables()

    def norm(layer: Any, name: str) -> None:
        layer.gamma.assign(weights.pop(f"{name}/scale"))
        layer.beta.assign(weights.pop(f"{name}/bias"))

    def attention(wrapped: Any, name: str, *matrices: str) -> None:
        norm(wrapped.input_layer_norm, f"{name}/norm")
        inner = wrapped.layer
        kernels = np.concatenate([weights.pop(f"{name}/{matrix}") for matrix in matrices], axis=1)
        linears = (inner.linear_queries, inner.linear_keys, inner.linear_values)
        for linear, kernel in zip(linears, np.split(kernels, 3, axis=1), strict=True):
            linear.kernel.assign(kernel)
        inner.linear_output.kernel.assign(weights.pop(f"{name}/out"))

    embedding = weights.pop("embedding")
    model.features_inputter.embedding.assign(embedding[[0, 2, 3, *range(4, len(embedding)), 1]])
    for side in ("encoder", "decoder"):
        part = getattr(model, side)
        norm(part.layer_norm, f"{side}/norm")
        for number, layer in enumerate(part.layers):
            attention(layer.self_attention, f"{side}/{number}/self", "qkv")
            if side == "decoder":
                attention(layer.attention[0], f"{side}/{number}/cross", "q", "kv")
            norm(layer.ffn.input_layer_norm, f"{side}/{number}/ffn/norm")
            for dense, name in ((layer.ffn.layer.inner, "in"), (layer.ffn.layer.outer, "out")):
                dense.kernel.assign(weights.pop(f"{side}/{number}/ffn/{name}"))
                dense.bias.assign(weights.pop(f"{side}/{number}/ffn/{name}_bias"))
    assert not weights, sorted(weights)
    opennmt.utils.checkpoint.Checkpoint(model, model_dir=size["work"]).save(step=1)


def infer(size: Size, lines: Lines) -> dict[str, float]:
    """Seconds to translate a file, by its own clock, which starts once the graph is there."""
    Path(size["work"]).mkdir(parents=True, exist_ok=True)
    encode = SinusoidalPositionEncoder._encode

    def from_zero(self: Any, positions: Any, depth: int) -> Any:
        return encode(self, tf.convert_to_tensor(positions) - 1, depth)  # it counts from 1, we from 0

    SinusoidalPositionEncoder._encode = from_zero
    take_over(size)
    runner = opennmt.Runner(model_of(size), config_of(size), auto_config=False)
    taken = {}
    for name in ("few", "many"):
        lines.kept.clear()
        runner.infer(str(Path(size["folder"], name)), str(Path(size["work"], name)), log_time=True)
        taken[name] = next(float(line.split()[-1]) for line in lines.kept if line.startswith("Total prediction time"))
    return taken


def main() -> None:
    """Answer one request."""
    size = json.loads(sys.argv[1])
    tf.config.threading.set_intra_op_parallelism_threads(size["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(2 if size["threads"] > 1 else 1)
    lines = Lines()
    tf.get_logger().setLevel(logging.INFO)
    tf.get_logger().addHandler(lines)
    if size["what"] == "train":
        times = train(size)
        (began, before), (ended, after) = times[size["warm"] - 1], times[-1]
        answer = {"tokens_per_second": (after - before) / (ended - began), "padding": padding(size)}
    else:
        answer = infer(size, lines)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
