"""A tiny encoded corpus and a job to train on it."""

import pytest

from nmt.config import LearnBpeSettings, ScoreSettings, ShuffleSettings, TokenizeSettings, TrainSettings
from nmt.corpus.bpe import learn, read_vocabulary
from nmt.corpus.builtin import generate
from nmt.corpus.encode import Encoder, encode
from nmt.corpus.tokenize import tokenize
from nmt.training.job import Job


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Raw, tokenized and encoded text of 1,000 built-in pairs."""
    folder = tmp_path_factory.mktemp("corpus")
    raw, tokens, bpe, ids = (folder / name for name in ("raw", "tokens", "bpe", "ids"))
    for path in (raw, tokens, bpe, ids):
        path.mkdir()
    generate(raw, seed=1, train=1_000, dev=20, test=20)
    names = ("train.en", "train.de", "dev.en", "dev.de")
    tokenize({name: raw / name for name in names}, tokens, TokenizeSettings())
    learn([tokens / "train.en", tokens / "train.de"], bpe, LearnBpeSettings(merges=200))
    encoder = Encoder(bpe)
    for split, seed in (("train", 1), ("dev", None)):
        encode(split, (tokens / f"{split}.en", tokens / f"{split}.de"), encoder, ids, seed, ShuffleSettings())
    return folder


@pytest.fixture
def job(corpus, tmp_path):
    """Make a job; keyword arguments change training settings."""

    def make(name="work", **settings):
        defaults = {"layers": 1, "width": 16, "heads": 2, "feed_forward": 32, "steps": 6, "batch": 200}
        defaults |= {"batch_unit": "tokens", "warmup": 10, "eval_every": 3, "checkpoint_every": 3, "log_every": 1}
        defaults |= {"dropout": 0.1, "word_dropout": 0.1, "average": 1, "max_length": 100, "precision": "float32"}
        bpe = corpus / "bpe"
        (tmp_path / name).mkdir(exist_ok=True)
        return Job(
            train=TrainSettings(**(defaults | settings)),
            decode=ScoreSettings(beam=1, max_length=10),
            tokenize=TokenizeSettings(),
            source="en",
            target="de",
            seed=3,
            vocabulary_size=len(read_vocabulary(bpe / "vocabulary.tsv")),
            work=tmp_path / name,
            data=corpus / "ids",
            codes=bpe / "codes",
            vocabulary=bpe / "vocabulary.tsv",
            dev_source=corpus / "raw/dev.en",
            dev_target=corpus / "raw/dev.de",
            export=tmp_path / name / "model",
        )

    return make
