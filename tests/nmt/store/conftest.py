"""Stores that look as if experiments had been run, without running them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.config import Experiment
from nmt.store.plan import keys
from nmt.store.store import Store


@pytest.fixture
def store(data: Path) -> Store:
    """The store of the data folder."""
    return Store(data / "store")


@pytest.fixture
def pretend(store: Store) -> Callable[[Experiment], dict[str, str]]:
    """Gives a function that leaves an output for every stage of an experiment and returns their keys."""

    def make(experiment: Experiment) -> dict[str, str]:
        found = {}
        for name, key in keys(experiment).items():

            def work(folder: Path, text: str = f"{name} {key.digest}\n") -> dict[str, str]:
                (folder / "file").write_text(text, encoding="utf-8")
                return {}

            found[name] = store.build(key, work, print)[0].key
        return found

    return make
