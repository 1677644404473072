"""download: every kind of corpus ends as three parallel pairs of files, or as an error that says what to do."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from nmt import config
from nmt.config import Experiment, check
from nmt.corpus import sources
from nmt.corpus.download import download
from nmt.corpus.text import read_pairs
from nmt.errors import CorpusError, DownloadError

SPLITS = ("train", "dev", "test")
EN, DE = b"one\ntwo \xe2\x80\xa8 still two\nthree\n", b"eins\nzwei\ndrei\n"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


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


def tgz(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(f"inner/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def zipped(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"inner/{name}", content)
    return packed.getvalue()


class Mirror:
    """A mirror folder, and the corpus definition that fits it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "mirror"
        self.folder.mkdir()
        self.configs = folder / "config"
        (self.configs / "corpora").mkdir(parents=True)
        self.content: dict[str, Any] = {
            "train": [
                {"name": "first", "lines": 3, "files": [[self.add("first.tgz", tgz(en=EN, de=DE), "inner/")]]},
                {
                    "name": "second",
                    "lines": 2,
                    "files": [[self.add("second.zip", zipped(en=b"a\nb", de=b"c\nd\n"), "inner/")]],
                },
            ],
            "dev": [
                {
                    "name": "third",
                    "lines": 3,
                    "files": [
                        [self.add("third.en.gz", gzip.compress(EN), None, "en")],
                        [self.add("third.de.gz", gzip.compress(DE), None, "de")],
                    ],
                }
            ],
            "test": [
                {
                    "name": "fourth",
                    "lines": 3,
                    "files": [[self.add("fourth.en", EN, None, "en")], [self.add("fourth.de", DE, None, "de")]],
                }
            ],
        }

    def add(self, name: str, packed: bytes, prefix: str | None, *languages: str) -> dict[str, Any]:
        (self.folder / name).write_bytes(packed)
        return {
            "url": f"http://127.0.0.1:9/{name}",  # nobody answers there
            "bytes": len(packed),
            "sha256": hashlib.sha256(packed).hexdigest(),
            "members": {side: prefix and f"{prefix}{side}" for side in languages or ("en", "de")},
        }

    def experiment(self) -> Experiment:
        definition = self.configs / "corpora" / "tiny.yaml"
        definition.write_text(yaml.safe_dump(self.content), encoding="utf-8")
        return check({"download": {"corpus": "tiny", "mirror": str(self.folder)}}, "test")


@pytest.fixture
def mirror(tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    made = Mirror(tmp_path)
    monkeypatch.setattr(config, "CONFIGS", made.configs)
    monkeypatch.setattr(sources, "CONFIGS", made.configs)
    return made


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


def test_unpacked_text_that_was_cut_is_unpacked_again(mirror: Mirror, tmp_path: Path, out: Path):
    experiment = mirror.experiment()
    run(experiment, tmp_path)
    (tmp_path / "archives" / "text" / "first.en").write_bytes(b"one\n")
    run(experiment, tmp_path)
    assert (out / "train.en").read_bytes().startswith(EN)


def test_wrong_line_counts_are_refused(mirror: Mirror, tmp_path: Path, out: Path):
    mirror.content["train"][0]["lines"] = 1_234
    with pytest.raises(DownloadError, match=r"first\.(en|de) has 3 lines instead of 1,234\. Delete .* and run again"):
        run(mirror.experiment(), tmp_path)


@pytest.mark.parametrize("part", [0, 1], ids=["tgz", "zip"])
def test_a_missing_member_is_refused(mirror: Mirror, tmp_path: Path, out: Path, part: int):
    mirror.content["train"][part]["files"][0][0]["members"]["de"] = "inner/nothing"
    with pytest.raises(DownloadError, match="cannot read inner/nothing"):
        run(mirror.experiment(), tmp_path)


def test_a_language_that_a_part_lacks_is_refused(mirror: Mirror, tmp_path: Path, out: Path):
    del mirror.content["dev"][0]["files"][1]
    with pytest.raises(DownloadError, match="third has no text in de"):
        run(mirror.experiment(), tmp_path)


@pytest.mark.parametrize("name", ["first.tgz", "second.zip", "third.en.gz"])
def test_an_archive_that_is_not_one_is_refused(mirror: Mirror, tmp_path: Path, out: Path, name: str):
    split, part = ("dev", 0) if name.startswith("third") else ("train", int(name == "second.zip"))
    place = mirror.content[split][part]["files"][0][0]
    place |= {"bytes": 9, "sha256": hashlib.sha256(b"not at it").hexdigest()}
    (mirror.folder / name).write_bytes(b"not at it")
    with pytest.raises(DownloadError, match=r"cannot read .* Delete it and run again"):
        run(mirror.experiment(), tmp_path)


def test_an_archive_cut_inside_is_refused(mirror: Mirror, tmp_path: Path, out: Path):
    packed = gzip.compress(EN * 50)[:-9]
    (mirror.folder / "third.en.gz").write_bytes(packed)
    place = mirror.content["dev"][0]["files"][0][0]
    place |= {"bytes": len(packed), "sha256": hashlib.sha256(packed).hexdigest()}
    with pytest.raises(DownloadError, match=r"third\.en\.gz: cannot read its content"):
        run(mirror.experiment(), tmp_path)


@pytest.mark.parametrize("name", ["multi30k", "wmt16"])
def test_the_real_definitions_are_complete(name: str):
    corpus = sources.corpus(name)
    for part in (*corpus.train, *corpus.dev, *corpus.test):
        assert part.lines > 0
        assert part.sacrebleu or {side for file in part.files for side in file[0].members} == {"en", "de"}
        for place in (place for file in part.files for place in file):
            assert place.url.startswith(("http://", "https://")) and place.bytes > 0
            assert len(place.hash[1]) == {"sha256": 64, "sha1": 40}[place.hash[0]]


def test_the_reference_corpus_has_its_known_size():
    assert sum(part.lines for part in sources.corpus("wmt16").train) == 4_562_102
    assert sources.download_bytes("multi30k") == 568929 + 637044 + 21650 + 24681 + 21077 + 22890


def test_a_location_without_a_hash_is_refused():
    with pytest.raises(ValueError, match="a sha256 or sha1 is needed"):
        sources.Location(url="http://x/y", bytes=1, members={"en": None})
