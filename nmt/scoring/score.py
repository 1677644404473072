"""score: the finished model and the raw dev and test sets in → translations and `scores.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nmt.config import Experiment
from nmt.corpus.bpe import join
from nmt.corpus.moses import Tokenizer
from nmt.corpus.text import read_pairs
from nmt.decoding.translate import Translator
from nmt.errors import CorpusError
from nmt.progress import progress
from nmt.scoring.metrics import Scores, score, tokens_bleu

SETS = ("test", "dev")


def score_model(experiment: Experiment, model: Path, corpus: Path, out: Path) -> dict[str, Any]:
    """Translate both sets of `corpus` with `model`; write `<set>.<target>` and `scores.json`. Returns the scores."""
    translator = Translator(model, experiment.score)
    found = {}
    for name in SETS:
        source, target = (corpus / f"{name}.{language}" for language in (experiment.source, experiment.target))
        scores, outputs = score_files(translator, source, target, name)
        (out / f"{name}.{experiment.target}").write_text("".join(f"{line}\n" for line in outputs), encoding="utf-8")
        found[name] = scores.model_dump()
    (out / "scores.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


def score_files(translator: Translator, source: Path, target: Path, name: str) -> tuple[Scores, list[str]]:
    """Translate `source` and score against `target`; returns the scores and the translations."""
    pairs = list(read_pairs(source, target))
    if not pairs:
        raise CorpusError(f"{source} and {target} are empty: there is nothing to score")
    with progress(f"translate {name}", len(pairs), "sentences") as advance:
        outputs = translator([text for text, _ in pairs], advance)
    texts, references = [output.text for output in outputs], [reference for _, reference in pairs]
    tokenize = Tokenizer(translator.text.target, translator.text.tokenize)
    bleu, signature = tokens_bleu([join(output.pieces) for output in outputs], tokenize.lines(references))
    scores = score(texts, references)
    return scores.model_copy(update={"tokens_bleu": bleu, "tokens_signature": signature}), texts
