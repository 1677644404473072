"""Files from the web, whole or not at all.

A file is looked for on this machine first: among those fetched before, then in the mirror folder by name and by
hash. Only then is each of its addresses asked. What has arrived of a cut transfer is kept beside it (`.part`)
and continued by range, in this run or the next. Nothing gets its final name before its size and hash are right.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import cached_property
from pathlib import Path
from threading import Event

import httpx

from nmt.corpus.sources import Location
from nmt.errors import DownloadError
from nmt.progress import Advance, nothing, watched

TRIES = 4  # at each address, one after the other without progress
STALLED = 30.0  # seconds without a byte
LONGEST_WAIT = 60.0  # seconds, whatever a busy server asks for
TOLD = 30.0  # seconds between two lines about one file, where nobody watches a bar
CHUNK = 1024 * 1024
UNSIZED = 1024**3  # most bytes of a file whose size is not known beforehand
SMALL = 100 * 1024**2  # a file of unknown size is looked for under other names among files up to this size
Say = Callable[[str], None]


@dataclass(frozen=True)
class Fetcher:
    """Where files come from and go to; `advance` counts bytes, `stop` ends every transfer at its next chunk."""

    folder: Path
    mirror: Path | None
    say: Say
    advance: Advance = nothing
    stop: Event = field(default_factory=Event)

    def fetch(self, alternatives: list[Location]) -> tuple[Location, Path]:
        """The first of `alternatives` that can be had whole, and where it now is."""
        for location in alternatives:
            if path := self.find(location):
                self.tell(f"{location.name} is at {path}")
                self.advance(location.bytes or 0)
                return location, path
        failures = []
        for location in alternatives:
            try:
                return location, self.download(location)
            except DownloadError as error:
                failures.append(str(error))
        advice = "Run again to go on, or put the file into a folder and set WMTFLOW_MIRROR=FOLDER."
        raise DownloadError(f"{alternatives[0].name} could not be had. " + " ".join(failures) + " " + advice)

    def find(self, location: Location) -> Path | None:
        """The file where it needs no network; in the mirror, a file of the right name is looked at first."""
        places = sorted(self.mirrored, key=lambda path: path.name != location.name)
        if location.bytes is None:  # nothing but its hash tells it from others: do not hash gigabytes for it
            places = [path for path in places if path.name == location.name or size(path) <= SMALL]
        return next((path for path in (self.place(location), *places) if wrong(path, location) is None), None)

    @cached_property
    def mirrored(self) -> list[Path]:
        """Every file below the mirror folder."""
        return sorted(path for path in self.mirror.rglob("*") if path.is_file()) if self.mirror else []

    def place(self, location: Location) -> Path:
        """Where a file is kept: its hash's first digits keep files of the same name apart."""
        return self.folder / f"{location.hash[1][:12]}-{location.name}"

    def download(self, location: Location) -> Path:
        """Fetch one address: after a cut go on, after wrong bytes start over once, after silence wait and ask again."""
        final = self.place(location)
        part = final.with_name(final.name + ".part")
        failed = spoilt = best = 0
        reason, asked = "", 0.0
        with self.alone(final.name):
            if wrong(final, location) is None:  # another run fetched it while this one waited
                self.advance(location.bytes or 0)
                return final
            began = time.monotonic()
            self.tell(f"{location.name}{sized(location.bytes)} from {location.url}")
            self.advance(size(part))
            while failed < TRIES and spoilt < 2:
                if failed:
                    self.pause(max(2.0**failed, asked))
                best = max(best, size(part))
                try:
                    reason = self.transfer(location, part) or wrong(part, location) or ""
                except httpx.HTTPError as error:
                    reason, asked, final_word = explain(error)
                    # A poor line may cut a large file many times; as long as it grows, nothing is given up.
                    failed = 1 if size(part) - best > (location.bytes or UNSIZED) / 100 else failed + 1
                    failed = TRIES if final_word else failed
                else:
                    if not reason:
                        part.replace(final)
                        self.tell(f"{location.name}{sized(size(final))} in {time.monotonic() - began:,.1f} s")
                        return final
                    self.drop(part)  # not what it should be: continuing it cannot help
                    spoilt += 1
                self.say(f"download: {location.url}: {reason}")
            self.advance(-size(part))
        raise DownloadError(f"{location.url}: {reason}.")

    def transfer(self, location: Location, part: Path) -> str | None:
        """Bring `part` up to its full size from where it ends; returns what is wrong with what the server has."""
        have, most = size(part), location.bytes or UNSIZED
        if have >= most:
            return None
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with (
            httpx.Client(follow_redirects=True, timeout=httpx.Timeout(STALLED)) as client,
            client.stream("GET", location.url, headers=headers) as answer,
        ):
            if have and answer.status_code == 416:  # there is nothing after our end: then it must be whole
                return None
            answer.raise_for_status()
            resumed = answer.status_code == 206
            start, total = offered(answer)
            if start != (have if resumed else 0):
                return f"the server sent bytes from {start} on instead of {have:,}"
            if location.bytes is not None and total not in (None, location.bytes):
                return f"the server has {total:,} bytes instead of {location.bytes:,}"
            if not resumed:  # it does not know ranges and starts over, and so do we
                self.drop(part)
            have, told = size(part), time.monotonic()
            with part.open("ab") as file:
                for chunk in answer.iter_raw():
                    if have + len(chunk) > most:
                        return f"the server sent more than {most:,} bytes"
                    file.write(chunk)
                    have += len(chunk)
                    self.advance(len(chunk))
                    self.check_stop()
                    if time.monotonic() - told > TOLD:
                        told = time.monotonic()
                        self.tell(f"{location.name}: {sized(have, '')}{sized(location.bytes, ' of ')}")
        if location.bytes is not None and have < location.bytes:
            raise httpx.RemoteProtocolError(f"the transfer ended after {have:,} of {location.bytes:,} bytes")
        return None

    def drop(self, part: Path) -> None:
        """Forget what has arrived."""
        self.advance(-size(part))
        part.unlink(missing_ok=True)

    @contextmanager
    def alone(self, name: str, folder: Path | None = None) -> Iterator[None]:
        """Hold the lock on one file of `folder`; the kernel frees it when its holder dies."""
        locks = (folder or self.folder) / ".locks"
        locks.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(locks / name.replace("/", "_"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            waiting = False
            while not locked(descriptor):
                if not waiting:
                    self.say(f"download: another run is at {name}; waiting for it")
                waiting = True
                self.pause(0.1)
            yield
        finally:
            os.close(descriptor)

    def tell(self, message: str) -> None:
        """Say how it goes, where nobody watches the bar."""
        if not watched():
            self.say(f"download: {message}")

    def pause(self, seconds: float) -> None:
        """Wait, unless the run is ending."""
        self.stop.wait(seconds)
        self.check_stop()

    def check_stop(self) -> None:
        """End this transfer if the run is ending."""
        if self.stop.is_set():
            raise DownloadError("interrupted")


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn a full disk, or a folder that cannot be read or written, into one clear error."""
    try:
        yield
    except OSError as error:
        raise DownloadError(
            f"{error.filename or folder}: {error.strerror or error}. Make room or give permission, or set WMTFLOW_DATA "
            "to another folder, and run again: what has arrived is kept."
        ) from error


def locked(descriptor: int) -> bool:
    """Try to get the lock on an open file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def explain(error: httpx.HTTPError) -> tuple[str, float, bool]:
    """An error of the network: in words, the seconds the server asks to wait, and whether asking again is useless."""
    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        useless = 400 <= code < 500 and code not in (408, 425, 429)
        return f"the server answered {code}", retry_after(error.response), useless
    if isinstance(error, httpx.TimeoutException):
        return f"no byte came for {STALLED:g} s", 0.0, False
    return str(error) or type(error).__name__, 0.0, isinstance(error, httpx.UnsupportedProtocol)


def retry_after(answer: httpx.Response) -> float:
    """The seconds a busy server asks to wait, within reason."""
    value = answer.headers.get("Retry-After", "")
    if value.isdigit():
        return min(float(value), LONGEST_WAIT)
    try:
        seconds = (parsedate_to_datetime(value) - datetime.now(timezone.utc)).total_seconds()
    except (ValueError, TypeError):  # no date, or one without a time zone
        return 0.0
    return min(max(seconds, 0.0), LONGEST_WAIT)


def offered(answer: httpx.Response) -> tuple[int | None, int | None]:
    """Where an answer begins in the file, and how long the whole file is, as far as the server says."""
    if answer.status_code == 206:
        found = re.match(r"bytes (\d+)-\d+/(\d+|\*)$", answer.headers.get("Content-Range", ""))
        return (int(found[1]), int(found[2]) if found[2] != "*" else None) if found else (None, None)
    length = answer.headers.get("Content-Length", "")
    return 0, int(length) if length.isdigit() else None


def sized(count: int | None, before: str = ", ") -> str:
    """A size in megabytes, with what leads to it; nothing where it is not known."""
    return f"{before}{count / 1e6:,.1f} MB" if count is not None else ""


def size(path: Path) -> int:
    """The bytes of a file; none if there is no file."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def wrong(path: Path, location: Location) -> str | None:
    """What is wrong with a file, or None. Only a file of the right size is read."""
    kind, expected = location.hash
    digest = hashlib.new(kind)
    try:
        if location.bytes is not None and path.stat().st_size != location.bytes:
            return f"{path.stat().st_size:,} bytes instead of {location.bytes:,}"
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError as error:
        return str(error)
    return None if digest.hexdigest() == expected else f"its {kind} is {digest.hexdigest()} instead of {expected}"
