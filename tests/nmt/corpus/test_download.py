"""download: every kind of corpus ends as three parallel pairs of files, or as an error that says what to do."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from nmt import config
from nmt.config import Experiment
from nmt.corpus import fetch, sources
from nmt.corpus.download import download, sacrebleu_files, together
from nmt.corpus.text import read_pairs
from nmt.errors import ConfigError, CorpusError, DownloadError, RequestError
from nmt.settings_file import check, load

SPLITS = ("train", "dev", "test")
DEMO = config.CONFIGS / "demo.yaml"
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
        self.address = "http://127.0.0.1:9"  # nobody answers there
        self.use: Path | None = self.folder
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
            "url": f"{self.address}/{name}",
            "bytes": len(packed),
            "sha256": hashlib.sha256(packed).hexdigest(),
            "members": {side: prefix and f"{prefix}{side}" for side in languages or ("en", "de")},
        }

    def experiment(self) -> Experiment:
        definition = self.configs / "corpora" / "tiny.yaml"
        definition.write_text(yaml.safe_dump(self.content), encoding="utf-8")
        return check({"download": {"corpus": "tiny", "mirror": self.use and str(self.use)}}, "test")


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


# --- a corpus of config/corpora, over the network


class Web(ThreadingHTTPServer):
    """Serves a folder; counts requests, and the most that were answered at the same time."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        self.paths: list[str] = []
        self.now = self.most = 0
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), partial(Folder, directory=str(folder)))


class Folder(SimpleHTTPRequestHandler):
    server: Web

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.paths.append(self.path)
            self.server.now += 1
            self.server.most = max(self.server.most, self.server.now)
        time.sleep(0.1)
        super().do_GET()
        with self.server.lock:
            self.server.now -= 1


