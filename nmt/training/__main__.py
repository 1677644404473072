"""One training process: `python -m nmt.training JOB.json`. With several ranks, horovodrun starts one each."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before TensorFlow is imported
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # else off on processors without AVX-512, where it is faster too
os.environ.setdefault("TF_XLA_FLAGS", "--tf_xla_cpu_global_jit")  # train.xla means CPUs too

import numpy as np
import tensorflow as tf

from nmt.cluster.launch import owner_is_gone
from nmt.decoding.export import export
from nmt.errors import WmtflowError
from nmt.model import kernels
from nmt.monitor.sampler import Sampler
from nmt.store.store import remove
from nmt.training import checkpoints
from nmt.training.job import Job
from nmt.training.loop import Trainer, say
from nmt.training.pulse import EXPORTING
from nmt.training.ranks import Alone, Horovod, Ranks
from nmt.training.threads import Threads, shared_out


def main() -> None:
    """Train what the job file says, then export the averaged model; exit status 1 with one line if it cannot be."""
    job = Job.model_validate_json(Path(sys.argv[1]).read_text(encoding="utf-8"))
    threading.Thread(target=end_with_owner, daemon=True, name="owner").start()
    try:
        ranks: Ranks = Horovod(job.train) if job.train.ranks > 1 else Alone()
        threads = use_devices(job, ranks)
        trainer = Trainer(job, ranks, threads.all, threads.lanes)
        with trainer.pulse:
            with Sampler(job.work / "monitor.jsonl") if ranks.rank == 0 else nullcontext():
                trainer.run()
            if ranks.rank == 0:
                trainer.pulse.at(trainer.state.step, EXPORTING)
                export_average(job)
    except WmtflowError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        sys.exit(error.exit_status)
    except tf.errors.UnknownError as error:  # what Horovod raises when a connection ends
        if job.train.ranks == 1:
            raise
        seen = error.message.partition("\n")[0]  # not why the other went, which it says itself
        print(f"rank {ranks.rank} stops: another rank has gone ({seen})", file=sys.stderr, flush=True)
        os._exit(1)  # an orderly end would wait for the rank that has gone, for as long as Gloo is patient


def end_with_owner() -> None:
    """End this rank when the process that the training is for has ended, however that happened."""
    while not owner_is_gone():
        time.sleep(1)
    os._exit(1)


def use_devices(job: Job, ranks: Ranks) -> Threads:
    """One GPU per rank where there are GPUs; an even share of the cores otherwise, which is returned."""
    tf.config.optimizer.set_jit("autoclustering" if job.train.xla else False)
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        mine = gpus[ranks.local_rank % len(gpus)]
        tf.config.set_visible_devices([mine], "GPU")
        tf.config.experimental.set_memory_growth(mine, True)
    threads = shared_out(job.train, gpu=bool(gpus))
    tf.config.threading.set_intra_op_parallelism_threads(threads.operation)
    tf.config.threading.set_inter_op_parallelism_threads(min(threads.all, max(threads.lanes, 2)))
    rounded = job.train.products == "high"
    tf.config.experimental.enable_tensor_float_32_execution(rounded)
    # A kernel of ours has one thread, and XLA would split its work at each.
    if not gpus and not job.train.xla and threads.operation == 1:
        if trouble := kernels.use(products=rounded):
            say(f"rank {ranks.rank}: {trouble}")
        elif kernels.tiles and job.train.precision == "float32" and ranks.rank == 0:
            say("products on AMX, which keep 16 bits of each number's 24 (all of them: train.products=highest)")
    return threads


def export_average(job: Job) -> None:
    """The mean of the newest or best checkpoints as the finished model, and its weights for other exports."""
    chosen = checkpoints.to_average(job.work / "checkpoints", job.train)
    weights = checkpoints.average(chosen, list(job.shape.weights()))
    remove(job.export)
    export(weights, job.shape, job.export, job.codes, job.vocabulary, job.text)
    np.savez(job.export.with_name("weights.npz"), **weights)
    say(f"model: the average of {', '.join(path.name for path in chosen)}")


if __name__ == "__main__":
    main()
