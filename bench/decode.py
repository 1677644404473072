"""Decoding speed: `wmtflow translate` beside OpenNMT-tf's own beam search, with the same trained model, beam 4.

    python bench/decode.py [RUN] [--rounds 3]

RUN is a finished run, `demo` unless named. OpenNMT-tf gets its weights, so both translate the run's test set with the
same model, and BLEU of each is shown. Both have the batches they come with, the run's length penalty, and all cores.
Each translates few and many sentences (the test set, over and over), and the difference counts, so that start-up does
not. Ours is the command itself, which tokenizes and detokenizes too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import sacrebleu
from side import CORES, SIZES, Size, other, write_vocabulary

from nmt import runs
from nmt.config import data_folder
from nmt.corpus.bpe import join, read_vocabulary
from nmt.corpus.text import read_lines
from nmt.decoding.export import shape_of
from nmt.decoding.translate import Translator
from nmt.store.store import Store

FEW, MANY, BEAM = 200, 6_400, 4


def prepare(run: runs.Result, folder: Path, translator: Translator) -> tuple[Size, list[str]]:
    """Put model and sentences where both find them; the model's size, and the references of MANY sentences."""
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
        for path, lines in ((folder / name, pieces), (folder / f"{name}.text", sources)):
            path.write_text("".join(f"{line}\n" for line in lines[:count]), encoding="utf-8")
    sizes = {"layers": shape.layers, "width": shape.width, "heads": shape.heads, "feed_forward": shape.feed_forward}
    return Size(**{**vars(SIZES["tiny"]), **sizes}), references


def ours(run: runs.Result, folder: Path) -> tuple[float, list[str]]:
    """Sentences per second, from text to text, and the translations."""
    command = [str(Path(sys.executable).with_name("wmtflow")), "translate", run.name, "--beam", str(BEAM)]
    times = [time.monotonic()]
    for name in ("few", "many"):
        with (folder / f"{name}.text").open("rb") as sources, (folder / f"{name}.ours").open("wb") as outputs:
            subprocess.run(command, check=True, stdin=sources, stdout=outputs)
        times.append(time.monotonic())
    few, many = (after - before for before, after in itertools.pairwise(times))
    return (MANY - FEW) / (many - few), list(read_lines(folder / "many.ours"))


def theirs(translator: Translator, folder: Path, size: Size, work: Path) -> tuple[float, list[str]]:
    """The same of OpenNMT-tf, whose pieces are put together by our detokenizer, not timed."""
    penalty = translator.settings.length_penalty
    taken = other("infer", folder, size, work, CORES, beam_width=BEAM, length_penalty=penalty)
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
    translator = Translator(Path(run.model), run.experiment.score)
    rounds: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="wmtflow-bench-") as place:
        size, references = prepare(run, Path(place), translator)
        for number in range(options.rounds):
            found = {}
            for name, (speed, lines) in (
                ("ours", ours(run, Path(place))),
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
