"""A small corpus of every kind of archive, as a mirror folder and as the definition that fits it."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import yaml

from nmt.config import Experiment
from nmt.settings_file import check

EN, DE = b"one\ntwo \xe2\x80\xa8 still two\nthree\n", b"eins\nzwei\ndrei\n"


def tgz(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(f"inner/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def zipped(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"inner/{name}", content)
    return packed.getvalue()


class Mirror:
    """A mirror folder, and the corpus definition that fits it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "mirror"
        self.folder.mkdir()
        self.configs = folder / "config"
        (self.configs / "corpora").mkdir(parents=True)
        self.address = "http://127.0.0.1:9"  # nobody answers there
        self.use: Path | None = self.folder
        self.content: dict[str, Any] = {
            "train": [
                {"name": "first", "lines": 3, "files": [[self.add("first.tgz", tgz(en=EN, de=DE), "inner/")]]},
                {
                    "name": "second",
                    "lines": 2,
                    "files": [[self.add("second.zip", zipped(en=b"a\nb", de=b"c\nd\n"), "inner/")]],
                },
            ],
            "dev": [
                {
                    "name": "third",
                    "lines": 3,
                    "files": [
                        [self.add("third.en.gz", gzip.compress(EN), None, "en")],
                        [self.add("third.de.gz", gzip.compress(DE), None, "de")],
                    ],
                }
            ],
            "test": [
                {
                    "name": "fourth",
                    "lines": 3,
                    "files": [[self.add("fourth.en", EN, None, "en")], [self.add("fourth.de", DE, None, "de")]],
                }
            ],
        }

    def add(self, name: str, packed: bytes, prefix: str | None, *languages: str) -> dict[str, Any]:
        (self.folder / name).write_bytes(packed)
        return {
            "url": f"{self.address}/{name}",
            "bytes": len(packed),
            "sha256": hashlib.sha256(packed).hexdigest(),
            "members": {side: prefix and f"{prefix}{side}" for side in languages or ("en", "de")},
        }

    def experiment(self) -> Experiment:
        definition = self.configs / "corpora" / "tiny.yaml"
        definition.write_text(yaml.safe_dump(self.content), encoding="utf-8")
        return check({"download": {"corpus": "tiny", "mirror": self.use and str(self.use)}}, "test")
