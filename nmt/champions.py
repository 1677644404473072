"""The model in use, per experiment, and those it replaced.

data/champions/<name>/0001/champion.json   what it is and why it was promoted
                      0001/model/          its weights, linked: `wmtflow clean` cannot take them away
                      0001/report.html
                      current              the number of the one in use
                      sources.json         what the sources said of themselves at the last retraining
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from pydantic import BaseModel

from nmt import atomic
from nmt.config import data_folder
from nmt.errors import RunError, choices
from nmt.runs import Result
from nmt.scoring.compare import Comparison
from nmt.store.store import link_tree, remove

KEPT = 5  # versions, the current one among them


class Champion(BaseModel):
    """A promoted model."""

    name: str
    version: int
    promoted: datetime
    result: Result  # of the run that made it; its model and report are the champion's own copies
    comparison: Comparison | None  # with the champion before; None for the first

    @property
    def folder(self) -> Path:
        """Where it is."""
        return folder(self.name) / f"{self.version:04d}"


def folder(name: str) -> Path:
    """Where an experiment's champions are."""
    return data_folder() / "champions" / name


def names() -> list[str]:
    """The experiments that have a champion."""
    return sorted(path.parent.name for path in (data_folder() / "champions").glob("*/current"))


def find(name: str) -> Champion | None:
    """The champion of an experiment, if there is one."""
    path = folder(name) / "current"
    if not path.is_file():
        return None
    number = path.read_text(encoding="utf-8").strip()
    if not number.isdigit():
        raise RunError(f"{path} holds no number. Choose a champion: wmtflow champion {name} --use N")
    return read(name, int(number))


def chosen(name: str | None = None) -> Champion:
    """The champion of that name, or else of the experiment whose champion was chosen last, by promotion or by hand."""
    found = names()
    if not found or (name and name not in found):
        hint = choices(name, found) if name and found else "retraining makes one: wmtflow retrain CONFIG"
        raise RunError(f"no champion{f' of {name!r}' if name else ' yet'}; {hint}")
    newest = max(found, key=lambda each: (folder(each) / "current").stat().st_mtime_ns)
    champion = find(name or newest)
    assert champion
    return champion


def versions(name: str) -> list[Champion]:
    """All that are kept and can be read, oldest first."""
    found = []
    for path in sorted(folder(name).glob("[0-9][0-9][0-9][0-9]/champion.json")):
        with contextlib.suppress(RunError):
            found.append(read(name, int(path.parent.name)))
    return found


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """Be the only one to judge and promote models of that name; a second waits."""
    folder(name).mkdir(parents=True, exist_ok=True)
    with (folder(name) / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def read(name: str, version: int) -> Champion:
    """One version."""
    path = folder(name) / f"{version:04d}" / "champion.json"
    try:
        return Champion.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {error}. Choose another: wmtflow champion {name} --use N") from None


def promote(name: str, result: Result, comparison: Comparison | None) -> Champion:
    """Make a run's model the champion; the one before stays beside it."""
    numbers = [int(path.name) for path in folder(name).glob("[0-9][0-9][0-9][0-9]")]
    version = max(numbers, default=0) + 1
    final = folder(name) / f"{version:04d}"
    temporary = final.with_name(f".{final.name}.partial")
    remove(temporary)
    temporary.mkdir(parents=True)
    link_tree(Path(result.model), temporary / "model")
    (temporary / "report.html").write_bytes(Path(result.report).read_bytes())
    own = {"model": str(final / "model"), "report": str(final / "report.html")}
    champion = Champion(
        name=name,
        version=version,
        promoted=datetime.now(timezone.utc),
        result=result.model_copy(update=own),
        comparison=comparison,
    )
    (temporary / "champion.json").write_text(champion.model_dump_json(indent=1) + "\n", encoding="utf-8")
    temporary.rename(final)
    use(name, version)
    for old in sorted(folder(name).glob("[0-9][0-9][0-9][0-9]"))[:-KEPT]:
        remove(old)
    return champion


def use(name: str, version: int) -> Champion:
    """Make a kept version the one in use."""
    kept = {champion.version: champion for champion in versions(name)}
    if version not in kept:
        raise RunError(f"{name} has no champion {version}; kept: {', '.join(map(str, kept)) or 'none'}")
    atomic.write_text(folder(name) / "current", f"{version}\n")
    return kept[version]


def roll_back(name: str) -> Champion:
    """Use the version before the current one again."""
    current = chosen(name).version
    before = [champion.version for champion in versions(name) if champion.version < current]
    if not before:
        raise RunError(f"champion {current} of {name} is the oldest that is kept: there is none to go back to")
    return use(name, before[-1])


def sources(name: str) -> dict[str, str]:
    """What the sources said of themselves at the last retraining; empty before the first."""
    try:
        found = json.loads((folder(name) / "sources.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return dict(found)


def note_sources(name: str, said: dict[str, str]) -> None:
    """Keep what the sources say for the next time."""
    atomic.write_text(folder(name) / "sources.json", json.dumps(said, indent=1) + "\n")
