"""BLEU and chrF by sacreBLEU, and the subword score that the reference runs quoted."""

from __future__ import annotations

from pydantic import BaseModel
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


class Scores(BaseModel):
    """How close some translations are to their references."""

    bleu: float
    signature: str
    tokens_bleu: float | None = None  # on lower-cased tokens, as papers on Multi30k count: not comparable with `bleu`
    tokens_signature: str = ""
    chrf: float
    chrf_signature: str
    sentences: int


def score(hypotheses: list[str], references: list[str], lowercase: bool = False) -> Scores:
    """Detokenized BLEU (13a) and chrF2; cased, or of lower-cased text."""
    bleu, chrf = BLEU(lowercase=lowercase), CHRF(lowercase=lowercase)
    bleu_score = bleu.corpus_score(hypotheses, [references])
    chrf_score = chrf.corpus_score(hypotheses, [references])
    return Scores(
        bleu=round(bleu_score.score, 2),
        signature=str(bleu.get_signature()),
        chrf=round(chrf_score.score, 2),
        chrf_signature=str(chrf.get_signature()),
        sentences=len(hypotheses),
    )


def tokens_bleu(hypotheses: list[str], references: list[str]) -> tuple[float, str]:
    """BLEU of lines of tokens as they stand but for their case, and its signature."""
    metric = BLEU(lowercase=True, tokenize="none", force=True)
    return round(float(metric.corpus_score(hypotheses, [references]).score), 2), str(metric.get_signature())


def piece_bleu(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    """BLEU counted on subword pieces: comparable with the reference runs' in-training figure, not with sacreBLEU's."""
    metric = BLEU(tokenize="none", force=True)
    lines = [[" ".join(pieces) for pieces in side] for side in (hypotheses, references)]
    return round(float(metric.corpus_score(lines[0], [lines[1]]).score), 2)
