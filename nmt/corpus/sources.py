"""Corpora as data: what config/corpora/<name>.yaml says about where text is and what it must be."""

from __future__ import annotations

from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from nmt.config import CONFIGS
from nmt.errors import ConfigError

ARCHIVES = (".tgz", ".tar.gz", ".zip")


class Location(BaseModel):
    """One address of a file, and what must arrive from there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str
    bytes: int | None = Field(None, gt=0)  # None for an archive of sacreBLEU's, of which it knows the md5 alone
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")
    sha1: str | None = Field(None, pattern="^[0-9a-f]{40}$")
    md5: str | None = Field(None, pattern="^[0-9a-f]{32}$")
    # language → path inside the archive; null for a file that is the text itself
    members: dict[str, str | None] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _can_be_checked(self) -> Location:
        if not (self.sha256 or self.sha1 or self.md5):
            raise ValueError(f"{self.url}: a sha256, sha1 or md5 is needed")
        if any((member is None) == self.name.endswith(ARCHIVES) for member in self.members.values()):
            raise ValueError(f"{self.url}: the text is a member of {', '.join(ARCHIVES)}, and null of any other file")
        if len(set(self.members.values())) < len(self.members):
            raise ValueError(f"{self.url}: each language needs a member of its own")
        return self

    @property
    def hash(self) -> tuple[Literal["sha256", "sha1", "md5"], str]:
        """The name of the strongest hash that is known, and its value."""
        if self.sha256:
            return "sha256", self.sha256
        return ("sha1", self.sha1) if self.sha1 else ("md5", self.md5 or "")

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.url.rpartition("/")[2]


class Part(BaseModel):
    """Parallel text that belongs together: one or two files with their alternatives, or a test set of sacreBLEU's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[\w-][\w.-]*$")
    lines: int = Field(gt=0)
    files: list[list[Location]] = Field(default_factory=list)  # each with its alternatives, best first
    sacrebleu: str | None = None

    @model_validator(mode="after")
    def _comes_from_somewhere(self) -> Part:
        if bool(self.files) == bool(self.sacrebleu):
            raise ValueError(f"{self.name}: either files or sacrebleu is needed")
        for alternatives in self.files:
            if len({frozenset(location.members) for location in alternatives}) != 1 or not alternatives[0].members:
                raise ValueError(f"{self.name}: all alternatives of a file need the same languages as members")
        return self


class Corpus(BaseModel):
    """The parts of each split, to be put one after the other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    train: list[Part]
    dev: list[Part]
    test: list[Part]

    @property
    def parts(self) -> list[Part]:
        """All parts, in order."""
        return [*self.train, *self.dev, *self.test]

    @model_validator(mode="after")
    def _names_differ(self) -> Corpus:
        names = [part.name for part in self.parts]
        if len(set(names)) < len(names):
            raise ValueError(f"two parts have the same name: {', '.join(names)}")
        return self


def corpus(name: str) -> Corpus:
    """Read config/corpora/<name>.yaml."""
    path = CONFIGS / "corpora" / f"{name}.yaml"
    try:
        return Corpus.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (ValidationError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from None


def download_bytes(name: str) -> int:
    """How much a corpus weighs as it comes over the wire."""
    return sum(file[0].bytes or 0 for part in corpus(name).parts for file in part.files)
