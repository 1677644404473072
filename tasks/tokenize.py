"""tokenize: clean training text and raw dev text → tokens."""

from __future__ import annotations

from typing import Any

from nmt.corpus.tokenize import tokenize as tokenize_files
from tasks.stage import Work, stage


@stage("tokenize")
def tokenize(work: Work) -> dict[str, Any]:
    """Split text into Moses tokens."""
    folders = {"train": work.inputs["clean"], "dev": work.inputs["download"]}
    names = {f"{split}.{language}": folder for split, folder in folders.items() for language in work.languages}
    return tokenize_files({name: folder / name for name, folder in names.items()}, work.out, work.experiment.tokenize)
