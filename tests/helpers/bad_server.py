"""A web server that does everything servers do, and the one file it has."""

from __future__ import annotations

import gzip
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from nmt.corpus.fetch import Fetcher
from nmt.corpus.sources import Location

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
