"""Corpora as data: what config/corpora/<name>.yaml says about where text is and what it must be."""

from __future__ import annotations

from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from nmt.config import CONFIGS


class Location(BaseModel):
    """One address of a file, and what must arrive from there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str
    bytes: int
    sha256: str | None = None
    sha1: str | None = None
    members: dict[str, str | None]  # language → path inside the archive; null for a file that is the text itself

    @model_validator(mode="after")
    def _has_a_hash(self) -> Location:
        if not (self.sha256 or self.sha1):
            raise ValueError(f"{self.url}: a sha256 or sha1 is needed")
        return self

    @property
    def hash(self) -> tuple[Literal["sha256", "sha1"], str]:
        """The name of the hash and its value."""
        return ("sha256", self.sha256) if self.sha256 else ("sha1", self.sha1 or "")

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.url.rpartition("/")[2]


class Part(BaseModel):
    """Parallel text that belongs together: one or two files with their alternatives, or a test set of sacreBLEU's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    lines: int
    files: list[list[Location]] = Field(default_factory=list)
    sacrebleu: str | None = None


class Corpus(BaseModel):
    """The parts of each split, to be put one after the other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    train: list[Part]
    dev: list[Part]
    test: list[Part]


def corpus(name: str) -> Corpus:
    """Read config/corpora/<name>.yaml."""
    return Corpus.model_validate(yaml.safe_load((CONFIGS / "corpora" / f"{name}.yaml").read_text(encoding="utf-8")))


def download_bytes(name: str) -> int:
    """How much a corpus weighs as it comes over the wire."""
    chosen = corpus(name)
    return sum(file[0].bytes for part in (*chosen.train, *chosen.dev, *chosen.test) for file in part.files)
