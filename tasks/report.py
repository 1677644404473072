"""report: everything the other stages left → the page that answers the eleven questions."""

from __future__ import annotations

from typing import Any

from nmt.report.report import report as write_report
from tasks.stage import Work, stage


@stage("report")
def report(work: Work) -> dict[str, Any]:
    """Write the report as HTML and Markdown, and its answers as data."""
    return write_report(work.experiment, work.manifests, work.inputs, work.out)
