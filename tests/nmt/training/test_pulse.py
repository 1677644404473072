"""Signs of life, and who is to blame when there are none."""

import threading

from nmt.training import pulse
from nmt.training.pulse import READING, UPDATING, Pulse, Sign, Watch


class Ranks:
    """Ranks that do what a test says, and a clock that only it moves."""

    def __init__(self, folder, count):
        self.folder, self.now = folder, 0.0
        folder.mkdir()
        self.signs = {rank: Sign(rank=rank, pid=100 + rank, host="node") for rank in range(count)}
        self.watch = Watch(folder, count, limit=60, clock=lambda: self.now)

    def say(self, rank, **changes):
        self.signs[rank] = self.signs[rank].model_copy(update={"beats": self.signs[rank].beats + 1, **changes})
        (self.folder / f"rank-{rank}.json").write_text(self.signs[rank].model_dump_json())

    def later(self, seconds):
        self.now += seconds
        return self.watch.look()


def test_all_is_well_while_somebody_moves(tmp_path):
    ranks = Ranks(tmp_path / "pulse", 2)
    for number in range(20):
        ranks.say(0, step=number, moves=number)
        ranks.say(1, step=0, moves=0)  # slow, but the other has work of its own
        assert ranks.later(30) is None
    assert ranks.watch.step == 19


def test_a_rank_that_does_not_answer_is_named(tmp_path):
    ranks = Ranks(tmp_path / "pulse", 3)
    for rank in range(3):
        ranks.say(rank, step=7, doing=UPDATING, moves=20)
    assert ranks.later(1) is None
    for _ in range(59):
        for rank in (0, 2):  # they wait for rank 1, and still beat
            ranks.say(rank)
        assert ranks.later(1) is None
    ranks.say(0), ranks.say(2)
    assert ranks.later(2) == (
        "nothing has moved for 60 seconds: "
        "rank 1 (process 101 on node) does not answer any more; it was in its update at step 7"
    )


def test_a_rank_that_beats_but_is_behind_is_named(tmp_path):
    ranks = Ranks(tmp_path / "pulse", 2)
    for _ in range(70):
        ranks.say(0, step=7, doing=UPDATING, moves=20)
        ranks.say(1, step=7, doing=READING, moves=19)
        verdict = ranks.later(1)
    assert verdict.endswith(": rank 1 (process 101 on node) is waiting for a batch at step 7")


def test_a_rank_that_never_began_is_named(tmp_path):
    ranks = Ranks(tmp_path / "pulse", 2)
    ranks.say(0, moves=1)
    for _ in range(61):
        assert ranks.later(1) is None
    assert ranks.later(1).endswith(": rank 1 has never said a word")


def test_a_pause_of_the_watcher_too_is_nobodys_fault(tmp_path):
    """Ctrl-Z stops both; the ranks get their time again, and no more than that."""
    ranks = Ranks(tmp_path / "pulse", 1)
    ranks.say(0, step=7, doing=UPDATING, moves=20)
    assert ranks.later(1) is None
    assert ranks.later(10_000) is None
    for _ in range(60):
        ranks.say(0)
        assert ranks.later(1) is None
    assert "in its update at step 7" in ranks.later(1)


def test_the_pulses_of_an_earlier_training_do_not_count(tmp_path):
    Ranks(tmp_path / "pulse", 1).say(0, step=900)
    watch = Watch(tmp_path / "pulse", 1, limit=60)
    assert watch.look() is None and watch.step == 0


def test_a_disk_that_is_full_for_a_moment_does_not_silence_a_rank(tmp_path, monkeypatch):
    monkeypatch.setattr(pulse, "INTERVAL", 0.01)
    failures = iter([OSError("no space left"), None])
    write, written = pulse.atomic.write_text, threading.Event()

    def sometimes(path, text):
        if failure := next(failures, None):
            raise failure
        write(path, text)
        written.set()

    monkeypatch.setattr(pulse.atomic, "write_text", sometimes)
    with Pulse(tmp_path / "pulse", 0):
        assert written.wait(10)


def test_a_rank_writes_where_it_is(tmp_path):
    with Pulse(tmp_path / "pulse", 3) as own:
        own.at(12, UPDATING)
        own.at(13, READING)
    watch = Watch(tmp_path / "other", 4, limit=60)
    watch.folder = tmp_path / "pulse"
    watch.read(3, 0.0)
    sign = watch.seen[3].sign
    assert (sign.rank, sign.step, sign.doing, sign.moves) == (3, 13, READING, 2)
