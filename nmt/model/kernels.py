"""Kernels of our own (kernels.cc and its headers) for CPUs: dropout, layer normalisation and the softmax of the loss,
each one pass over the numbers, and matrix products on AMX.

They are compiled at first use, which takes some seconds, and kept in the cache folder. Where they are not in use (on a
GPU, with XLA, without a compiler), TensorFlow's operations compute the same: dropout to the last bit, the others to
their rounding. Products of 32-bit numbers keep 16 bits of each on AMX, where TensorFlow keeps 24, and 10 on GPUs.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf

from nmt.config import cache_folder
from nmt.model.shape import NORM_EPSILON

Tensor = Any  # TensorFlow ships no types, hence the ignored decorator too
SOURCES = [Path(__file__).with_name(name) for name in ("kernels.cc", "numbers.h", "product.h", "softmax.h")]
FLAGS = ["-O3", "-fopenmp-simd", "-shared", "-fPIC"]
library: Any = None  # the kernels, once they are in use
tiles = False  # whether products are made by them too


def use(cache: Path | None = None, products: bool = True) -> str:
    """Compute with these kernels in this process from now on, `products` too or not; returns why that cannot be, if so.

    Whatever goes wrong, the training must not: TensorFlow's operations do the same, slower.
    """
    global library, tiles
    try:
        library, functions = loaded(cache or cache_folder())
        tiles = products and bool(functions.wmtflow_may_use_tiles())
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError, tf.errors.OpError) as error:
        told = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        fix = " Fix: apt-get install -y g++" if isinstance(error, FileNotFoundError) else ""
        return (
            "dropout, norms and products are left to TensorFlow, which makes updates a tenth longer, and half again as "
            "long on a processor with AMX: our own kernels could not be compiled or loaded "
            f"({told[0] if told else type(error).__name__}).{fix}"
        )
    return ""


def loaded(cache: Path) -> tuple[Any, ctypes.CDLL]:
    """TensorFlow's operations in the library, and its functions. A file damaged by a crash, say, is made again."""
    path = compiled(cache)
    try:
        operations = tf.load_op_library(str(path))
    except (RuntimeError, tf.errors.OpError):
        path.unlink(missing_ok=True)
        operations = tf.load_op_library(str(compiled(cache)))
    return operations, ctypes.CDLL(str(path))


def compiled(cache: Path) -> Path:
    """The kernels as a library, in a file named after what makes two builds differ."""
    compiler = shlex.split(os.environ.get("CXX") or "g++")
    machine = (platform.machine(), platform.libc_ver())
    sources = [path.read_bytes() for path in SOURCES]
    facts = (sources, tf.__version__, tf.sysconfig.CXX11_ABI_FLAG, machine, compiler, FLAGS)
    path = cache.absolute() / f"kernels-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".kernels-") as work:  # several ranks may at once
            made = Path(work, path.name)
            flags = [*FLAGS, *tf.sysconfig.get_compile_flags(), "-o", str(made), str(SOURCES[0])]
            command = [*compiler, *flags, *tf.sysconfig.get_link_flags()]
            subprocess.run(command, check=True, capture_output=True, text=True, errors="replace")
            made.replace(path)
    return path


def drop(x: Tensor, key: Tensor, stream: int, first: Tensor, dropped: int) -> Tensor:
    """nmt.model.transformer's dropout, of 32-bit floats or bfloat16.

    For the gradient the same numbers are drawn again: cheaper than keeping them.
    """

    operation = library.wmtflow_drop if x.dtype == tf.float32 else library.wmtflow_drop_short

    def masked(x: Tensor) -> Tensor:
        return operation(x=x, key=key, first=first, stream=stream, dropped=dropped)

    return tf.custom_gradient(lambda x: (masked(x), masked))(x)


@tf.custom_gradient  # type: ignore[untyped-decorator]
def layer_norm(x: Tensor, scale: Tensor, bias: Tensor) -> tuple[Tensor, Any]:
    """nmt.model.layers's normalisation of the last axis."""
    y, means, inverses = library.wmtflow_norm(x=x, scale=scale, bias=bias, epsilon=NORM_EPSILON)

    def gradient(dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return tuple(library.wmtflow_norm_gradient(dy=dy, x=x, means=means, inverses=inverses, scale=scale))

    return y, gradient


def softmax(z: Tensor, labels: Tensor, scale: Tensor | float, apart: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """nmt.model.loss's softmax of 32-bit floats or bfloat16, made in the place of the logits."""
    operation = library.wmtflow_softmax if z.dtype == tf.float32 else library.wmtflow_softmax_short
    return tuple(operation(z=z, labels=labels, scale=scale, apart=apart))


def on_tiles(x: Tensor) -> bool:
    """Whether products of numbers like x are made on AMX."""
    return bool(library) and tiles and x.dtype == tf.float32


def product(a: Tensor, b: Tensor, turn_a: bool = False, turn_b: bool = False) -> Tensor:
    """The product of two matrices, one of which may be taken transposed."""
    if not on_tiles(a):
        return tf.matmul(a, b, transpose_a=turn_a, transpose_b=turn_b)
    if turn_a:
        return library.wmtflow_product_turn_a(a=a, b=b)
    return library.wmtflow_product_turn_b(a=a, b=b) if turn_b else library.wmtflow_product(a=a, b=b)
