"""download: corpus by name → parallel text of three splits."""

from __future__ import annotations

from typing import Any

from nmt.corpus.download import download as fetch_corpus
from nmt.errors import DownloadError
from tasks.stage import Work, stage


def can_heal(task: Any, run: Any, state: Any) -> bool:
    """A host that did not answer may answer later; a corpus that is wrong stays wrong."""
    return isinstance(state.result(raise_on_failure=False), DownloadError)


@stage("download", retries=2, retry_delay_seconds=[30, 120], retry_condition_fn=can_heal)
def download(work: Work) -> dict[str, Any]:
    """Get the training, dev and test text."""
    return fetch_corpus(work.experiment, work.run.data / "downloads", work.out, work.say)
