"""Files from the web, against a real server that does everything servers do: whole and right, or one error."""

from __future__ import annotations

import errno
import hashlib
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bad_server import BODY, HALF, Server, fetch, files, get, location, part, stored

from nmt.config import ROOT
from nmt.corpus import fetch as module
from nmt.corpus.fetch import TRIES, Fetcher, writing, wrong
from nmt.corpus.sources import Location
from nmt.errors import DownloadError

pytestmark = pytest.mark.usefixtures("waits")


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
