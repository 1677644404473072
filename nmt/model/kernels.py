"""Dropout and layer normalisation by kernels of our own (kernels.cc), for CPUs: each one pass over the numbers.

They are compiled at first use, which takes some seconds, and kept in the cache folder. Where they are not in use (on a
GPU, with XLA, without a compiler), TensorFlow's operations compute the same: dropout to the last bit.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
from pathlib import Path
from typing import Any

import tensorflow as tf

from nmt.model.shape import NORM_EPSILON

Tensor = Any
SOURCE = Path(__file__).with_suffix(".cc")
FLAGS = ["-O3", "-fopenmp-simd", "-shared", "-fPIC"]
library: Any = None  # the kernels, once they are in use


def use(cache: Path | None = None) -> str:
    """Compute with these kernels in this process from now on; returns why that cannot be, if so, and what helps."""
    global library
    try:
        library = tf.load_op_library(str(compiled(cache or default_cache())))
    except (OSError, subprocess.CalledProcessError, tf.errors.NotFoundError) as error:
        told = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        return (
            "dropout and norms are left to TensorFlow, which makes updates about a tenth longer: no kernels could be "
            f"compiled ({told[0] if told else type(error).__name__}). Fix: apt-get install -y g++"
        )
    return ""


def compiled(cache: Path) -> Path:
    """The kernels as a library, in a file named after everything that makes two builds differ."""
    compiler = shlex.split(os.environ.get("CXX") or "g++")
    facts = (SOURCE.read_bytes(), tf.__version__, tf.sysconfig.CXX11_ABI_FLAG, platform.machine(), compiler, FLAGS)
    path = cache / f"kernels-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}.so"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")  # several ranks may at once
        flags = [*FLAGS, *tf.sysconfig.get_compile_flags(), "-o", str(partial), str(SOURCE)]
        command = [*compiler, *flags, *tf.sysconfig.get_link_flags()]
        subprocess.run(command, check=True, capture_output=True, text=True)
        partial.replace(path)
    return path


def default_cache() -> Path:
    """Where set-up keeps what it has compiled, too."""
    folder = os.environ.get("WMTFLOW_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "wmtflow")
    return Path(folder).expanduser()


def drop(x: Tensor, key: Tensor, stream: int, first: Tensor, dropped: int) -> Tensor:
    """nmt.model.transformer's dropout. For the gradient the same numbers are drawn again: cheaper than keeping them."""

    def masked(x: Tensor) -> Tensor:
        y = library.wmtflow_drop(x=x, key=key, first=first, stream=stream, dropped=dropped)
        y.set_shape(x.shape)
        return y

    return tf.custom_gradient(lambda x: (masked(x), masked))(x)


@tf.custom_gradient  # type: ignore[untyped-decorator]
def layer_norm(x: Tensor, scale: Tensor, bias: Tensor) -> tuple[Tensor, Any]:
    """nmt.model.layers's normalisation of the last axis."""
    y, means, inverses = library.wmtflow_norm(x=x, scale=scale, bias=bias, epsilon=NORM_EPSILON)
    y.set_shape(x.shape)

    def gradient(dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = library.wmtflow_norm_gradient(dy=dy, x=x, means=means, inverses=inverses, scale=scale)
        for value, like in zip(found, (x, scale, bias), strict=True):
            value.set_shape(like.shape)
        return tuple(found)

    return y, gradient
