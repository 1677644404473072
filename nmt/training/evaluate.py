"""The model as it stands, translating the dev set."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nmt.corpus.moses import Tokenizer
from nmt.corpus.text import read_pairs
from nmt.decoding.export import export
from nmt.decoding.translate import Translator
from nmt.scoring.metrics import piece_bleu, score
from nmt.training.job import Job

SAMPLES = 3


def dev_bleu(job: Job, weights: Mapping[str, NDArray[np.float32]]) -> tuple[float, float, list[dict[str, str]]]:
    """sacreBLEU on the dev set, BLEU on its pieces, and a few samples."""
    pairs = list(read_pairs(job.dev_source, job.dev_target))
    with tempfile.TemporaryDirectory(dir=job.work, prefix=".eval-") as folder:
        model = Path(folder, "model")
        export(weights, job.shape, model, job.codes, job.vocabulary, job.text)
        translator = Translator(model, job.decode)
        outputs = translator([source for source, _ in pairs])
    references = [reference for _, reference in pairs]
    bleu = score([output.text for output in outputs], references).bleu
    tokenize = Tokenizer(job.target, job.tokenize)
    pieces = [translator.segmenter.line(tokenize(reference)) for reference in references]
    samples = [
        {"source": source, "reference": reference, "output": output.text}
        for (source, reference), output in zip(pairs[:SAMPLES], outputs[:SAMPLES], strict=True)
    ]
    return bleu, piece_bleu([output.pieces for output in outputs], pieces), samples
