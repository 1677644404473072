"""Files from the web, against a real server that does everything servers do: whole and right, or one error."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from nmt.corpus import fetch as module
from nmt.corpus.fetch import TRIES, download, fetch, stored_name, wrong
from nmt.corpus.sources import Location
from nmt.errors import DownloadError

BODY = bytes(range(256)) * 200  # 51,200 bytes
HALF = len(BODY) // 2


class Server(ThreadingHTTPServer):
    """Answers each request as the next word of `manners` says; the last word stays."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.manners = ["well"]
        self.ranges: list[str | None] = []  # the Range header of each request
        self.paths: list[str] = []

    def url(self, name: str = "text.tgz") -> str:
        return f"http://127.0.0.1:{self.server_port}/folder/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.ranges.append(wanted)
        self.server.paths.append(self.path)
        manners = self.server.manners
        manner = manners.pop(0) if len(manners) > 1 else manners[0]
        if manner.isdigit():
            self.send_response(int(manner))
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"oops")
            return
        body = {"wrong": BODY[::-1], "long": BODY + b"x", "short": BODY[:-1]}.get(manner, BODY)
        start = 0
        if wanted and manner != "no ranges":
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        sent = body[start:]
        if manner == "compressed" and "gzip" in self.headers.get("Accept-Encoding", ""):
            sent = gzip.compress(sent)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent[: HALF - start] if manner == "cut" else sent)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.delenv("WMTFLOW_MIRROR", raising=False)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nothing sleeps; the waits that were asked for are kept."""
    found: list[float] = []
    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=found.append))
    return found


def location(url: str, body: bytes = BODY, kind: str = "sha256") -> Location:
    return Location(url=url, bytes=len(body), members={"en": "a"}, **{kind: hashlib.new(kind, body).hexdigest()})


def part(folder: Path, wanted: Location) -> Path:
    return folder / f"{stored_name(wanted)}.part"


def get(server: Server, folder: Path, said: list[str] | None = None) -> bytes:
    """Fetch the one file; afterwards nothing else is in the folder."""
    _, path = fetch([location(server.url())], folder, None, (said if said is not None else []).append)
    assert list(folder.iterdir()) == [path]
    return path.read_bytes()


@pytest.mark.parametrize("kind", ["sha256", "sha1"])
def test_a_file_that_is_served_well_arrives(server: Server, tmp_path: Path, kind: str):
    wanted = location(server.url(), kind=kind)
    found, path = fetch([wanted], tmp_path / "new", None, print)
    assert found == wanted and path.read_bytes() == BODY
    assert server.ranges == [None]


def test_a_file_that_is_there_is_not_fetched_again(server: Server, tmp_path: Path):
    get(server, tmp_path)
    get(server, tmp_path)
    assert len(server.ranges) == 1


def test_a_file_that_was_damaged_since_is_fetched_again(server: Server, tmp_path: Path):
    (tmp_path / stored_name(location(server.url()))).write_bytes(BODY[::-1])
    assert get(server, tmp_path) == BODY


def test_a_cut_transfer_goes_on_where_it_was_cut(server: Server, tmp_path: Path):
    server.manners = ["cut", "well"]
    said: list[str] = []
    assert get(server, tmp_path, said) == BODY
    assert server.ranges == [None, f"bytes={HALF}-"]
    assert "try 1 of 4" in said[0]


def test_a_server_that_ignores_ranges_starts_over(server: Server, tmp_path: Path):
    server.manners = ["cut", "no ranges"]
    assert get(server, tmp_path) == BODY
    assert server.ranges == [None, f"bytes={HALF}-"]


def test_a_second_call_finishes_what_the_first_began(server: Server, tmp_path: Path):
    server.manners = ["cut", "503"]
    with pytest.raises(DownloadError):
        get(server, tmp_path)
    assert part(tmp_path, location(server.url())).read_bytes() == BODY[:HALF]
    server.manners = ["well"]
    server.ranges.clear()
    assert get(server, tmp_path) == BODY
    assert server.ranges == [f"bytes={HALF}-"]


def test_a_part_that_belongs_to_something_else_is_given_up(server: Server, tmp_path: Path):
    part(tmp_path, location(server.url())).write_bytes(b"y" * HALF)
    assert get(server, tmp_path) == BODY
    assert server.ranges == [f"bytes={HALF}-", None]


@pytest.mark.parametrize("size", [len(BODY), len(BODY) + 5])
def test_a_part_that_is_full_but_wrong_is_given_up(server: Server, tmp_path: Path, size: int):
    part(tmp_path, location(server.url())).write_bytes(b"y" * size)
    assert get(server, tmp_path) == BODY
    assert server.ranges == [None]


def test_a_part_that_is_whole_needs_no_server(tmp_path: Path, server: Server):
    part(tmp_path, location(server.url())).write_bytes(BODY)
    assert get(server, tmp_path) == BODY
    assert server.ranges == []


@pytest.mark.parametrize("manner", ["wrong", "long"])
def test_wrong_bytes_are_refused_and_right_ones_taken_later(server: Server, tmp_path: Path, manner: str):
    server.manners = [manner]
    with pytest.raises(DownloadError, match="instead of") as caught:
        get(server, tmp_path)
    assert server.url() in str(caught.value)
    assert list(tmp_path.iterdir()) == [] and len(server.ranges) == TRIES
    server.manners = ["well"]
    assert get(server, tmp_path) == BODY


def test_wrong_bytes_once_are_forgiven(server: Server, tmp_path: Path):
    server.manners = ["wrong", "well"]
    assert get(server, tmp_path) == BODY


def test_a_file_that_is_too_short_is_refused(server: Server, tmp_path: Path):
    server.manners = ["short", "no ranges", "well"]
    assert get(server, tmp_path) == BODY


def test_compression_on_the_way_does_no_harm(server: Server, tmp_path: Path):
    server.manners = ["compressed"]
    assert get(server, tmp_path) == BODY


def test_a_busy_server_is_asked_again_after_longer_and_longer_waits(server: Server, tmp_path: Path, waits: list[float]):
    server.manners = ["503", "503", "503", "well"]
    assert get(server, tmp_path) == BODY
    assert len(waits) == 3 and waits == sorted(waits) and waits[0] < waits[2]


def test_a_busy_server_is_given_up_with_one_error_and_advice(server: Server, tmp_path: Path):
    server.manners = ["503"]
    with pytest.raises(DownloadError) as caught:
        get(server, tmp_path)
    for told in ("text.tgz", server.url(), "the server answered 503", "Run again", "download.mirror"):
        assert told in str(caught.value)
    assert len(server.ranges) == TRIES


@pytest.mark.parametrize("status", ["404", "403", "410"])
def test_a_file_that_is_not_there_is_not_asked_for_again(server: Server, tmp_path: Path, status: str):
    server.manners = [status]
    with pytest.raises(DownloadError, match=f"the server answered {status}"):
        get(server, tmp_path)
    assert len(server.ranges) == 1
    server.manners = ["well"]
    assert get(server, tmp_path) == BODY


def test_a_host_that_does_not_answer_is_a_download_error(server: Server, tmp_path: Path):
    server.shutdown()
    server.server_close()
    with pytest.raises(DownloadError, match=r"text\.tgz could not be had"):
        fetch([location(server.url())], tmp_path, None, print)


def test_alternatives_are_tried_in_order(server: Server, tmp_path: Path):
    first, second, third = (location(server.url(f"{name}.tgz")) for name in ("first", "second", "third"))
    server.manners = ["404", "well"]
    found, path = fetch([first, second, third], tmp_path, None, print)
    assert found == second and path.read_bytes() == BODY
    assert server.paths == ["/folder/first.tgz", "/folder/second.tgz"]


def test_when_every_alternative_fails_all_reasons_are_told(server: Server, tmp_path: Path):
    server.manners = ["404", "410"]
    with pytest.raises(DownloadError) as caught:
        fetch([location(server.url("a.tgz")), location(server.url("b.tgz"))], tmp_path, None, print)
    assert "a.tgz: the server answered 404" in str(caught.value)
    assert "b.tgz: the server answered 410" in str(caught.value)


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_the_mirror_folder_goes_before_the_network(
    server: Server, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
):
    mirrored = tmp_path / "mirror" / "deep" / "text.tgz"
    mirrored.parent.mkdir(parents=True)
    mirrored.write_bytes(BODY)
    if how == "environment":
        monkeypatch.setenv("WMTFLOW_MIRROR", str(tmp_path / "mirror"))
    mirror = tmp_path / "mirror" if how == "argument" else None
    _, path = fetch([location(server.url("other.tgz")), location(server.url())], tmp_path / "new", mirror, print)
    assert path == mirrored and server.ranges == []


def test_a_wrong_file_in_the_mirror_is_passed_over_and_left_alone(server: Server, tmp_path: Path):
    mirrored = tmp_path / "mirror" / "text.tgz"
    mirrored.parent.mkdir()
    mirrored.write_bytes(b"something else")
    _, path = fetch([location(server.url())], tmp_path / "new", tmp_path / "mirror", print)
    assert path.read_bytes() == BODY and mirrored.read_bytes() == b"something else"


def test_a_mirror_that_is_not_there_does_no_harm(server: Server, tmp_path: Path):
    _, path = fetch([location(server.url())], tmp_path / "new", tmp_path / "nowhere", print)
    assert path.read_bytes() == BODY


def test_files_of_one_name_and_different_content_are_kept_apart(server: Server):
    assert stored_name(location(server.url())) != stored_name(location(server.url(), BODY[::-1]))
    assert stored_name(location(server.url())).endswith("-text.tgz")


def test_a_redirect_is_followed(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def redirect(handler: Handler) -> None:
        if handler.path.endswith("text.tgz"):
            handler.send_response(302)
            handler.send_header("Location", server.url("elsewhere"))
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        else:
            plain(handler)

    plain = Handler.do_GET
    monkeypatch.setattr(Handler, "do_GET", redirect)
    assert get(server, tmp_path) == BODY


@pytest.mark.parametrize(("content", "told"), [(BODY[:5], "5 bytes instead of 51,200"), (BODY[::-1], "its sha256 is")])
def test_what_is_wrong_is_told(content: bytes, told: str, tmp_path: Path):
    (tmp_path / "file").write_bytes(content)
    assert told in (wrong(tmp_path / "file", location("http://x/file")) or "")


def test_a_single_address_can_be_downloaded(server: Server, tmp_path: Path):
    assert download(location(server.url()), tmp_path, print).read_bytes() == BODY
