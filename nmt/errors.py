"""What can go wrong, as a tree.

    WmtflowError                 something a person can act on; shown as one message, never a traceback
    ├── RequestError             the request was wrong: exit status 2, nothing was started
    │   ├── ConfigError          a settings file or a --set holds an unknown key or an impossible value
    │   └── RunError             no such run, or its folder lacks what a command needs
    ├── CorpusError              text that cannot be used: missing, empty, sides of different length
    ├── DownloadError            a source that could not be fetched whole
    ├── StoreError               a stage's output is missing or not what its manifest says
    ├── MachineError             this machine cannot run what was asked
    └── TrainingError            training stopped: a rank died, a loss was not a number

A message says what was expected, what was found, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class WmtflowError(Exception):
    """Base of all errors that a person can act on."""

    exit_status = 1


class RequestError(WmtflowError):
    """The request cannot be carried out as it stands."""

    exit_status = 2


class ConfigError(RequestError):
    """A setting is unknown, of the wrong type or out of range."""


class CorpusError(WmtflowError):
    """Text that cannot be used."""


class DownloadError(WmtflowError):
    """A source that could not be fetched whole."""


class StoreError(WmtflowError):
    """A stage's output is missing or altered."""


class MachineError(WmtflowError):
    """This machine cannot run what was asked."""


class TrainingError(WmtflowError):
    """Training stopped before its last step."""


class RunError(RequestError):
    """A run's folder lacks what a command needs."""


def choices(wrong: str, valid: Iterable[str]) -> str:
    """A hint for an unknown name: the nearest valid one, or all of them."""
    names = sorted(valid)
    near = difflib.get_close_matches(wrong, names, n=1)
    return f"did you mean '{near[0]}'?" if near else f"valid: {', '.join(names)}"
