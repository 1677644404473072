"""report: what every stage left in → `report.html`, `report.md` and `answers.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nmt.config import Experiment
from nmt.report.answers import answers
from nmt.report.facts import gather
from nmt.report.page import html, markdown
from nmt.report.plots import plots
from nmt.store.manifest import Manifest


def report(
    experiment: Experiment, manifests: Mapping[str, Manifest], folders: Mapping[str, Path], out: Path
) -> dict[str, Any]:
    """Write the three files into `out`, from the manifests and folders of the stages before; returns counts."""
    facts = gather(experiment, manifests, folders)
    found, drawn = answers(facts), plots(facts)
    listing = json.dumps([asdict(answer) for answer in found], indent=1, ensure_ascii=False)
    files = {
        "report.html": html(facts, found, drawn),
        "report.md": markdown(facts, found, drawn),
        "answers.json": listing,
    }
    for name, text in files.items():
        (out / name).write_text(text.rstrip() + "\n", encoding="utf-8", newline="\n")
    return {"questions": len(found), "plots": len(drawn), "samples": len(facts.samples)}
