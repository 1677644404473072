"""Where Prefect's server is: named by the environment, by the user's Prefect profile, or for us to start."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from nmt.errors import MachineError

PORT = 4200  # Prefect's own
API_URL = "PREFECT_API_URL"


def choose(port: int | None) -> tuple[str, bool]:
    """The address of the server's API, and whether it is for us to start."""
    if named := os.environ.get(API_URL):
        if not answers(named):
            raise MachineError(
                f"{API_URL} is {named}, and no Prefect server answers there. "
                f"Start it, or unset {API_URL} to have one started here."
            )
        return named, False
    known = profile_url()
    if known and answers(known) and (port is None or urlsplit(known).port == port):
        return known, False
    if known and port is None and urlsplit(known).hostname not in ("127.0.0.1", "localhost"):
        raise MachineError(
            f"your Prefect profile names {known}, and no server answers there. "
            f"Start it, or: prefect config unset {API_URL}"
        )
    port = port or (urlsplit(known).port if known else None) or int(os.environ.get("PREFECT_SERVER_API_PORT", PORT))
    url = f"http://127.0.0.1:{port}/api"
    if taken(port):
        other = port + 100 if port < 65_000 else port - 100
        if answers(url):
            raise MachineError(
                f"a Prefect server that is not ours answers at port {port}. "
                f"To use it: export {API_URL}={url}. For one of our own: make ui PORT={other}"
            )
        raise MachineError(f"port {port} is in use by another program. Choose another: make ui PORT={other}")
    return url, True


def answers(url: str) -> bool:
    """Whether a Prefect server answers at an API's address."""
    try:
        return httpx.get(f"{url.rstrip('/')}/health", timeout=5).json() is True
    except (httpx.HTTPError, ValueError):
        return False


def taken(port: int) -> bool:
    """Whether another program listens on a port of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def require() -> None:
    """Refuse to go on with a server that is named and does not answer."""
    url = os.environ.get(API_URL) or profile_url()
    if url and not answers(url):
        where = f"{API_URL} is" if API_URL in os.environ else "your Prefect profile names"
        undo = f"unset {API_URL}" if API_URL in os.environ else f"prefect config unset {API_URL}"
        raise MachineError(f"{where} {url}, and no Prefect server answers there. Start it (make ui), or: {undo}")


def profile_url() -> str | None:
    """The API's address in the user's Prefect profile."""
    from prefect.settings import get_current_settings

    return get_current_settings().api.url


@contextlib.contextmanager
def profile(url: str, marker: Path) -> Iterator[None]:
    """Point the user's Prefect profile here, so that `prefect` finds us from any terminal, and put it back after.

    The marker tells a later `make ui` what stood there before, should this one be killed.
    """
    from prefect.settings import PREFECT_API_URL
    from prefect.settings.profiles import update_current_profile

    before = profile_url()
    if marker.is_file() and (left := json.loads(marker.read_text())).get("ours") == before:
        before = left["before"]  # a `make ui` that was killed had no time to put it back
    marker.write_text(json.dumps({"ours": url, "before": before}))
    update_current_profile({PREFECT_API_URL: url})
    try:
        yield
    finally:
        update_current_profile({PREFECT_API_URL: before})
        marker.unlink(missing_ok=True)
