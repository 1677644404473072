"""Progress: a bar on a terminal, nothing at all anywhere else."""

from __future__ import annotations

import io
import sys

import pytest

from nmt.progress import progress


class Terminal(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_it_is_silent_when_nobody_watches(capfd: pytest.CaptureFixture[str]):
    with progress("clean", 10) as advance:
        advance(5)
        advance(5)
    assert tuple(capfd.readouterr()) == ("", "")


@pytest.mark.parametrize("total", [10, None])
def test_a_terminal_is_shown_what_is_done(
    total: int | None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("clean", total, "lines") as advance:
        advance(7)
    assert "clean" in terminal.getvalue() and "7/" in terminal.getvalue() and "lines" in terminal.getvalue()
    assert capfd.readouterr().out == ""


def test_bytes_are_shown_as_sizes_with_their_rate(monkeypatch: pytest.MonkeyPatch):
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("download", 20_000_000, "bytes") as advance:
        advance(9_000_000)
        advance(-4_000_000)  # a transfer that starts over
    assert "5.0/20.0 MB" in terminal.getvalue()


@pytest.mark.parametrize("watched", [False, True])
def test_errors_pass_through(watched: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", Terminal() if watched else io.StringIO())
    with pytest.raises(ValueError, match="inside"), progress("clean", None):
        raise ValueError("inside")
