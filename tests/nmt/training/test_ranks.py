"""Two real Horovod processes: the updates of one, resumed to the last digit; one that hangs or dies is named."""

import json
import os
import signal
import threading
import time

import numpy as np
import psutil
import pytest

from nmt.cluster.launch import run, training_command
from nmt.errors import TrainingError
from nmt.training import checkpoints
from nmt.training.pulse import Watch
from nmt.training.records import read


def train(job, watch=None, **changes):
    """Train a job on the ranks it asks for, as the stage does; returns what was said."""
    job = job.model_copy(update={"train": job.train.model_copy(update=changes)})
    path = job.work / "job.json"
    path.write_text(job.model_dump_json())
    said = []
    watch = watch or Watch(job.work / "pulse", job.train.ranks, job.train.stall_seconds)
    run(training_command(job, path), said.append, watch.look)
    return said


def losses(job):
    rows = [row for row in read(job.work / "metrics.jsonl") if row["kind"] == "train"]
    return [(row["step"], row["loss"], row["gradient_norm"]) for row in rows]


def weights(job):
    last = checkpoints.listed(job.work / "checkpoints")[-1]
    return checkpoints.average([last], list(job.shape.weights()))


def running(pid):
    """Whether a process lives; one that is dead but not yet collected does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


SUMS = pytest.mark.parametrize("shared", [True, False], ids=["in memory", "by Horovod"])


@SUMS
def test_two_ranks_make_the_updates_of_one_that_accumulates(job, shared):
    """Batches of unlike size, dropout and all: the parts of an update are the same, whoever does them."""
    two, one = job("two", ranks=2, batch=150, shared_memory=shared), job("one", batch=150, accumulate=2, threads=1)
    said = train(two)
    assert any("2 ranks = 300 tokens per update" in line for line in said)
    train(one)  # by a process too: it makes products as they do
    np.testing.assert_allclose(losses(two), losses(one), rtol=1e-5)
    ours, theirs = weights(two), weights(one)
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-5)
    evals = [[row for row in read(done.work / "metrics.jsonl") if row["kind"] == "eval"] for done in (two, one)]
    assert [row["bleu"] for row in evals[0]] == [row["bleu"] for row in evals[1]]
    assert [row["samples"] for row in evals[0]] == [row["samples"] for row in evals[1]]  # put together in order
    assert (two.export / "model.bin").is_file() and (two.export.with_name("weights.npz")).is_file()


def test_sums_in_shared_memory_are_horovods(job):
    by_horovod, shared = (job(name, ranks=2, threads=1) for name in ("horovod", "shared"))
    train(by_horovod, shared_memory=False)
    said = train(shared)
    assert not any("cannot be shared" in line for line in said), said
    assert losses(shared) == losses(by_horovod)  # of two numbers, the order of adding makes no difference


def test_ranks_that_cannot_share_memory_sum_by_horovod(job, tmp_path, monkeypatch):
    """As on a system whose processes may not open what others have open."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os\nif os.environ.get('HOROVOD_RANK') == '1':\n"
        "    import pathlib\n    was = pathlib.Path.open\n"
        "    def refuse(self, *args, **how):\n"
        "        if '/fd/' in str(self): raise PermissionError(13, 'not for you', str(self))\n"
        "        return was(self, *args, **how)\n"
        "    pathlib.Path.open = refuse\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said = train(job(ranks=2))
    assert any("summed by Horovod, for memory cannot be shared: [Errno 13] not for you" in line for line in said), said


def test_xla_trains_as_without_it(job):
    """In a process of its own, as it has to be: what XLA compiles is fixed when TensorFlow starts."""
    plain, compiled = (job(name, steps=2) for name in ("plain", "compiled"))
    train(plain)
    said = train(compiled, xla=True)
    assert any("XLA service" in line for line in said), said
    np.testing.assert_allclose(losses(compiled), losses(plain), rtol=1e-4)


@pytest.mark.parametrize(
    ("ranks", "precision", "shared"), [(2, "bfloat16", True), (3, "float32", True), (3, "float32", False)]
)
def test_ranks_resume_to_the_last_digit(job, ranks, precision, shared):
    """With three ranks, the order of adding shows in the last digit."""
    how = {"ranks": ranks, "precision": precision, "shared_memory": shared}
    whole, stopped = (job(name, **how) for name in ("whole", "stopped"))
    train(whole)
    train(stopped, steps=3)
    said = train(stopped)
    assert "resuming from step-00000003" in said
    assert losses(stopped) == losses(whole)


def test_ranks_killed_between_checkpoints_repeat_what_was_lost(job):
    settings = {"ranks": 2, "steps": 150, "checkpoint_every": 40, "eval_every": 150}
    whole, hit = job("whole", **settings), job("hit", **settings)
    train(whole)
    threading.Thread(target=kill_rank_1, args=(hit, 45), daemon=True).start()
    with pytest.raises(TrainingError, match="rank 1 was ended by SIGKILL"):
        train(hit)
    reached = losses(hit)[-1][0]
    assert reached >= 45
    said = train(hit)
    resumed = next(line for line in said if "resuming from" in line)
    assert int(resumed.rpartition("-")[2]) in (40, 80, 120)
    assert losses(hit) == losses(whole)


def kill_rank_1(job, step):
    """As soon as the training has said that it is at that step."""
    while not (found := losses(job)) or found[-1][0] < step:
        time.sleep(0.01)
    os.kill(json.loads((job.work / "pulse/rank-1.json").read_text())["pid"], signal.SIGKILL)


def test_compressed_gradients_do_little_harm(job):
    whole, small = job("whole", ranks=2), job("small", ranks=2)
    train(whole)
    train(small, fp16_compression=True)
    np.testing.assert_allclose(losses(small), losses(whole), rtol=2e-3)


@pytest.mark.parametrize(
    ("shared", "sent", "limit", "told"),
    [
        # Longer than the 30 seconds after which Gloo would give up by itself and name nobody.
        (False, signal.SIGSTOP, 35, r"nothing has moved for 35 seconds: rank 1 \(process \d+ on .* not answer"),
        (True, signal.SIGSTOP, 5, r"nothing has moved for 5 seconds: rank 1 \(process \d+ on .* not answer"),
        (False, signal.SIGKILL, 35, "rank 1 was ended by SIGKILL, as the system does"),
    ],
    ids=["hangs", "hangs, sums in memory", "dies"],
)
def test_a_rank_that_hangs_or_dies_is_named_and_none_is_left(job, shared, sent, limit, told):
    hit = job(ranks=2, steps=10_000, eval_every=10_000, shared_memory=shared)
    watch = Watch(hit.work / "pulse", 2, limit=120)
    sign = hit.work / "pulse/rank-1.json"
    pids = []

    def hit_rank_1():
        while not (sign.is_file() and json.loads(sign.read_text())["step"] >= 3):
            time.sleep(0.2)
        pids.append(json.loads(sign.read_text())["pid"])
        os.kill(pids[0], sent)
        watch.limit = limit

    threading.Thread(target=hit_rank_1, daemon=True).start()
    with pytest.raises(TrainingError, match=told):
        train(hit, watch)
    deadline = time.monotonic() + 30
    while running(pids[0]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not running(pids[0])
    assert checkpoints.listed(hit.work / "checkpoints")  # and what it had reached is kept
