"""What the tests of the library share: a data folder of their own, and patience on a busy machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "patient", deadline=None, database=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder that `data_folder()` points at."""
    folder = tmp_path / "data"
    monkeypatch.setenv("WMTFLOW_DATA", str(folder))
    return folder
