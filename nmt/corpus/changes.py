"""Whether a corpus has changed where it comes from, told without fetching it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from nmt.config import Experiment
from nmt.corpus.sources import Location, corpus
from nmt.store.manifest import record

PATIENCE = 20.0  # seconds for a host to answer
UNKNOWN = "no answer"


def look(experiment: Experiment) -> dict[str, str]:
    """What each source says of itself now: files by their hash, addresses by size and date, or `UNKNOWN`."""
    settings = experiment.download
    if settings.corpus == "builtin":
        return {}
    if settings.corpus == "files":
        given = (getattr(settings, split) for split in ("train", "dev", "test"))
        paths = [path for files in given if files for path in (files.source, files.target)]
        return {str(path): f"sha256 {record(path).sha256}" if path.is_file() else UNKNOWN for path in paths}
    locations = list(addresses(settings.corpus))
    mirror = settings.mirror_folder()
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda location: mirrored(location, mirror) or headline(location), locations)
    return dict(zip((location.url for location in locations), found, strict=True))


def differences(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """What changed between two looks, in words; a host that did not answer says nothing."""
    changed = ((name, before[name], said) for name, said in now.items() if before.get(name, said) != said)
    told = [f"{name}: was {old}, is {new}" for name, old, new in changed if UNKNOWN not in (old, new)]
    added = [f"{name}: new" for name in now if before and name not in before]
    return told + added + [f"{name}: no longer used" for name in before if name not in now]


def unlike_definition(experiment: Experiment, now: dict[str, str]) -> list[str]:
    """Addresses that offer another size than config/corpora says: what they have would be refused."""
    if experiment.download.corpus in ("builtin", "files"):
        return []
    expected = {location.url: location.bytes for location in addresses(experiment.download.corpus)}
    return [
        f"{url}: offers {said}, but config/corpora says {expected[url]:,} bytes"
        for url, said in now.items()
        if expected[url] and said != UNKNOWN and not said.startswith((f"{expected[url]} bytes", "size unknown"))
    ]


def addresses(name: str) -> Iterator[Location]:
    """The first address of every file of a corpus, and those of sacreBLEU's test sets."""
    from sacrebleu.dataset import DATASETS

    for part in corpus(name).parts:
        yield from (alternatives[0] for alternatives in part.files)
        if part.sacrebleu:
            dataset: Any = DATASETS[part.sacrebleu]  # half of it has no types
            yield from (Location(url=url, md5=md5) for url, md5 in zip(dataset.data, dataset.md5, strict=True))


def mirrored(location: Location, mirror: Path | None) -> str | None:
    """What a file of that name in the mirror folder is; None if there is none."""
    path = next(mirror.rglob(location.name), None) if mirror else None
    return f"{path.stat().st_size} bytes of {int(path.stat().st_mtime)} in the mirror" if path else None


def headline(location: Location) -> str:
    """Size, date and tag of a file at its address, from the head of the answer alone."""
    try:
        plain = {"Accept-Encoding": "identity"}  # else the size may be that of a packed answer
        answer = httpx.head(location.url, headers=plain, follow_redirects=True, timeout=PATIENCE).raise_for_status()
    except httpx.HTTPError:
        return UNKNOWN
    length = answer.headers.get("Content-Length")
    told = [f"{length} bytes" if length else "size unknown"]
    return ", ".join(told + [answer.headers[name] for name in ("Last-Modified", "ETag") if name in answer.headers])
