"""shuffle: tokens and merges → encoded pairs, in an order drawn from the seed."""

from __future__ import annotations

from typing import Any

from nmt.corpus.encode import SIDES, Encoder, encode, load, text_lines
from nmt.store.store import link
from tasks.stage import Work, stage


@stage("shuffle")
def shuffle(work: Work) -> dict[str, Any]:
    """Encode training and dev pairs as piece ids."""
    tokens, bpe = work.inputs["tokenize"], work.inputs["learn_bpe"]
    encoder = Encoder(bpe)
    counts = {}
    for split, seed in (("train", work.experiment.seed), ("dev", None)):
        source, target = (tokens / f"{split}.{language}" for language in work.languages)
        counts[split] = encode(split, (source, target), encoder, work.out, seed, work.experiment.shuffle)
    if work.experiment.shuffle.write_text:
        write_text(work, encoder)
    return counts


def write_text(work: Work, encoder: Encoder) -> None:
    """The training text under the names that people know from the reference's own script."""
    merges = work.experiment.learn_bpe.merges
    size = f"{round(merges / 1000)}K" if merges >= 1000 else str(merges)
    data = load(work.out, "train")
    for side, language in zip(SIDES, work.languages, strict=True):
        link(work.inputs["clean"] / f"train.{language}", work.out / f"train.clean.{language}")
        path = work.out / f"train.clean.{language}.shuffled.BPE_common.{size}.tok"
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in text_lines(data, side, encoder.pieces))
