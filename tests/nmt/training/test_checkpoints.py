"""Checkpoints are whole or not there, and the newest whole one is used."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from nmt.config import TrainSettings
from nmt.errors import TrainingError
from nmt.training import checkpoints
from nmt.training.checkpoints import State
from nmt.training.interval import Opened


@pytest.fixture
def folder(tmp_path):
    """Three checkpoints whose only weight is their step."""
    for step in (10, 20, 30):
        saved = tf.train.Checkpoint(weights={"a/b": tf.Variable([float(step)])})
        checkpoints.save(tmp_path, State(step=step, epoch=1, group=step), saved.write, keep=3)
    return tmp_path


def found(folder, **options):
    said = []
    newest = checkpoints.newest(folder, said.append, **options)
    return (newest[0].name if newest else None), said


def test_the_newest_is_found_with_its_state(folder):
    path, state = checkpoints.newest(folder, pytest.fail)
    assert (path.name, state.step, state.epoch, state.group) == ("step-00000030", 30, 1, 30)
    assert sorted(file.name for file in path.iterdir()) == [
        "state.json",
        "weights.data-00000-of-00001",
        "weights.index",
    ]


def test_the_oldest_go_when_there_are_too_many(folder):
    checkpoints.save(folder, State(step=40), tf.train.Checkpoint(weights={"a/b": tf.Variable([4.0])}).write, keep=2)
    assert [path.name for path in checkpoints.listed(folder)] == ["step-00000030", "step-00000040"]


def test_those_due_by_the_clock_do_not_crowd_out_the_regular_ones(folder):
    for step, regular in ((33, False), (36, False), (40, True), (47, False)):
        saved = tf.train.Checkpoint(weights={"a/b": tf.Variable([float(step)])})
        checkpoints.save(folder, State(step=step, regular=regular), saved.write, keep=3)
    assert [path.name[-2:] for path in checkpoints.listed(folder)] == ["30", "40", "47"]
    assert [path.name[-2:] for path in checkpoints.last(folder, 2)] == ["40", "47"]


def test_the_best_stay_beside_the_newest(folder):
    for step, bleu in ((40, 7.0), (50, 9.0), (60, None), (70, 8.0), (80, None), (90, None)):
        saved = tf.train.Checkpoint(weights={"a/b": tf.Variable([float(step)])})
        checkpoints.save(folder, State(step=step, bleu=bleu), saved.write, keep=1, keep_best=2)
    assert [path.name[-2:] for path in checkpoints.listed(folder)] == ["50", "70", "80", "90"]
    assert [path.name[-2:] for path in checkpoints.best(folder, 2)] == ["50", "70"]


@pytest.mark.parametrize("name", ["weights.data-00000-of-00001", "weights.index", "state.json"])
@pytest.mark.parametrize("harm", ["flip", "cut", "delete"])
def test_a_damaged_one_is_named_and_the_one_before_it_used(folder, name, harm):
    path = folder / "step-00000030" / name
    content = path.read_bytes()
    if harm == "delete":
        path.unlink()
    elif harm == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif name == "state.json":
        path.write_bytes(content.replace(b'"sha256": "', b'"sha256": "0'))
    else:
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    name, said = found(folder)
    assert name == "step-00000020"
    assert len(said) == 1 and "step-00000030 is damaged" in said[0]


def test_not_past_a_step(folder):
    assert found(folder, at_most=25) == ("step-00000020", [])
    assert found(folder, at_most=5) == (None, [])


def test_a_half_written_one_does_not_count(folder):
    (folder / ".step-00000040.partial").mkdir()
    assert found(folder) == ("step-00000030", [])
    broken = tf.train.Checkpoint(weights={"a/b": tf.Variable([4.0])})

    def write(prefix):
        broken.write(prefix)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        checkpoints.save(folder, State(step=50), write, keep=3)
    assert found(folder) == ("step-00000030", [])


def test_where_all_are_damaged_it_is_said_that_all_begins_again(folder):
    for path in checkpoints.listed(folder):
        (path / "weights.index").write_bytes(b"")
    name, said = found(folder)
    assert name is None and "using the one before it" in said[0]
    assert "step-00000010 is damaged" in said[-1] and said[-1].endswith("beginning at step 0")


def test_what_a_kill_while_saving_left_goes_with_the_next(folder):
    (folder / ".step-00000017.partial").mkdir()
    (folder / ".step-00000010.old").mkdir()
    checkpoints.save(folder, State(step=40), tf.train.Checkpoint().write, keep=3)
    assert not list(folder.glob(".*"))


def test_the_one_before_stays_even_where_both_are_due_by_the_clock(folder):
    for step in (33, 36):
        checkpoints.save(folder, State(step=step, regular=False), tf.train.Checkpoint().write, keep=1)
    (folder / "step-00000036/weights.index").write_bytes(b"")
    assert found(folder)[0] == "step-00000033"


def test_an_update_left_out_for_its_overflow_can_be_read_back(folder):
    opened = Opened(figures=[[1.0, 1.0, 9.0, float("inf"), 1024.0]], padding=[0.1], seconds=2.0)
    checkpoints.save(folder, State(step=40, opened=opened), tf.train.Checkpoint().write, keep=3)
    assert checkpoints.newest(folder, pytest.fail)[1].opened == opened


def test_what_cannot_be_averaged_as_asked_is_refused(folder):
    def chosen(**settings):
        given = TrainSettings(checkpoint_every=10, keep=9, **settings)
        return [path.name[-2:] for path in checkpoints.to_average(folder, given)]

    assert chosen(average=2) == ["20", "30"]
    assert chosen(average=5) == ["10", "20", "30"]  # all that a training of 30 steps has made
    shutil.rmtree(folder / "step-00000010")  # as if `keep` had been 2
    with pytest.raises(TrainingError, match=r"5 checkpoints \(last\) cannot be averaged: only 2 kept while training"):
        chosen(average=5)
    (folder / "step-00000020/weights.index").write_bytes(b"")
    assert chosen(average=1) == ["30"]
    with pytest.raises(TrainingError, match=r"step-00000020 damaged. Ask for more train.steps"):
        chosen(average=2)


def test_average_is_the_mean(folder):
    mean = checkpoints.average(checkpoints.listed(folder)[-2:], ["a/b"])
    np.testing.assert_array_equal(mean["a/b"], [25.0])


def test_state_records_size_and_hash_of_every_file(folder):
    state = json.loads((folder / "step-00000010/state.json").read_text())
    for name, record in state["files"].items():
        assert record["bytes"] == (folder / "step-00000010" / name).stat().st_size
    assert set(state["files"]) == {"weights.data-00000-of-00001", "weights.index"}
