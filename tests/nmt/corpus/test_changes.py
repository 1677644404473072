"""Whether sources have changed: real answers of a server on this machine, real files."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from nmt import config
from nmt.config import Experiment
from nmt.corpus import changes, sources


@pytest.fixture
def host():
    """A server that says what it is told to, counts what it is asked for, and sends no body."""

    class Host(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.asked.append((self.command, self.path))
            self.send_response(200 if "gone" not in self.path else 404)
            for name, value in self.headers_sent.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *words):
            pass

    Host.headers_sent = {"Content-Length": "100", "Last-Modified": "Mon, 02 Nov 2026 00:00:00 GMT"}
    Host.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Host)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Host, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def experiment(host, tmp_path, monkeypatch):
    """An experiment on a corpus of that host's."""
    _, url = host
    part = {"lines": 5, "files": []}
    for split, name in (("train", "train.gz"), ("dev", "dev.gz"), ("test", "gone.gz")):
        location = {"url": f"{url}/{name}", "bytes": 100, "md5": "0" * 32, "members": {"en": None}}
        part[split] = [{"name": split, "lines": 5, "files": [[location]]}]
    (tmp_path / "corpora").mkdir()
    text = yaml.safe_dump({split: part[split] for split in ("train", "dev", "test")})
    (tmp_path / "corpora/mine.yaml").write_text(text)
    for module in (config, sources):
        monkeypatch.setattr(module, "CONFIGS", tmp_path)
    return Experiment.model_validate({"download": {"corpus": "mine"}})


def test_size_and_date_tell_without_fetching(host, experiment):
    handler, url = host
    before = changes.look(experiment)
    assert before[f"{url}/train.gz"] == "100 bytes, Mon, 02 Nov 2026 00:00:00 GMT"
    assert before[f"{url}/gone.gz"] == changes.UNKNOWN
    assert {kind for kind, _ in handler.asked} == {"HEAD"}
    assert changes.differences(before, changes.look(experiment)) == []
    assert changes.unlike_definition(experiment, before) == []
    handler.headers_sent = handler.headers_sent | {"Content-Length": "130"}
    now = changes.look(experiment)
    told = changes.differences(before, now)
    assert len(told) == 2 and "was 100 bytes" in told[0] and "is 130 bytes" in told[0]
    assert "config/corpora says 100 bytes" in changes.unlike_definition(experiment, now)[0]
    assert changes.differences({}, now) == []  # the first look has nothing to compare with


def test_a_mirror_is_looked_in_first(host, experiment, tmp_path):
    handler, url = host
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror/train.gz").write_bytes(b"x" * 100)
    mirrored = experiment.download.model_copy(update={"mirror": tmp_path / "mirror"})
    found = changes.look(experiment.model_copy(update={"download": mirrored}))
    assert found[f"{url}/train.gz"].startswith("100 bytes of ") and found[f"{url}/train.gz"].endswith("in the mirror")
    assert ("HEAD", "/train.gz") not in handler.asked


def test_files_are_told_apart_by_content(tmp_path):
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("one\n")
    files = {"source": tmp_path / "a.en", "target": tmp_path / "a.de"}
    own = Experiment.model_validate({"download": {"corpus": "files", "train": files, "dev": files, "test": files}})
    before = changes.look(own)
    (tmp_path / "a.de").write_text("two\n")
    (line,) = changes.differences(before, changes.look(own))
    assert line.startswith(str(tmp_path / "a.de"))
    (tmp_path / "a.de").unlink()
    assert changes.differences(before, changes.look(own)) == []  # not there just now: that is for download to say
    assert changes.differences({"b.en": "sha256 0", **before}, before) == ["b.en: no longer used"]


def test_the_built_in_corpus_has_no_sources():
    assert changes.look(Experiment()) == {}
