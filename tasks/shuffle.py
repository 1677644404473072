"""shuffle: tokens and merges → encoded pairs, in an order drawn from the seed."""

from __future__ import annotations

from typing import Any

from nmt.corpus.encode import Encoder, encode
from tasks.stage import Work, stage


@stage("shuffle")
def shuffle(work: Work) -> dict[str, Any]:
    """Encode training and dev pairs as piece ids."""
    tokens, bpe = work.inputs["tokenize"], work.inputs["learn_bpe"]
    encoder = Encoder(bpe / "codes", bpe / "vocabulary.tsv")
    counts = {}
    for split, seed in (("train", work.experiment.seed), ("dev", None)):
        source, target = (tokens / f"{split}.{language}" for language in work.languages)
        counts[split] = encode(split, (source, target), encoder, work.out, seed, work.experiment.shuffle)
    return counts
