"""Two models on the same test set: which is better, and could it be chance?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from nmt.corpus.text import read_pairs
from nmt.decoding.translate import Translator

CHANCE = 0.05  # a difference that chance would give less often than this is significant
TRIALS = 10_000  # of the paired approximate randomization


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
    """Translate `source` with both and score against `target`, with sacreBLEU's paired approximate randomization."""
    texts, references = map(list, zip(*read_pairs(source, target), strict=True))
    outputs = [[output.text for output in model(texts)] for model in (champion, new)]
    return judge(outputs[1], outputs[0], references, tolerance)


def judge(new: list[str], champion: list[str], references: list[str], tolerance: float) -> Comparison:
    """Compare two sets of translations.

    Worse is a lower score that is significant, or lower by more than `tolerance`: a small test set makes much
    look like chance, and a champion must not sink by one lucky draw after another.
    """
    systems: list[tuple[str, Sequence[str]]] = [("champion", champion), ("new", new)]
    signatures, found = PairedTest(systems, {"BLEU": BLEU()}, [references], test_type="ar", n_samples=TRIALS)()
    rows: list[Any] = list(found["BLEU"])
    before, now, chance = float(rows[0].score), float(rows[1].score), float(rows[1].p_value)
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
        signature=str(signatures["BLEU"]),
        verdict=verdict,
    )
