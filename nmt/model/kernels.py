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
import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf

from nmt.config import cache_folder
from nmt.model.shape import NORM_EPSILON

Tensor = Any  # TensorFlow ships no types, hence the ignored decorator too
SOURCE = Path(__file__).with_suffix(".cc")
FLAGS = ["-O3", "-fopenmp-simd", "-shared", "-fPIC"]
library: Any = None  # the kernels, once they are in use


def use(cache: Path | None = None) -> str:
    """Compute with these kernels in this process from now on; returns why that cannot be, if so.

    Whatever goes wrong, the training must not: TensorFlow's operations do the same, slower.
    """
    global library
    try:
        library = loaded(cache or cache_folder())
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError, tf.errors.OpError) as error:
        told = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        fix = " Fix: apt-get install -y g++" if isinstance(error, FileNotFoundError) else ""
        return (
            "dropout and norms are left to TensorFlow, which makes updates about a tenth longer: our own kernels could "
            f"not be compiled or loaded ({told[0] if told else type(error).__name__}).{fix}"
        )
    return ""


def loaded(cache: Path) -> Any:
    """The kernels as TensorFlow's operations. A file that cannot be loaded, as a crash may leave it, is made again."""
    path = compiled(cache)
    try:
        return tf.load_op_library(str(path))
    except (RuntimeError, tf.errors.OpError):
        path.unlink(missing_ok=True)
        return tf.load_op_library(str(compiled(cache)))


def compiled(cache: Path) -> Path:
    """The kernels as a library, in a file named after what makes two builds differ."""
    compiler = shlex.split(os.environ.get("CXX") or "g++")
    machine = (platform.machine(), platform.libc_ver())
    facts = (SOURCE.read_bytes(), tf.__version__, tf.sysconfig.CXX11_ABI_FLAG, machine, compiler, FLAGS)
    path = cache.absolute() / f"kernels-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".kernels-") as work:  # several ranks may at once
            made = Path(work, path.name)
            flags = [*FLAGS, *tf.sysconfig.get_compile_flags(), "-o", str(made), str(SOURCE)]
            command = [*compiler, *flags, *tf.sysconfig.get_link_flags()]
            subprocess.run(command, check=True, capture_output=True, text=True, errors="replace")
            made.replace(path)
    return path


def drop(x: Tensor, key: Tensor, stream: int, first: Tensor, dropped: int) -> Tensor:
    """nmt.model.transformer's dropout. For the gradient the same numbers are drawn again: cheaper than keeping them."""

    def masked(x: Tensor) -> Tensor:
        return library.wmtflow_drop(x=x, key=key, first=first, stream=stream, dropped=dropped)

    return tf.custom_gradient(lambda x: (masked(x), masked))(x)


@tf.custom_gradient  # type: ignore[untyped-decorator]
def layer_norm(x: Tensor, scale: Tensor, bias: Tensor) -> tuple[Tensor, Any]:
    """nmt.model.layers's normalisation of the last axis."""
    y, means, inverses = library.wmtflow_norm(x=x, scale=scale, bias=bias, epsilon=NORM_EPSILON)

    def gradient(dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return tuple(library.wmtflow_norm_gradient(dy=dy, x=x, means=means, inverses=inverses, scale=scale))

    return y, gradient
