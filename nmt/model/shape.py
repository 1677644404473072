"""The sizes of a Transformer and the table of its weights. No TensorFlow, so that anyone may ask for sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

POSITIONS = 1024  # longest sentence the position table covers
NORM_EPSILON = 1e-6
# Tokens of which the loss is computed at once; 1,024 x 32K logits are 128 MB: products of fewer rows are slower.
LOSS_BLOCK = 1_024


@dataclass(frozen=True)
class ModelShape:
    """Everything that decides which weights a model has."""

    vocabulary: int
    layers: int
    width: int
    heads: int
    feed_forward: int

    def weights(self) -> dict[str, tuple[int, ...]]:
        """The shape of every weight by name, in a fixed order. Matrices map rows to columns: [in, out]."""
        d, f = self.width, self.feed_forward
        table: dict[str, tuple[int, ...]] = {"embedding": (self.vocabulary, d)}
        for side in ("encoder", "decoder"):
            for layer in range(self.layers):
                name = f"{side}/{layer}"
                table |= {**norm(f"{name}/self/norm", d), f"{name}/self/qkv": (d, 3 * d), f"{name}/self/out": (d, d)}
                if side == "decoder":
                    table |= {**norm(f"{name}/cross/norm", d), f"{name}/cross/q": (d, d)}
                    table |= {f"{name}/cross/kv": (d, 2 * d), f"{name}/cross/out": (d, d)}
                table |= {**norm(f"{name}/ffn/norm", d), f"{name}/ffn/in": (d, f), f"{name}/ffn/in_bias": (f,)}
                table |= {f"{name}/ffn/out": (f, d), f"{name}/ffn/out_bias": (d,)}
            table |= norm(f"{side}/norm", d)
        return table

    @property
    def parameters(self) -> int:
        """How many numbers the model learns."""
        return sum(int(np.prod(shape)) for shape in self.weights().values())

    @property
    def checkpoint_bytes(self) -> int:
        """Size of a checkpoint: the weights and Adam's two moments in 32-bit floats."""
        return 3 * 4 * self.parameters


def norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    """The two weights of a layer normalisation."""
    return {f"{name}/scale": (width,), f"{name}/bias": (width,)}


def positions(width: int) -> NDArray[np.float32]:
    """The sinusoid table [POSITIONS, width]: sines in the first half of a row, cosines in the second."""
    rates = np.exp(-np.log(10_000.0) * np.arange(width // 2) / max(width // 2 - 1, 1))
    angles = np.arange(POSITIONS)[:, None] * rates[None, :]
    table: NDArray[np.float32] = np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
    return table