@pytest.fixture
def web(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """The mirror's files by HTTP, and no mirror folder."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(fetch, "TRIES", 1)
    mirror.use = None
    with Web(mirror.folder) as server:
        parts = (part for split in mirror.content.values() for part in split)
        for place in (place for part in parts for file in part["files"] for place in file):
            place["url"] = place["url"].replace(mirror.address, f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_several_files_come_at_once_and_are_joined_in_order(mirror: Mirror, web: Web, tmp_path: Path, out: Path):
    said: list[str] = []
    counts = download(mirror.experiment(), tmp_path / "archives", out, said.append)
    assert list(counts) == ["first", "second", "third", "fourth"]
    assert (out / "train.en").read_bytes() == EN + b"a\nb\n"
    assert len(web.paths) == 6 and 2 <= web.most <= 4
    assert sum("from http" in line for line in said) == 6 == sum(line.endswith(" s") for line in said)


def test_all_errors_are_told_in_order_and_the_next_run_fetches_only_what_is_missing(
    mirror: Mirror, web: Web, tmp_path: Path, out: Path
):
    away = {name: (mirror.folder / name).rename(tmp_path / name) for name in ("second.zip", "fourth.de")}
    with pytest.raises(DownloadError) as caught:
        run(mirror.experiment(), tmp_path)
    told = str(caught.value).splitlines()
    assert told[0] == "2 of 6 files failed:" and all(name in line for name, line in zip(away, told[1:], strict=True))
    for name, path in away.items():
        path.rename(mirror.folder / name)
    web.paths.clear()
    assert run(mirror.experiment(), tmp_path)["fourth"] == 3
    assert sorted(web.paths) == ["/fourth.de", "/second.zip"]


def test_an_unforeseen_error_is_not_hidden_among_others():
    def fail(error: Exception) -> Any:
        raise error

    jobs = [partial(fail, CorpusError("a")), partial(fail, ZeroDivisionError("b"))]
    with pytest.raises(ZeroDivisionError):
        together(jobs, 2, threading.Event())
    with pytest.raises(CorpusError, match=r"2 of 2 files failed:\n  a\n  c"):
        together([jobs[0], partial(fail, CorpusError("c"))], 2, threading.Event())


# --- sacreBLEU's test sets


@pytest.fixture
def test_set(tmp_path: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A test set `tiny/full` that sacreBLEU knows; returns the archive, which is in the mirror folder."""
    from sacrebleu import dataset as known
    from sacrebleu.dataset import base
    from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

    sgm = '<srcset>\n<doc docid="d">\n<seg id="1"> a  &amp; b </seg>\n<seg id="2">c</seg>\n</doc>\n</srcset>\n'
    packed = tgz(**{"src.en.sgm": sgm.encode(), "ref.de.sgm": sgm.upper().replace("SEG", "seg").encode(), "more": b""})
    archive = mirror.folder / "wmt" / "test-full.tgz"
    archive.parent.mkdir()
    archive.write_bytes(packed)
    monkeypatch.setattr(base, "SACREBLEU_DIR", str(tmp_path / "sacrebleu"))
    made = FakeSGMLDataset(
        "tiny/full",
        data=["http://127.0.0.1:9/test-full.tgz"],
        md5=[hashlib.md5(packed).hexdigest()],
        langpairs={"en-de": ["inner/src.en.sgm", "inner/ref.de.sgm"]},
    )
    monkeypatch.setitem(known.DATASETS, "tiny/full", made)
    monkeypatch.setattr(fetch, "TRIES", 1)
    mirror.content["test"] = [{"name": "set", "lines": 2, "sacrebleu": "tiny/full"}]
    return archive


def test_a_test_set_of_sacrebleu_comes_from_the_mirror_into_its_own_cache(
    mirror: Mirror, test_set: Path, tmp_path: Path, out: Path, capfd: pytest.CaptureFixture[str]
):
    assert run(mirror.experiment(), tmp_path)["set"] == 2
    assert (out / "test.en").read_text() == "a &amp; b\nc\n"  # as sacreBLEU has it, entities and all
    assert (out / "test.de").read_text() == "A &AMP; B\nC\n"
    cache = tmp_path / "sacrebleu" / "tiny" / "full"
    assert (cache / "raw" / "tiny_full.test-full.tgz").read_bytes() == test_set.read_bytes()
    assert not (cache / "raw" / "inner" / "more").exists()
    assert tuple(capfd.readouterr()) == ("", "")


@pytest.mark.parametrize("name", ["tiny_full.en-de.ref", "raw/inner/ref.de.sgm", "raw/tiny_full.test-full.tgz"])
def test_what_a_kill_left_of_a_test_set_is_made_again(
    mirror: Mirror, test_set: Path, tmp_path: Path, out: Path, name: str
):
    damaged = tmp_path / "sacrebleu" / "tiny" / "full" / name
    damaged.parent.mkdir(parents=True)
    for content in (b"", b"half"):
        damaged.write_bytes(content)
        run(mirror.experiment(), tmp_path)
        assert (out / "test.de").read_text() == "A &AMP; B\nC\n"


def test_a_test_set_that_sacrebleu_made_needs_no_archive(mirror: Mirror, test_set: Path, tmp_path: Path, out: Path):
    run(mirror.experiment(), tmp_path)
    test_set.unlink()
    (tmp_path / "sacrebleu" / "tiny" / "full" / "raw" / "tiny_full.test-full.tgz").unlink()
    assert run(mirror.experiment(), tmp_path)["set"] == 2
    os.truncate(tmp_path / "sacrebleu" / "tiny" / "full" / "tiny_full.en-de.ref", 3)
    with pytest.raises(DownloadError, match=r"test-full\.tgz could not be had"):
        run(mirror.experiment(), tmp_path)


def test_a_test_set_of_the_wrong_size_is_refused(mirror: Mirror, test_set: Path, tmp_path: Path, out: Path):
    mirror.content["test"][0]["lines"] = 3
    with pytest.raises(CorpusError, match=r"tiny/full: tiny_full\.en-de\.src has 2 lines and .* instead of 3"):
        run(mirror.experiment(), tmp_path)


def test_a_test_set_is_had_by_its_name_alone(test_set: Path, data: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WMTFLOW_MIRROR", str(test_set.parent))
    assert sacrebleu_files("tiny/full", ("en", "de"))["en"].read_text() == "a &amp; b\nc\n"
    with pytest.raises(RequestError, match="no test set 'tiny/ful'; did you mean 'tiny/full'"):
        sacrebleu_files("tiny/ful", ("en", "de"))
    with pytest.raises(RequestError, match="has no de-en; valid: en-de"):
        sacrebleu_files("tiny/full", ("de", "en"))


# --- the definitions


@pytest.mark.parametrize("name", ["multi30k", "wmt16"])
def test_the_real_definitions_are_complete(name: str):
    for part in sources.corpus(name).parts:
        assert part.sacrebleu or {side for file in part.files for side in file[0].members} == {"en", "de"}
        for place in (place for file in part.files for place in file):
            assert place.url.startswith(("http://", "https://")) and place.bytes and place.hash[0] != "md5"


def test_the_reference_corpus_has_its_known_size():
    assert sum(part.lines for part in sources.corpus("wmt16").train) == 4_562_102
    assert sources.download_bytes("multi30k") == 568929 + 637044 + 21650 + 24681 + 21077 + 22890


def test_sacrebleu_knows_the_test_sets_by_the_reference_hashes():
    from sacrebleu.dataset import DATASETS

    corpus = sources.corpus("wmt16")
    known = {part.sacrebleu: (part.lines, DATASETS[part.sacrebleu].md5) for part in (*corpus.dev, *corpus.test)}
    assert known == {
        "wmt13": (3_000, ["48eca5d02f637af44e85186847141f67"]),
        "wmt14/full": (3_003, ["a8cd784e006feb32ac6f3d9ec7eb389a"]),
    }


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"sha256": None}, "a sha256, sha1 or md5 is needed"),
        ({"sha256": "0123"}, "sha256"),
        ({"bytes": 0}, "greater than 0"),
        ({"members": {"en": None, "de": "b"}}, "the text is a member"),
        ({"url": "http://x/y.txt"}, "null of any other file"),
        ({"members": {"en": "a", "de": "a"}}, "a member of its own"),
        ({"colour": 1}, "colour"),
    ],
)
def test_a_definition_that_cannot_be_checked_is_refused(mirror: Mirror, change: dict[str, Any], told: str):
    mirror.content["train"][0]["files"][0][0].update(change)
    mirror.experiment()
    with pytest.raises(ConfigError, match=r"tiny\.yaml") as caught:
        sources.corpus("tiny")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"sacrebleu": "wmt13"}, "either files or sacrebleu"),
        ({"files": []}, "either files or sacrebleu"),
        ({"name": "../up"}, "pattern"),
        ({"name": "second"}, "two parts have the same name"),
        ({"lines": 0}, "greater than 0"),
    ],
)
def test_a_part_that_makes_no_sense_is_refused(mirror: Mirror, change: dict[str, Any], told: str):
    mirror.content["train"][0].update(change)
    mirror.experiment()
    with pytest.raises(ConfigError) as caught:
        sources.corpus("tiny")
    assert told in str(caught.value)
