"""Files from the web, against a real server that does everything servers do: whole and right, or one error."""

from __future__ import annotations

import errno
import gzip
import hashlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nmt.config import ROOT
from nmt.corpus import fetch as module
from nmt.corpus.fetch import LONGEST_WAIT, TRIES, Fetcher, writing, wrong
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
        self.retry_after = ""
        self.released = threading.Event()  # ends what stalls

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
            if self.server.retry_after:
                self.send_header("Retry-After", self.server.retry_after)
            self.end_headers()
            self.wfile.write(b"oops")
            return
        body = {"wrong": BODY[::-1], "long": BODY + b"x", "short": BODY[:-1]}.get(manner, BODY)
        start = 0
        if wanted and not manner.startswith("no ranges"):
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if manner != "wrong range" else 0
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        sent = body[start:]
        if manner == "compressed" and "gzip" in self.headers.get("Accept-Encoding", ""):
            sent = gzip.compress(sent)
            self.send_header("Content-Encoding", "gzip")
        if manner == "endless":  # no length: it lasts until somebody hangs up
            self.end_headers()
            while not self.server.released.is_set():
                try:
                    self.wfile.write(bytes(100_000))
                except OSError:
                    self.server.released.set()
            return
        if manner != "cut unnoticed":
            self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        if share := manner.removeprefix("no ranges").strip():
            sent = sent[: len(BODY) * int(share) // 100] if manner.startswith("no ranges") else sent
        if manner == "drip":
            sent = sent[: len(BODY) // 10]
        self.wfile.write(sent[: HALF - start] if manner in ("cut", "cut unnoticed", "stall") else sent)
        if manner == "stall":
            self.wfile.flush()
            self.server.released.wait(5)


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
        server.released.set()
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nobody waits for servers; the waits that were asked for are kept."""
    found: list[float] = []

    def pause(_: Fetcher, seconds: float) -> None:
        found.append(seconds) if seconds >= 1 else time.sleep(0.01)

    monkeypatch.setattr(Fetcher, "pause", pause)
    return found


def location(url: str, body: bytes = BODY, kind: str = "sha256") -> Location:
    return Location(url=url, bytes=len(body), **{kind: hashlib.new(kind, body).hexdigest()})


def fetch(alternatives: list[Location], folder: Path, mirror: Path | None = None) -> tuple[Location, Path]:
    return Fetcher(folder, mirror, lambda _: None).fetch(alternatives)


def stored(folder: Path, wanted: Location) -> Path:
    return Fetcher(folder, None, print).place(wanted)


def part(folder: Path, wanted: Location) -> Path:
    return folder / f"{stored(folder, wanted).name}.part"


def files(folder: Path) -> list[Path]:
    """What is in a folder, but for the locks."""
    return [path for path in folder.iterdir() if path.name != ".locks"]


def get(server: Server, folder: Path, said: list[str] | None = None) -> bytes:
    """Fetch the one file; afterwards nothing else is in the folder, and every byte was counted once."""
    counted: list[int] = []
    fetcher = Fetcher(folder, None, (said if said is not None else []).append, counted.append)
    _, path = fetcher.fetch([location(server.url())])
    assert files(folder) == [path] and sum(counted) == len(BODY)
    return path.read_bytes()


@pytest.mark.parametrize("kind", ["sha256", "sha1"])
def test_a_file_that_is_served_well_arrives(server: Server, tmp_path: Path, kind: str):
    wanted = location(server.url(), kind=kind)
    found, path = fetch([wanted], tmp_path / "new")
    assert found == wanted and path.read_bytes() == BODY
    assert server.ranges == [None]


def test_a_file_that_is_there_is_not_fetched_again(server: Server, tmp_path: Path):
    get(server, tmp_path)
    get(server, tmp_path)
    assert len(server.ranges) == 1


def test_a_file_that_was_damaged_since_is_fetched_again(server: Server, tmp_path: Path):
    stored(tmp_path, location(server.url())).write_bytes(BODY[::-1])
    assert get(server, tmp_path) == BODY


def test_a_cut_transfer_goes_on_where_it_was_cut(server: Server, tmp_path: Path):
    server.manners = ["cut", "well"]
    said: list[str] = []
    assert get(server, tmp_path, said) == BODY
    assert server.ranges == [None, f"bytes={HALF}-"]
    assert [server.url() in line for line in said] == [True, True, False]  # begins, is cut, ends
    assert said[-1].startswith("download: text.tgz, 0.1 MB in ")


def test_a_cut_that_looks_like_an_end_is_a_cut(server: Server, tmp_path: Path):
    server.manners = ["cut unnoticed", "well"]
    assert get(server, tmp_path) == BODY
    assert server.ranges == [None, f"bytes={HALF}-"]


def test_a_poor_line_is_not_given_up_while_the_file_grows(server: Server, tmp_path: Path):
    server.manners = ["drip"]
    assert get(server, tmp_path) == BODY
    assert len(server.ranges) == 10 > TRIES


def test_a_stalled_transfer_is_cut_and_goes_on(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "STALLED", 0.2)
    server.manners = ["stall", "well"]
    said: list[str] = []
    assert get(server, tmp_path, said) == BODY
    assert server.ranges == [None, f"bytes={HALF}-"]
    assert any("no byte came for 0.2 s" in line for line in said)


def test_a_range_from_another_place_is_not_appended(server: Server, tmp_path: Path):
    server.manners = ["cut", "wrong range", "well"]
    assert get(server, tmp_path) == BODY
    assert server.ranges == [None, f"bytes={HALF}-", None]


def test_a_file_that_changed_between_two_tries_is_not_mixed(server: Server, tmp_path: Path):
    server.manners = ["cut", "wrong", "well"]
    assert get(server, tmp_path) == BODY
    assert server.ranges == [None, f"bytes={HALF}-", None]


def test_a_part_that_the_server_has_nothing_after_starts_over(server: Server, tmp_path: Path):
    server.manners = ["cut", "416", "well"]
    assert get(server, tmp_path) == BODY
    assert server.ranges == [None, f"bytes={HALF}-", None]


def test_a_whole_part_of_unknown_size_is_known_by_its_hash(server: Server, tmp_path: Path):
    wanted = Location(url=server.url(), md5=hashlib.md5(BODY).hexdigest())
    part(tmp_path, wanted).write_bytes(BODY)
    server.manners = ["416"]
    assert fetch([wanted], tmp_path)[1].read_bytes() == BODY


@pytest.mark.parametrize("known", [True, False])
def test_an_endless_answer_is_stopped(server: Server, tmp_path: Path, known: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "UNSIZED", 200_000)
    wanted = location(server.url()) if known else Location(url=server.url(), md5="0" * 32)
    server.manners = ["endless", "404"]
    said: list[str] = []
    with pytest.raises(DownloadError, match="404"):
        Fetcher(tmp_path, None, said.append).fetch([wanted])
    assert f"sent more than {51_200 if known else 200_000:,} bytes" in said[1] and files(tmp_path) == []


def test_a_server_that_ignores_ranges_starts_over(server: Server, tmp_path: Path):
    server.manners = ["cut", "no ranges"]
    assert get(server, tmp_path) == BODY
    assert server.ranges == [None, f"bytes={HALF}-"]


def test_a_server_that_ignores_ranges_and_always_cuts_is_given_up(server: Server, tmp_path: Path):
    server.manners = ["no ranges 60", "no ranges 30"] * 20
    with pytest.raises(DownloadError):
        get(server, tmp_path)
    assert len(server.ranges) < 10


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
    assert files(tmp_path) == [] and len(server.ranges) == 2  # once more, and no more
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


@pytest.mark.parametrize(("asked", "waited"), [("7", 7), ("9999", LONGEST_WAIT), ("soon", 2), ("date", 60)])
def test_a_busy_server_is_given_the_time_it_asks_for(
    server: Server, tmp_path: Path, waits: list[float], asked: str, waited: float
):
    tomorrow = format_datetime(datetime.now(timezone.utc) + timedelta(days=1), usegmt=True)
    server.retry_after = tomorrow if asked == "date" else asked
    server.manners = ["503", "well"]
    assert get(server, tmp_path) == BODY
    assert waits == [waited]


def test_a_busy_server_is_given_up_with_one_error_and_advice(server: Server, tmp_path: Path):
    server.manners = ["503"]
    with pytest.raises(DownloadError) as caught:
        get(server, tmp_path)
    for told in ("text.tgz", server.url(), "the server answered 503", "Run again", "WMTFLOW_MIRROR"):
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
        fetch([location(server.url())], tmp_path)


def test_alternatives_are_tried_in_order(server: Server, tmp_path: Path):
    first, second, third = (location(server.url(f"{name}.tgz")) for name in ("first", "second", "third"))
    server.manners = ["404", "well"]
    found, path = fetch([first, second, third], tmp_path)
    assert found == second and path.read_bytes() == BODY
    assert server.paths == ["/folder/first.tgz", "/folder/second.tgz"]


def test_when_every_alternative_fails_all_reasons_are_told(server: Server, tmp_path: Path):
    server.manners = ["404", "410"]
    with pytest.raises(DownloadError) as caught:
        fetch([location(server.url("a.tgz")), location(server.url("b.tgz"))], tmp_path)
    assert "a.tgz: the server answered 404" in str(caught.value)
    assert "b.tgz: the server answered 410" in str(caught.value)


@pytest.mark.parametrize("name", ["deep/text.tgz", "another name"])
def test_the_mirror_folder_goes_before_the_network(server: Server, tmp_path: Path, name: str):
    mirrored = tmp_path / "mirror" / name
    mirrored.parent.mkdir(parents=True)
    mirrored.write_bytes(BODY)
    (tmp_path / "mirror" / "of the same size").write_bytes(BODY[::-1])
    found, path = fetch(
        [location(server.url("other.tgz"), BODY + b"x"), location(server.url())], tmp_path / "new", tmp_path / "mirror"
    )
    assert found.name == "text.tgz" and path == mirrored and server.ranges == []


def test_only_files_of_the_right_size_are_hashed(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for i in range(9):
        (tmp_path / str(i)).write_bytes(BODY[i:])
    opened: list[str] = []
    plain = Path.open
    monkeypatch.setattr(Path, "open", lambda path, *mode: opened.append(path.name) or plain(path, *mode))
    assert Fetcher(tmp_path / "new", tmp_path, print).find(location(server.url())) == tmp_path / "0"
    assert opened == ["0"]


@pytest.mark.parametrize(("name", "found"), [("text.tgz", True), ("wmt99.text.tgz", True), ("large", False)])
def test_a_file_of_unknown_size_is_found_by_its_hash(
    tmp_path: Path, name: str, found: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "SMALL", len(BODY) - (name != "wmt99.text.tgz"))
    (tmp_path / name).write_bytes(BODY)
    wanted = Location(url="http://127.0.0.1:9/text.tgz", md5=hashlib.md5(BODY).hexdigest())
    assert Fetcher(tmp_path / "new", tmp_path, print).find(wanted) == (tmp_path / name if found else None)


def test_a_wrong_file_in_the_mirror_is_passed_over_and_left_alone(server: Server, tmp_path: Path):
    mirrored = tmp_path / "mirror" / "text.tgz"
    mirrored.parent.mkdir()
    mirrored.write_bytes(b"something else")
    _, path = fetch([location(server.url())], tmp_path / "new", tmp_path / "mirror")
    assert path.read_bytes() == BODY and mirrored.read_bytes() == b"something else"


def test_files_of_one_name_and_different_content_are_kept_apart(server: Server, tmp_path: Path):
    paths = {stored(tmp_path, location(server.url(), body)) for body in (BODY, BODY[::-1])}
    assert len(paths) == 2 and all(path.name.endswith("-text.tgz") for path in paths)


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


def test_a_killed_process_leaves_a_part_that_the_next_one_continues(server: Server, tmp_path: Path):
    server.manners = ["stall", "well"]
    wanted = location(server.url())
    code = (
        "from pathlib import Path; from nmt.corpus.fetch import Fetcher, Location;"
        f"Fetcher(Path({str(tmp_path)!r}), None, print).fetch([Location.model_validate({wanted.model_dump()})])"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, cwd=ROOT)
    deadline = time.monotonic() + 20
    while not (part(tmp_path, wanted).exists() and part(tmp_path, wanted).stat().st_size == HALF):
        assert child.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    child.kill()
    child.wait()
    server.released.set()
    assert get(server, tmp_path) == BODY  # its lock died with it
    assert server.ranges == [None, f"bytes={HALF}-"]


def test_two_at_the_same_file_wait_for_each_other(server: Server, tmp_path: Path):
    server.manners = ["cut", "well"]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: fetch([location(server.url())], tmp_path)[1], range(4)))
    assert len(set(found)) == 1 and found[0].read_bytes() == BODY
    assert server.ranges == [None, f"bytes={HALF}-"]


def test_a_full_disk_is_one_clear_error_and_loses_nothing(server: Server, tmp_path: Path):
    def full(count: int) -> None:
        if count:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(DownloadError, match=r"No space left on device\. Make room"), writing(tmp_path):
        Fetcher(tmp_path, None, print, full).fetch([location(server.url())])
    assert part(tmp_path, location(server.url())).stat().st_size > 0
    assert get(server, tmp_path) == BODY


def test_a_run_that_is_ending_stops_its_transfers_and_keeps_their_parts(server: Server, tmp_path: Path):
    fetcher = Fetcher(tmp_path, None, print)
    fetcher.stop.set()
    with pytest.raises(DownloadError, match="interrupted"):
        fetcher.fetch([location(server.url())])
    assert part(tmp_path, location(server.url())).stat().st_size > 0
    assert get(server, tmp_path) == BODY


def test_a_long_transfer_is_told_of_on_the_way(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "TOLD", 0.0)
    said: list[str] = []
    get(server, tmp_path, said)
    assert any(line.startswith("download: text.tgz: 0.") and line.endswith("MB of 0.1 MB") for line in said)


def test_a_terminal_shows_a_bar_instead_of_lines(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "watched", lambda: True)
    said: list[str] = []
    get(server, tmp_path, said)
    assert said == []
