"""Champions on disk: promoted whole, kept, gone back to, found by default."""

import threading

import pytest

from nmt import champions
from nmt.config import Experiment
from nmt.errors import RunError
from nmt.runs import Result


@pytest.fixture
def result(data, tmp_path):
    """A finished run as the disk has it."""

    def make(bleu):
        folder = tmp_path / f"run-{bleu}"
        (folder / "model").mkdir(parents=True)
        (folder / "model/model.bin").write_text(f"weights of {bleu}")
        (folder / "report.html").write_text("<html>")
        return Result(
            name="mine",
            config=Experiment(name="mine").model_dump(mode="json"),
            bleu=bleu,
            signature="s",
            chrf=1.0,
            report=str(folder / "report.html"),
            model=str(folder / "model"),
        )

    return make


def test_the_newest_is_used_and_the_old_one_kept(result):
    assert champions.find("mine") is None and champions.names() == []
    champions.promote("mine", result(1.0), None)
    second = champions.promote("mine", result(2.0), None)
    assert (second.version, champions.chosen().result.bleu) == (2, 2.0)
    assert [each.version for each in champions.versions("mine")] == [1, 2]
    back = champions.roll_back("mine")
    assert back.version == 1 and champions.chosen("mine").result.bleu == 1.0
    assert (back.folder / "model/model.bin").read_text() == "weights of 1.0"
    with pytest.raises(RunError, match="none to go back to"):
        champions.roll_back("mine")
    assert champions.promote("mine", result(3.0), None).version == 3  # never a number that was used


def test_its_weights_do_not_depend_on_the_store(result, tmp_path):
    champions.promote("mine", result(1.0), None)
    (tmp_path / "run-1.0/model/model.bin").unlink()
    assert (champions.chosen().folder / "model/model.bin").read_text() == "weights of 1.0"


def test_only_the_last_few_are_kept(result):
    for number in range(champions.KEPT + 2):
        champions.promote("mine", result(float(number)), None)
    assert len(champions.versions("mine")) == champions.KEPT
    with pytest.raises(RunError, match="has no champion 1; kept: 3"):
        champions.use("mine", 1)


def test_without_any_it_says_how_to_get_one(data):
    with pytest.raises(RunError, match="no champion yet; retraining makes one: wmtflow retrain CONFIG"):
        champions.chosen()


def test_an_unreadable_one_names_the_way_out(result):
    champions.promote("mine", result(1.0), None)
    champion = champions.promote("mine", result(2.0), None)
    (champion.folder / "champion.json").write_text("{")
    with pytest.raises(RunError, match=r"wmtflow champion mine --use N"):
        champions.chosen("mine")
    assert champions.use("mine", 1).result.bleu == 1.0  # and that way is open
    assert champions.chosen("mine").version == 1
    (champions.folder("mine") / "current").write_text("")
    with pytest.raises(RunError, match="holds no number"):
        champions.chosen()


def test_the_default_is_the_experiment_chosen_last(result):
    champions.promote("a", result(1.0), None)
    champions.promote("b", result(2.0), None)
    champions.promote("a", result(3.0), None)
    assert champions.chosen().name == "a"
    champions.roll_back("a")
    assert (champions.chosen().name, champions.chosen().version) == ("a", 1)


def test_two_at_once_take_turns(result):
    def promote(bleu):
        with champions.alone("mine"):
            champions.promote("mine", made[bleu], None)

    made = {bleu: result(bleu) for bleu in (1.0, 2.0, 3.0)}
    threads = [threading.Thread(target=promote, args=(bleu,)) for bleu in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.version for each in champions.versions("mine")] == [1, 2, 3]


def test_sources_are_remembered(data):
    assert champions.sources("mine") == {}
    champions.note_sources("mine", {"a": "1 bytes"})
    assert champions.sources("mine") == {"a": "1 bytes"}
