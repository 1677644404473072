"""Decoding speed: `wmtflow translate` beside OpenNMT-tf's own beam search, with the same trained model, beam 4.

    python bench/decode.py [RUN] [--rounds 3]

RUN is a finished run, `demo` unless named. OpenNMT-tf gets its weights, so both translate the run's test set with the
same model, and BLEU of each is shown. Both have the settings they come with, and all cores. Each translates few and
many sentences (the test set, over and over), and the difference counts, so that start-up does not. Ours tokenizes and
detokenizes too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import sacrebleu
from side import SIZES, Size, other, write_vocabulary

from nmt import runs
from nmt.config import data_folder
from nmt.corpus.bpe import join, read_vocabulary
from nmt.corpus.text import read_lines
from nmt.decoding.export import shape_of
from nmt.decoding.translate import Translator
from nmt.store.store import Store

FEW, MANY, BEAM = 200, 3_200, 4


def prepare(run: runs.Result, folder: Path, translator: Translator) -> tuple[Size, list[str], list[str]]:
    """Put model and sentences where OpenNMT-tf finds them; the model's size, MANY sentences and their references."""
    model, store = Path(run.model), Store(data_folder() / "store")
    test = store.find("download", run.stage_keys["download"])
    assert test, "the run's test set is not in the store any more"
    sides = (run.experiment.source, run.experiment.target)
    paths = [store.file(test, f"test.{side}") for side in sides]
    sources, references = (list(itertools.islice(itertools.cycle(read_lines(path)), MANY)) for path in paths)
    shutil.copyfile(model.with_name("weights.npz"), folder / "weights.npz")
    with np.load(folder / "weights.npz") as weights:
        shape = shape_of(weights, run.experiment.train.heads)
    write_vocabulary(folder, read_vocabulary(model / "vocabulary.tsv"))
    pieces = [" ".join(translator.segmenter.line(translator.tokenizer(line))) for line in sources]
    for name, count in (("few", FEW), ("many", MANY)):
        (folder / name).write_text("".join(f"{line}\n" for line in pieces[:count]), encoding="utf-8")
    sizes = {"layers": shape.layers, "width": shape.width, "heads": shape.heads, "feed_forward": shape.feed_forward}
    return Size(**{**vars(SIZES["tiny"]), **sizes}), sources, references


def ours(translator: Translator, sources: list[str]) -> tuple[float, list[str]]:
    """Sentences per second, from text to text, and the translations."""
    times = [time.monotonic()]
    for count in (FEW, MANY):
        outputs = translator(sources[:count])
        times.append(time.monotonic())
    few, many = (after - before for before, after in itertools.pairwise(times))
    return (MANY - FEW) / (many - few), [output.text for output in outputs]


def theirs(translator: Translator, folder: Path, size: Size, work: Path) -> tuple[float, list[str]]:
    """The same of OpenNMT-tf, whose pieces are put together by our detokenizer, not timed."""
    taken = other("infer", folder, size, work, os.cpu_count() or 1)
    lines = [translator.detokenizer(join(line.split())) for line in read_lines(work / "many")]
    return (MANY - FEW) / (taken["many"] - taken["few"]), lines


def main() -> None:
    """Both in turn, several rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", nargs="?", default="demo")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    run = runs.read(options.run)
    translator = Translator(Path(run.model), run.experiment.score.model_copy(update={"beam": BEAM}))
    rounds: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="wmtflow-bench-") as place:
        size, sources, references = prepare(run, Path(place), translator)
        for number in range(options.rounds):
            found = {}
            for name, (speed, lines) in (
                ("ours", ours(translator, sources)),
                ("theirs", theirs(translator, Path(place), size, Path(place, f"theirs-{number}"))),
            ):
                found |= {name: round(speed, 1), f"{name}_bleu": sacrebleu.corpus_bleu(lines, [references]).score}
            rounds.append(found | {"ratio": found["ours"] / found["theirs"]})
            print(
                f"round {number + 1}: ours {found['ours']:,.1f} sentences/s (BLEU {found['ours_bleu']:.2f}), "
                f"OpenNMT-tf {found['theirs']:,.1f} (BLEU {found['theirs_bleu']:.2f}), {rounds[-1]['ratio']:.1f} x",
                flush=True,
            )
    ratio = median(found["ratio"] for found in rounds)
    print(f"{run.name}: {ratio:.1f} x OpenNMT-tf (median of {options.rounds})")
    if options.json:
        options.json.write_text(json.dumps({"rounds": rounds, "median": ratio}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
