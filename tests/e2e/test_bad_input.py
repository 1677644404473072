"""Text that only the run can judge: one clear message, exit status 1, nothing half-written."""

import pytest

GOOD = {"train.en": "a dog\n" * 20, "train.de": "ein Hund\n" * 20, "dev.en": "a dog\n", "dev.de": "ein Hund\n"}
GOOD |= {"test.en": "a dog\n", "test.de": "ein Hund\n"}


@pytest.fixture(scope="module")
def served(place):
    with place.server():
        yield place


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"train.de": "ein Hund\n" * 19}, "line counts differ (train.en 20; train.de 19)"),
        ({"train.en": "", "train.de": ""}, "are empty"),
        ({"dev.en": "", "dev.de": ""}, "download.dev"),
        ({"train.en": "\n" * 20}, "all 20 training pairs were dropped (empty 20)"),
    ],
)
def test_unusable_text(served, tmp_path, files, says):
    for name, text in (GOOD | files).items():
        (tmp_path / name).write_text(text)
    config = tmp_path / "mine.yaml"
    splits = (
        f"  {split}: {{source: {tmp_path}/{split}.en, target: {tmp_path}/{split}.de}}"
        for split in ("train", "dev", "test")
    )
    config.write_text("\n".join(["download:", "  corpus: files", *splits]))
    done = served.wmtflow("run", config, "--set", "train.layers=1")
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert done.stderr.strip().splitlines()[-1].startswith("CorpusError: ")
    assert not list((served.data / "store").glob("*/.*.partial"))
    assert not (served.data / "runs/mine").exists()
