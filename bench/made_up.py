"""A corpus of any size in the shape of real text: 25 words a side, word frequencies by Zipf's law, punctuation.

    python bench/made_up.py FOLDER --pairs 500000

The words mean nothing. Their number grows with the corpus as in real text (rare words keep coming), which is
what makes learning BPE hard; the built-in corpus, with its few thousand words, would flatter any tool.
"""

from __future__ import annotations

import argparse
import math
import random
from pathlib import Path

import numpy as np

WORDS = {"en": 400_000, "de": 900_000}  # German compounds freely
ZIPF = {"en": (6, 1.25), "de": (4, 1.2)}  # 1 / (rank + a)^b: 290,000 and 470,000 words in 500,000 pairs
ONSETS = "b bl br d dr f fl fr g gl gr h j k kl kr l m n p pl pr r s sch sp st str t tr v w z th ch qu"
VOWELS = {"en": "a e i o u ea ee oo ou ai", "de": "a e i o u ä ö ü ei ie au eu"}
CODAS = ["", "", "", "n", "r", "s", "t", "l", "m", "ng", "ck", "st", "nd", "rt", "x"]
SPECIAL = {  # what tokenizers are for, with how often in a thousand words
    "en": {
        "don't": 3,
        "dog's": 3,
        "Mr.": 2,
        "e.g.": 1,
        "U.S.": 2,
        "it's": 3,
        '"Well': 1,
        'done"': 1,
        "(see": 1,
        "above)": 1,
    },
    "de": {"z.B.": 2, "Dr.": 2, "geht's": 2, "„Ja“": 1, "bzw.": 2, "26.": 1, "(siehe": 1, "oben)": 1, "EU-Recht": 2},
}
BOTH = {"1,250": 1, "3.5": 1, "1987": 2, "50%": 1, "AT&T": 1, "http://www.example.org/a_b": 1, "–": 3, "and/or": 1}
BLOCK = 50_000


def words_of(language: str) -> list[str]:
    """The words of a language by rank: the rarer, the longer. The same at every call."""
    draw = random.Random(language)
    onsets, vowels, capitals = ONSETS.split(), VOWELS[language].split(), 0.4 if language == "de" else 0.1
    found = []
    for rank in range(WORDS[language]):
        syllables = 1 + int(math.log10(rank + 1) * 0.5 + draw.random())
        text = "".join(draw.choice(onsets) + draw.choice(vowels) + draw.choice(CODAS) for _ in range(syllables))
        found.append(text.capitalize() if draw.random() < capitals else text)
    return found


def vocabulary(language: str) -> tuple[np.ndarray, np.ndarray]:
    """All words of a language and the running sum of their probabilities."""
    count, words = WORDS[language], words_of(language)
    shift, power = ZIPF[language]
    weights = 1.0 / (np.arange(count) + shift) ** power
    weights /= weights.sum()
    extra = SPECIAL[language] | BOTH
    words += list(extra)
    weights = np.concatenate([weights, np.array(list(extra.values())) / 1000])
    return np.array(words, dtype=object), np.cumsum(weights / weights.sum())


def write(folder: Path, language: str, pairs: int, seed: int) -> None:
    """Write `train.<language>`."""
    words, sums = vocabulary(language)
    generator = np.random.default_rng([seed, len(language), ord(language[0])])
    with (folder / f"train.{language}").open("w", encoding="utf-8", newline="\n") as file:
        for start in range(0, pairs, BLOCK):
            lengths = np.clip(generator.poisson(25, min(BLOCK, pairs - start)), 3, 79)
            drawn = words[np.searchsorted(sums, generator.random(int(lengths.sum())))]
            commas = generator.random(len(drawn)) < 0.05
            ends = np.cumsum(lengths).tolist()
            for begin, end in zip([0, *ends[:-1]], ends, strict=True):
                line = [
                    f"{token}," if comma else token
                    for token, comma in zip(drawn[begin:end], commas[begin:end], strict=True)
                ]
                text = " ".join(line)
                file.write(f"{text[0].upper()}{text[1:].rstrip(',')}.\n")


def generate(folder: Path, pairs: int, seed: int = 1) -> None:
    """Write `train.en` and `train.de`, and a small `dev` of each."""
    folder.mkdir(parents=True, exist_ok=True)
    for language in ("en", "de"):
        write(folder, language, pairs, seed)
        with (folder / f"train.{language}").open(encoding="utf-8") as text:
            (folder / f"dev.{language}").write_text(
                "".join(next(text) for _ in range(min(pairs, 500))), encoding="utf-8"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=500_000)
    options = parser.parse_args()
    generate(options.folder, options.pairs)
