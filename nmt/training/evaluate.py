"""The model as it stands, translating the dev set. All ranks share the work, so none waits for long."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from nmt.corpus.moses import Tokenizer
from nmt.corpus.text import read_pairs
from nmt.decoding.export import export
from nmt.decoding.translate import Translation, Translator
from nmt.scoring.metrics import piece_bleu, score
from nmt.training.job import Job
from nmt.training.ranks import Ranks

SAMPLES = 3


class Sample(BaseModel):
    """One translated sentence, to look at."""

    source: str
    reference: str
    output: str


class DevScore(BaseModel):
    """How well the dev set was translated."""

    bleu: float
    signature: str = ""
    piece_bleu: float  # counted on subword pieces: not sacreBLEU
    samples: list[Sample]


def dev_score(
    job: Job, weights: Mapping[str, NDArray[np.float32]], ranks: Ranks, threads: int, advance: Callable[[int], None]
) -> DevScore:
    """Translate the dev set, each rank its share, and score it."""
    pairs = list(read_pairs(job.dev_source, job.dev_target))
    with tempfile.TemporaryDirectory(dir=job.work, prefix=f".eval-{ranks.rank}-") as folder:
        model = Path(folder, "model")
        export(weights, job.shape, model, job.codes, job.vocabulary, job.text)
        translator = Translator(model, job.decode.model_copy(update={"threads": threads}), ranks.local_rank)
        mine = translator([source for source, _ in pairs[ranks.rank :: ranks.size]], advance)
    outputs: list[Translation | None] = [None] * len(pairs)
    for rank, share in enumerate(ranks.gather(mine)):
        outputs[rank :: ranks.size] = share
    return scored(job, translator, pairs, [output for output in outputs if output is not None])


def scored(job: Job, translator: Translator, pairs: list[tuple[str, str]], outputs: list[Translation]) -> DevScore:
    """sacreBLEU (without case, where the model has none), BLEU on pieces, and the first few to look at."""
    references = [reference for _, reference in pairs]
    tokenize = Tokenizer(job.target, job.tokenize)
    pieces = [translator.segmenter.line(line) for line in tokenize.lines(references)]
    scores = score([output.text for output in outputs], references, job.tokenize.lowercase)
    return DevScore(
        bleu=scores.bleu,
        signature=scores.signature,
        piece_bleu=piece_bleu([output.pieces for output in outputs], pieces),
        samples=[
            Sample(source=source, reference=reference, output=output.text)
            for (source, reference), output in zip(pairs[:SAMPLES], outputs[:SAMPLES], strict=True)
        ],
    )
