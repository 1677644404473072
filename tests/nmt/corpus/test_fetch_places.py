"""Where a file may be had: servers that are busy or gone, alternatives, a mirror folder."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path

import pytest
from bad_server import BODY, Handler, Server, fetch, get, location, stored

from nmt.corpus import fetch as module
from nmt.corpus.fetch import LONGEST_WAIT, TRIES, Fetcher
from nmt.corpus.sources import Location
from nmt.errors import DownloadError

pytestmark = pytest.mark.usefixtures("waits")


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
