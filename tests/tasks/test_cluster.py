"""The corpus stages on a Dask cluster of two processes write the bytes they write on one machine."""

import pytest

from nmt.config import CleanSettings, ClusterSettings, LearnBpeSettings, ShuffleSettings, TokenizeSettings
from nmt.corpus import blocks
from nmt.corpus.bpe import learn
from nmt.corpus.builtin import generate
from nmt.corpus.clean import clean
from nmt.corpus.encode import Encoder, encode
from nmt.corpus.tokenize import tokenize
from nmt.errors import MachineError
from tasks.cluster import spread


def prepare(raw, out):
    """All four stages by blocks; the folders they filled."""
    folders = [out / name for name in ("clean", "tokenize", "learn_bpe", "shuffle")]
    for folder in folders:
        folder.mkdir(parents=True)
    cleaned, tokens, bpe, ids = folders
    clean(raw / "train.en", raw / "train.de", cleaned, CleanSettings(drop_duplicates=True))
    tokenize({name: cleaned / name for name in ("train.en", "train.de")}, tokens, TokenizeSettings())
    learn([tokens / "train.en", tokens / "train.de"], bpe, LearnBpeSettings(merges=300))
    encode("train", (tokens / "train.en", tokens / "train.de"), Encoder(bpe), ids, 1, ShuffleSettings())
    return {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_two_dask_processes_write_the_same_bytes(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    generate(raw, seed=1, train=50_000, dev=10, test=10, dirt=0.02)  # three blocks of lines
    alone = prepare(raw, tmp_path / "alone")
    with spread(ClusterSettings(dask="local", workers=2)):
        workers = blocks.Workers(0, [])
        assert workers.count == 2 and not workers.owned
        assert prepare(raw, tmp_path / "dask") == alone
    assert blocks.Workers(1, []).pool is None  # and nothing of it stays


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_a_scheduler_that_does_not_answer_is_one_clear_error(monkeypatch):
    import dask

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(MachineError, match=r"tcp://127\.0\.0\.1:9 does not answer"),
        spread(ClusterSettings(dask="tcp://127.0.0.1:9")),
    ):
        pytest.fail("there is no scheduler")
