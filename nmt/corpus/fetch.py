"""Files from the web, whole or not at all.

A file is looked for in the mirror folder first, then at each of its addresses. What has arrived of a cut
transfer is kept beside it (`.part`) and continued by range, in this run or the next. Nothing gets its
final name before its size and hash are right.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from nmt.corpus.sources import Location
from nmt.errors import DownloadError
from nmt.progress import progress

TRIES = 4  # at each address
STALLED = 60.0  # seconds without a byte
CHUNK = 1024 * 1024
Say = Callable[[str], None]


def fetch(alternatives: list[Location], folder: Path, mirror: Path | None, say: Say) -> tuple[Location, Path]:
    """The first of `alternatives` that can be had whole, and where it now is."""
    mirror = mirror or (Path(os.environ["WMTFLOW_MIRROR"]) if os.environ.get("WMTFLOW_MIRROR") else None)
    for location in alternatives:
        for place in (folder / stored_name(location), *found_in(mirror, location)):
            if place.is_file() and wrong(place, location) is None:
                return location, place
    failures = []
    for location in alternatives:
        try:
            return location, download(location, folder, say)
        except DownloadError as error:
            failures.append(str(error))
            say(f"download: {error}")
    advice = "Run again to go on, or put the file into a folder and pass --set download.mirror=FOLDER."
    raise DownloadError(f"{alternatives[0].name} could not be had. " + " ".join(failures) + " " + advice)


def found_in(mirror: Path | None, location: Location) -> list[Path]:
    """Files below the mirror folder that have the wanted name."""
    return sorted(mirror.rglob(location.name)) if mirror else []


def download(location: Location, folder: Path, say: Say, wait: float = 1.0) -> Path:
    """Fetch one address, trying again after cut, stalled or refused transfers."""
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / stored_name(location)
    part = final.with_name(final.name + ".part")
    reason = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(wait * 2**attempt)
        try:
            transfer(location, part)
            reason = wrong(part, location) or ""
            if not reason:
                part.replace(final)
                return final
            part.unlink()  # whole but not what it should be: continuing it cannot help
        except httpx.HTTPStatusError as error:
            reason = f"the server answered {error.response.status_code}"
            if error.response.status_code in (401, 403, 404, 410):
                break
        except (httpx.HTTPError, OSError) as error:
            reason = str(error) or type(error).__name__
        say(f"download: {location.url}: {reason} (try {attempt + 1} of {TRIES})")
    raise DownloadError(f"{location.url}: {reason}.")


def transfer(location: Location, part: Path) -> None:
    """Bring `part` up to its full size, from where it ends."""
    have = part.stat().st_size if part.exists() else 0
    if have >= location.bytes:
        return
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with (
        httpx.Client(follow_redirects=True, timeout=httpx.Timeout(30.0, read=STALLED)) as client,
        client.stream("GET", location.url, headers=headers) as answer,
        progress(location.name, location.bytes, "bytes") as advance,
    ):
        answer.raise_for_status()
        resumed = answer.status_code == 206  # a server that ignores the range starts over, and so do we
        advance(have if resumed else 0)
        with part.open("ab" if resumed else "wb") as file:
            for chunk in answer.iter_raw():
                file.write(chunk)
                advance(len(chunk))
    got = part.stat().st_size
    if got < location.bytes:
        raise OSError(f"the transfer ended after {got:,} of {location.bytes:,} bytes")


def stored_name(location: Location) -> str:
    """Our name for a file: its hash's first digits keep files of the same name apart."""
    return f"{location.hash[1][:12]}-{location.name}"


def wrong(path: Path, location: Location) -> str | None:
    """What is wrong with a file, or None."""
    size = path.stat().st_size
    if size != location.bytes:
        return f"{size:,} bytes instead of {location.bytes:,}"
    kind, expected = location.hash
    digest = hashlib.new(kind)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return None if digest.hexdigest() == expected else f"its {kind} is {digest.hexdigest()} instead of {expected}"
