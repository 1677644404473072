"""download over the network: files of a corpus definition, and the test sets that sacreBLEU knows."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mirrors import EN, Mirror, tgz

from nmt.config import Experiment
from nmt.corpus import fetch
from nmt.corpus.download import download, sacrebleu_files, together
from nmt.errors import CorpusError, DownloadError, RequestError


def run(experiment: Experiment, tmp_path: Path) -> dict[str, Any]:
    return download(experiment, tmp_path / "archives", tmp_path / "out", lambda _: None)


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
