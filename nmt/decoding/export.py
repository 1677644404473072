"""Weights in → a folder that CTranslate2 loads and that holds all a translation needs.

model.bin config.json shared_vocabulary.json    CTranslate2's own files
codes vocabulary.tsv text.json                  merges, pieces, languages and tokenizer settings
score.json                                      where a user asked for the folder: how the run was decoded
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
from ctranslate2.specs import common_spec, transformer_spec
from numpy.typing import NDArray
from pydantic import BaseModel

from nmt.config import ScoreSettings, TokenizeSettings
from nmt.corpus.bpe import BEGIN, END, UNKNOWN, read_vocabulary
from nmt.errors import RequestError, RunError
from nmt.model.shape import NORM_EPSILON, ModelShape, positions
from nmt.store.store import remove, replace

DECODING = "score.json"
Weights = Mapping[str, NDArray[np.float32]]


class TextSettings(BaseModel):
    """How text became pieces, and so how it must before and after translation."""

    source: str
    target: str
    tokenize: TokenizeSettings


def export(
    weights: Weights,
    shape: ModelShape,
    out: Path,
    codes: Path,
    vocabulary: Path,
    text: TextSettings,
    quantization: str | None = None,
) -> None:
    """Write the model folder `out` (which must not exist), with matrices as `quantization` has them, such as int8."""
    pieces = read_vocabulary(vocabulary)
    spec = ctranslate2.specs.TransformerSpec.from_config(
        (shape.layers, shape.layers), shape.heads, pre_norm=True, activation=common_spec.Activation.RELU
    )
    spec.config.layer_norm_epsilon = NORM_EPSILON
    spec.config.add_source_eos = True
    spec.config.decoder_start_token = BEGIN
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = BEGIN, END, UNKNOWN
    fill(spec, weights, shape)
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.validate()
    spec.optimize(quantization=quantization)
    out.mkdir(parents=True)
    spec.save(str(out))
    shutil.copyfile(codes, out / "codes")
    shutil.copyfile(vocabulary, out / "vocabulary.tsv")
    (out / "text.json").write_text(text.model_dump_json(indent=1) + "\n", encoding="utf-8")


def export_again(model: Path, out: Path, heads: int, quantization: str, decoding: ScoreSettings) -> int:
    """Write a finished training's `model` again as `out`, with smaller numbers; returns the bytes of the new folder.

    `decoding` goes with it, so that the folder translates as the run does.
    """
    stored = model.with_name("weights.npz")
    if not stored.is_file():
        raise RunError(f"{stored} is not there any more. Train again: wmtflow run CONFIG --from train")
    if out.exists():
        raise RequestError(f"{out} exists already. Name a folder that does not.")
    with np.load(stored) as arrays:
        weights = {name: arrays[name] for name in arrays.files}
    text = TextSettings.model_validate_json((model / "text.json").read_text(encoding="utf-8"))
    temporary = out.with_name(f".{out.name}.partial")
    remove(temporary)
    export(weights, shape_of(weights, heads), temporary, model / "codes", model / "vocabulary.tsv", text, quantization)
    chosen = json.dumps(decoding.key_settings(), indent=1)  # without threads and the like: another machine's matter
    (temporary / DECODING).write_text(f"{chosen}\n", encoding="utf-8")
    replace(temporary, out)
    return sum(path.stat().st_size for path in out.iterdir())


def decoding_of(model: Path) -> ScoreSettings:
    """How a folder that `export_again` wrote is to be decoded."""
    path = model / DECODING
    return ScoreSettings.model_validate_json(path.read_text(encoding="utf-8")) if path.is_file() else ScoreSettings()


def shape_of(weights: Weights, heads: int) -> ModelShape:
    """The sizes of the model that some weights belong to; how many heads they are cut into does not show in them."""
    vocabulary, width = weights["embedding"].shape
    layers = sum(name.startswith("encoder/") and name.endswith("/ffn/in") for name in weights)
    return ModelShape(vocabulary, layers, width, heads, weights["encoder/0/ffn/in"].shape[1])


def fill(spec: transformer_spec.TransformerSpec, weights: Weights, shape: ModelShape) -> None:
    """Put our weights at their places in CTranslate2's specification; its matrices are [out, in]."""
    embedding, table = weights["embedding"], positions(shape.width)
    sides = {"encoder": spec.encoder, "decoder": spec.decoder}
    for side, part in sides.items():
        embeddings = part.embeddings[0] if isinstance(part.embeddings, list) else part.embeddings
        embeddings.weight = embedding
        part.position_encodings.encodings = table
        norm(part.layer_norm, weights, f"{side}/norm")
        for layer in range(shape.layers):
            fill_layer(part.layer[layer], weights, f"{side}/{layer}")
    spec.decoder.projection.weight = embedding


def fill_layer(layer: Any, weights: Weights, name: str) -> None:
    """One encoder or decoder layer."""
    norm(layer.self_attention.layer_norm, weights, f"{name}/self/norm")
    layer.self_attention.linear[0].weight = transposed(weights[f"{name}/self/qkv"])
    layer.self_attention.linear[1].weight = transposed(weights[f"{name}/self/out"])
    if f"{name}/cross/q" in weights:
        norm(layer.attention.layer_norm, weights, f"{name}/cross/norm")
        for index, part in enumerate(("q", "kv", "out")):
            layer.attention.linear[index].weight = transposed(weights[f"{name}/cross/{part}"])
    norm(layer.ffn.layer_norm, weights, f"{name}/ffn/norm")
    for linear, part in ((layer.ffn.linear_0, "in"), (layer.ffn.linear_1, "out")):
        linear.weight = transposed(weights[f"{name}/ffn/{part}"])
        linear.bias = weights[f"{name}/ffn/{part}_bias"]


def norm(spec: Any, weights: Weights, name: str) -> None:
    """One layer normalisation."""
    spec.gamma, spec.beta = weights[f"{name}/scale"], weights[f"{name}/bias"]


def transposed(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """[in, out] as [out, in], contiguous as CTranslate2 wants it."""
    return np.ascontiguousarray(matrix.T)
