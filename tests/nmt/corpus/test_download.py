"""download: every kind of corpus ends as three parallel pairs of files, or as an error that says what to do."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from mirrors import DE, EN, Mirror

from nmt import config
from nmt.config import Experiment
from nmt.corpus.download import download
from nmt.corpus.text import read_pairs
from nmt.errors import ConfigError, CorpusError, DownloadError
from nmt.settings_file import check, load

SPLITS = ("train", "dev", "test")
DEMO = config.CONFIGS / "demo.yaml"


def run(experiment: Experiment, tmp_path: Path) -> dict[str, Any]:
    return download(experiment, tmp_path / "archives", tmp_path / "out", lambda _: None)


# --- a user's own files


def user_files(folder: Path, **contents: bytes) -> Experiment:
    """An experiment on files; `contents` such as `dev_target` replace the usual ones."""
    section: dict[str, Any] = {"corpus": "files"}
    for split in SPLITS:
        for side, text in (("source", EN), ("target", DE)):
            path = folder / f"my-{split}-{side}.txt"
            path.write_bytes(contents.get(f"{split}_{side}", text))
            section.setdefault(split, {})[side] = str(path)
    return check({"download": section}, "test")


def test_user_files_are_taken_byte_by_byte(tmp_path: Path, out: Path):
    assert run(user_files(tmp_path), tmp_path) == {"train": 3, "dev": 3, "test": 3}
    assert {path.name for path in out.iterdir()} == {f"{split}.{side}" for split in SPLITS for side in ("en", "de")}
    for split in SPLITS:
        assert (out / f"{split}.en").read_bytes() == EN and (out / f"{split}.de").read_bytes() == DE


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path, out: Path):
    run(user_files(tmp_path, dev_source=b"\xef\xbb\xbf" + EN), tmp_path)
    assert (out / "dev.en").read_bytes() == EN


def test_user_files_may_be_in_any_languages(tmp_path: Path, out: Path):
    experiment = user_files(tmp_path).model_copy(update={"source": "fr", "target": "it"})
    run(experiment, tmp_path)
    assert (out / "train.fr").read_bytes() == EN and (out / "train.it").read_bytes() == DE


def test_user_files_of_different_length_are_an_error(tmp_path: Path, out: Path):
    with pytest.raises(CorpusError, match=r"line counts differ \(my-dev-source\.txt 3; my-dev-target\.txt 1\)"):
        run(user_files(tmp_path, dev_target=b"eins\n"), tmp_path)


def test_empty_user_files_are_an_error(tmp_path: Path, out: Path):
    with pytest.raises(CorpusError, match=r"download\.test: .* are empty"):
        run(user_files(tmp_path, test_source=b"", test_target=b""), tmp_path)


def test_missing_user_files_are_an_error(tmp_path: Path, out: Path):
    experiment = user_files(tmp_path)
    (tmp_path / "my-train-target.txt").unlink()
    with pytest.raises(CorpusError, match=r"download\.train: there is no file .*my-train-target\.txt"):
        run(experiment, tmp_path)


# --- the built-in corpus


def test_the_builtin_corpus_is_made_to_size_and_by_seed(tmp_path: Path, out: Path):
    section = {"train_pairs": 1_000, "dev_pairs": 10, "test_pairs": 12, "dirt": 0.1}
    counts = run(check({"download": section}, "test"), tmp_path)
    assert (counts["train"], counts["dev"], counts["test"]) == (1_000, 10, 12)
    assert sum(count for name, count in counts.items() if name.startswith("dirt.")) == 100
    for split, size in (("train", 1_000), ("dev", 10), ("test", 12)):
        assert len(list(read_pairs(out / f"{split}.en", out / f"{split}.de"))) == size
    first = (out / "train.en").read_bytes()
    run(check({"download": section}, "test"), tmp_path)
    assert (out / "train.en").read_bytes() == first
    run(check({"download": section, "seed": 2}, "test"), tmp_path)
    assert (out / "train.en").read_bytes() != first


def test_the_builtin_corpus_has_no_other_languages(tmp_path: Path, out: Path):
    with pytest.raises(CorpusError, match=r"English-German \(en, de\), not en, fr"):
        run(check({"target": "fr"}, "test"), tmp_path)


# --- a corpus of config/corpora, from a mirror folder


def test_parts_are_unpacked_from_every_kind_of_archive_and_joined(mirror: Mirror, tmp_path: Path, out: Path):
    assert run(mirror.experiment(), tmp_path) == {"first": 3, "second": 2, "third": 3, "fourth": 3}
    assert (out / "train.en").read_bytes() == EN + b"a\nb\n"  # the missing newline is put in
    assert (out / "train.de").read_bytes() == DE + b"c\nd\n"
    for split in ("dev", "test"):
        assert (out / f"{split}.en").read_bytes() == EN and (out / f"{split}.de").read_bytes() == DE


def test_unpacked_text_is_used_again_without_the_archives(mirror: Mirror, tmp_path: Path, out: Path):
    experiment = mirror.experiment()
    run(experiment, tmp_path)
    expected = (out / "train.en").read_bytes()
    for path in mirror.folder.iterdir():
        path.unlink()
    run(experiment, tmp_path)
    assert (out / "train.en").read_bytes() == expected


@pytest.mark.parametrize("content", [b"one\n", EN.replace(b"two", b"six")], ids=["cut", "altered"])
def test_unpacked_text_that_is_not_what_it_was_is_unpacked_again(
    mirror: Mirror, tmp_path: Path, out: Path, content: bytes
):
    experiment = mirror.experiment()
    run(experiment, tmp_path)
    text = tmp_path / "archives" / "text" / "tiny" / "first.en"
    text.write_bytes(content)
    run(experiment, tmp_path)
    assert (out / "train.en").read_bytes().startswith(EN) and text.read_bytes() == EN


def test_unpacked_text_of_another_archive_is_unpacked_again(mirror: Mirror, tmp_path: Path, out: Path):
    run(mirror.experiment(), tmp_path)
    mirror.content["dev"][0]["files"][0][0] = mirror.add("new.en.gz", gzip.compress(EN[::-1] + b"\n"), None, "en")
    mirror.content["dev"][0]["lines"] = 4
    with pytest.raises(CorpusError, match=r"third\.de has 3 lines instead of 4"):
        run(mirror.experiment(), tmp_path)
    mirror.content["dev"][0]["files"][1][0] = mirror.add("new.de.gz", gzip.compress(DE + b"vier"), None, "de")
    assert run(mirror.experiment(), tmp_path)["third"] == 4
    assert (out / "dev.en").read_bytes() == EN[::-1] + b"\n"


def test_a_kill_between_a_text_and_its_record_does_no_harm(mirror: Mirror, tmp_path: Path, out: Path):
    folder = tmp_path / "archives" / "text" / "tiny"
    folder.mkdir(parents=True)
    (folder / "first.en").write_bytes(EN.replace(b"two", b"six"))
    (folder / "first.de.json").write_text("{")
    (folder / "first.de.partial").write_bytes(b"ei")
    run(mirror.experiment(), tmp_path)
    assert (out / "train.en").read_bytes().startswith(EN)


def test_wrong_line_counts_are_refused_every_time(mirror: Mirror, tmp_path: Path, out: Path):
    mirror.content["train"][0]["lines"] = 1_234
    for _ in range(2):
        with pytest.raises(CorpusError, match=r"first\.en has 3 lines instead of 1,234\. It comes from .*first\.tgz"):
            run(mirror.experiment(), tmp_path)


def test_a_language_that_a_part_lacks_is_refused(mirror: Mirror, tmp_path: Path, out: Path):
    del mirror.content["dev"][0]["files"][1]
    with pytest.raises(CorpusError, match="third has no text in de"):
        run(mirror.experiment(), tmp_path)


def test_an_archive_that_is_not_one_is_refused(mirror: Mirror, tmp_path: Path, out: Path):
    mirror.content["train"][0]["files"][0][0] = mirror.add("first.tgz", b"not at it", "inner/")
    with pytest.raises(CorpusError, match=r"first\.tgz: cannot read inner/en, inner/de"):
        run(mirror.experiment(), tmp_path)


def test_a_folder_that_cannot_be_written_is_one_clear_error(mirror: Mirror, tmp_path: Path, out: Path):
    (tmp_path / "archives").write_bytes(b"a file where a folder should be")
    with pytest.raises(DownloadError, match=r"archives.*(Not a directory|File exists).*WMTFLOW_DATA"):
        run(mirror.experiment(), tmp_path)


def test_a_mirror_that_is_not_there_is_an_error(mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ConfigError, match=r"download\.mirror: there is no folder /no/where"):
        load(DEMO, ["download.mirror=/no/where"])
    mirror.use = None
    monkeypatch.setenv("WMTFLOW_MIRROR", "/no/where")
    with pytest.raises(ConfigError, match="WMTFLOW_MIRROR: there is no folder /no/where"):
        run(mirror.experiment(), tmp_path)


def test_the_environment_names_a_mirror_too(mirror: Mirror, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch):
    mirror.use = None
    monkeypatch.setenv("WMTFLOW_MIRROR", str(mirror.folder))
    for i, path in enumerate(sorted(mirror.folder.iterdir())):
        path.rename(mirror.folder / f"copied-{i}")  # found by their hashes
    assert run(mirror.experiment(), tmp_path)["first"] == 3
