"""Decoding speed: `wmtflow translate` beside OpenNMT-tf's own beam search, the same model size, beam 4.

    python bench/decode.py [--size tiny] [--rounds 3]

Neither model is trained, so both are made to give exactly 25 pieces for each sentence: the same work. Each translates
a short and a long file, and the difference counts, so that start-up does not. Ours tokenizes and detokenizes too. Both
have the settings they come with, and all cores.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median

from side import SIZES, corpus, job, other

from nmt.config import ScoreSettings
from nmt.corpus.text import read_lines
from nmt.decoding.export import export
from nmt.decoding.translate import Translator

FEW, MANY, LENGTH = 128, 1_152, 25


def ours(translator: Translator, folder: Path) -> dict[str, float]:
    """Seconds for each file, from text to text."""
    taken = {}
    for name in ("few", "many"):
        lines = list(read_lines(folder / f"{name}.text"))
        began = time.monotonic()
        outputs = translator(lines)
        taken[name] = time.monotonic() - began
        assert len(outputs) == len(lines)
    return taken


def main() -> None:
    """Both in turn, several rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    size, threads = SIZES[options.size], os.cpu_count() or 1
    ratios = []
    with tempfile.TemporaryDirectory(prefix="wmtflow-bench-") as place:
        folder, model = corpus(Path(place, "corpus"), size), Path(place, "model")
        settings = job(folder, size, Path(place, "work"))
        from nmt.model.transformer import Transformer

        weights = Transformer(settings.shape, 1).numpy()
        export(weights, settings.shape, model, settings.codes, settings.vocabulary, settings.text)
        translator = Translator(model, ScoreSettings(min_length=LENGTH, max_length=LENGTH))
        for name, count in (("few", FEW), ("many", MANY)):
            lines = list(itertools.islice(read_lines(folder / "raw/train.en"), count))
            pieces = [" ".join(translator.segmenter.line(translator.tokenizer(line))) for line in lines]
            for path, content in ((folder / f"{name}.text", lines), (folder / name, pieces)):
                path.write_text("".join(f"{line}\n" for line in content), encoding="utf-8")
        for number in range(options.rounds):
            speeds = []
            for taken in (
                ours(translator, folder),
                other("infer", folder, size, Path(place, f"theirs-{number}"), threads),
            ):
                speeds.append((MANY - FEW) / (taken["many"] - taken["few"]))
            ratios.append(speeds[0] / speeds[1])
            print(
                f"round {number + 1}: ours {speeds[0]:,.1f} sentences/s, OpenNMT-tf {speeds[1]:,.1f}, "
                f"{ratios[-1]:.1f} x",
                flush=True,
            )
    print(f"{options.size}: {median(ratios):.1f} x OpenNMT-tf (median of {options.rounds})")
    if options.json:
        options.json.write_text(json.dumps({"ratios": ratios, "median": median(ratios)}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
