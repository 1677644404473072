"""Two models on the same test set: which is better, and could it be chance?"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from sacrebleu.metrics.bleu import BLEU

from nmt.corpus.text import read_pairs
from nmt.decoding.translate import Translator

CHANCE = 0.05  # a difference that chance would give less often than this is significant
TRIALS = 10_000  # of the paired approximate randomization
SEED = 12345  # sacreBLEU's own


class Comparison(BaseModel):
    """A model beside the champion, both on one test set."""

    bleu: float
    champion_bleu: float
    p_value: float
    sentences: int
    signature: str
    verdict: Literal["better", "equal", "worse"]

    def words(self) -> str:
        """The comparison in one sentence."""
        found = f"{self.bleu - self.champion_bleu:+.2f}, p = {self.p_value:.4f}, {self.sentences:,} sentences"
        return f"BLEU {self.bleu:.2f} beside the champion's {self.champion_bleu:.2f} ({found}): {self.verdict}"


def compare(new: Translator, champion: Translator, source: Path, target: Path, tolerance: float) -> Comparison:
    """Translate `source` with both and score against `target`, with paired approximate randomization."""
    texts, references = map(list, zip(*read_pairs(source, target), strict=True))
    outputs = [[output.text for output in model(texts)] for model in (champion, new)]
    return judge(outputs[1], outputs[0], references, tolerance)


def p_value(metric: Any, champion: list[str], new: list[str]) -> float:
    """How often chance alone makes as large a difference: paired approximate randomization of the sentences.

    sacreBLEU's own counts only larger ones, so that two outputs which differ in one sentence, where every exchange
    gives the same difference, would come out as significant.
    """
    stats = np.array([metric._extract_corpus_statistics(texts, None) for texts in (champion, new)], dtype=np.float64)
    rng, size = np.random.default_rng(SEED), stats.shape[1]

    def difference(sums: NDArray[np.float64]) -> float:
        left, right = (float(metric._compute_score_from_stats(list(side)).score) for side in sums)
        return abs(left - right)

    total = stats.sum(axis=(0, 1))
    observed = difference(stats.sum(axis=1))
    as_large = 0
    for _ in range(TRIALS):
        swapped = rng.integers(0, 2, size).astype(np.float64)
        first = stats[0].T @ (1 - swapped) + stats[1].T @ swapped
        as_large += difference(np.stack([first, total - first])) >= observed - 1e-9
    return (as_large + 1) / (TRIALS + 1)


def judge(new: list[str], champion: list[str], references: list[str], tolerance: float) -> Comparison:
    """Compare two sets of translations.

    Worse is a lower score that is significant, or lower by more than `tolerance`: a small test set makes much
    look like chance, and a champion must not sink by one lucky draw after another.
    """
    metric: Any = BLEU(references=[references])  # its statistics have no types
    before, now = (float(metric.corpus_score(texts, None).score) for texts in (champion, new))
    chance = p_value(metric, champion, new)
    verdict: Literal["better", "equal", "worse"] = "equal"
    if now > before and chance < CHANCE:
        verdict = "better"
    if now < before and (chance < CHANCE or before - now > tolerance):
        verdict = "worse"
    return Comparison(
        bleu=round(now, 2),
        champion_bleu=round(before, 2),
        p_value=chance,
        sentences=len(references),
        signature=str(metric.get_signature()),
        verdict=verdict,
    )
