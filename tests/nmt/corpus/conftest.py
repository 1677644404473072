"""What the tests of downloads share: a folder to write to, a mirror, a server of any manners."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bad_server import Server
from mirrors import Mirror

from nmt import config
from nmt.corpus import sources
from nmt.corpus.fetch import Fetcher


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.fixture
def mirror(tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    made = Mirror(tmp_path)
    monkeypatch.setattr(config, "CONFIGS", made.configs)
    monkeypatch.setattr(sources, "CONFIGS", made.configs)
    return made


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


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nobody waits for servers; the waits that were asked for are kept."""
    found: list[float] = []

    def pause(_: Fetcher, seconds: float) -> None:
        found.append(seconds) if seconds >= 1 else time.sleep(0.01)

    monkeypatch.setattr(Fetcher, "pause", pause)
    return found
