"""preflight: what this machine offers against what the experiment will need, before anything is spent."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

import psutil

from nmt.config import Experiment, data_folder
from nmt.cores import available
from nmt.corpus.sources import download_bytes
from nmt.errors import MachineError
from nmt.model.shape import LOSS_BLOCK, ModelShape
from nmt.training.threads import shared_out

GB = 1e9
PAIR_BYTES = 250  # a built-in pair on disk, both sides
COPIES = 4.5  # raw, clean, tokens, ids, and room to breathe


@dataclass(frozen=True)
class Check:
    """One thing looked at."""

    name: str
    needed: str
    found: str
    ok: bool
    fix: str = ""

    def __str__(self) -> str:
        return f"{'ok  ' if self.ok else 'FAIL'}  {self.name}: {self.found} (needed: {self.needed})"


def preflight(experiment: Experiment, training: bool) -> list[Check]:
    """Look at everything; `training` says whether there is training to do, which is what Horovod is needed for."""
    checks = [disk(experiment), memory(experiment), processors(experiment)]
    if training and experiment.train.ranks > 1:
        checks.append(horovod())
    return checks


def require(checks: list[Check]) -> None:
    """Raise one error that lists every failed check with its remedy."""
    failed = [
        f"{check.name}: needed {check.needed}, found {check.found}. {check.fix}" for check in checks if not check.ok
    ]
    if failed:
        raise MachineError("this machine cannot run the experiment: " + "\n  ".join(failed))


def shape(experiment: Experiment) -> ModelShape:
    """The model to expect: merges plus some hundred characters make the vocabulary."""
    train = experiment.train
    return ModelShape(experiment.learn_bpe.merges + 600, train.layers, train.width, train.heads, train.feed_forward)


def disk(experiment: Experiment) -> Check:
    """Room for the text at every stage, the checkpoints that are kept, and one being written."""
    folder = next(path for path in (data_folder(), *data_folder().parents) if path.exists())
    text = corpus_bytes(experiment) * (COPIES + experiment.shuffle.copies - 1)
    checkpoints = shape(experiment).checkpoint_bytes * (max(experiment.train.keep, 2) + experiment.train.keep_best + 1)
    need = (text + checkpoints) / GB + experiment.preflight.free_disk_gb
    free = shutil.disk_usage(folder).free / GB
    fix = f"Free some space on {folder}, or set WMTFLOW_DATA to a folder on a larger disk."
    return Check("disk", f"{need:.1f} GB", f"{free:.1f} GB free", free >= need, fix)


def corpus_bytes(experiment: Experiment) -> float:
    """How much text there will be, compressed or not."""
    download = experiment.download
    if download.corpus == "builtin":
        return (download.train_pairs + download.dev_pairs + download.test_pairs) * PAIR_BYTES
    if download.corpus == "files":
        pairs = [pair for pair in (download.train, download.dev, download.test) if pair]
        return sum(path.stat().st_size for pair in pairs for path in (pair.source, pair.target) if path.is_file())
    return 2.0 * download_bytes(download.corpus)


def memory(experiment: Experiment) -> Check:
    """Weights, gradients and both moments in every rank, with TensorFlow itself and its activations.

    Every lane has gradients of its own, and of the loss a block of logits and of their softmax. Sums over several
    batches are kept, and CPU ranks exchange a copy of all gradients for one of their sum.
    """
    train, gpu = experiment.train, gpu_count() > 0
    model, lanes = shape(experiment), shared_out(train, gpu).lanes
    copies = 4 + lanes + (train.accumulate > 1) + 2 * (train.ranks > 1 and not gpu)
    each = 4 * (model.parameters * copies + 2 * lanes * LOSS_BLOCK * model.vocabulary) + 0.8 * GB
    need = each * train.ranks / GB
    free = psutil.virtual_memory().available / GB
    fix = "Use fewer ranks (--set train.ranks=1), a smaller model, or a larger machine."
    return Check("memory", f"{need:.1f} GB", f"{free:.1f} GB available", free >= need, fix)


def processors(experiment: Experiment) -> Check:
    """A GPU for each rank where there are GPUs, else a core."""
    ranks, cores, gpus = experiment.train.ranks, available(), gpu_count()
    have, unit = (gpus, "GPUs") if gpus else (cores, "cores")
    fix = f"Set train.ranks to at most {have}."
    return Check("ranks", f"{ranks} ranks", f"{have} {unit}", ranks <= have, fix)


def gpu_count() -> int:
    """NVIDIA GPUs that the driver shows."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        return 0


def horovod() -> Check:
    """Whether Horovod is there and loads with this TensorFlow, tried in a process of its own."""
    fix = "Run make setup, or train in one process: --set train.ranks=1 (make demo RANKS=1)."
    if importlib.util.find_spec("horovod") is None:
        return Check("horovod", "Horovod for 2 or more ranks", "not installed", False, fix)
    code = "import horovod.tensorflow as h; assert h.gloo_built() or h.mpi_built()"
    env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    tried = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    words = tried.stderr.strip().splitlines()
    found = "loads" if tried.returncode == 0 else f"does not load: {words[-1] if words else tried.returncode}"
    return Check("horovod", "loads with this TensorFlow", found, tried.returncode == 0, fix)
