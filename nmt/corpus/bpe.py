"""learn_bpe: tokenized training text in → merges (`codes`) and the joint vocabulary (`vocabulary.tsv`).

The merges are those that subword-nmt would learn, and it applies them. The vocabulary is ours: four
special pieces, every piece that segmenting the training text gives, most frequent first, then every
character seen, so that any word in the same letters can be written, and padding up to a round size.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from subword_nmt.apply_bpe import BPE

from nmt.config import LearnBpeSettings
from nmt.corpus.merges import learn_merges
from nmt.corpus.text import read_lines
from nmt.errors import CorpusError
from nmt.progress import progress

PAD, UNKNOWN, BEGIN, END = "<pad>", "<unk>", "<s>", "</s>"
SPECIALS = (PAD, UNKNOWN, BEGIN, END)
CONTINUES = "@@"  # ends a piece that the next one continues


def learn(files: list[Path], out: Path, settings: LearnBpeSettings) -> dict[str, Any]:
    """Learn from all `files` together; write `codes` and `vocabulary.tsv` into `out` and return counts."""
    words = Counter(word for path in files for line in read_lines(path) for word in line.split(" ") if word)
    if not any(len(word) > 1 for word in words):
        raise CorpusError("the training text holds no word of two letters or more, so there is nothing to merge")
    with progress("learn_bpe", settings.merges, "merges") as advance:
        merges = learn_merges(words, settings.merges, settings.min_frequency, advance)
    codes = ("#version: 0.2\n", *(f"{left} {right}\n" for left, right in merges))  # subword-nmt's own format
    (out / "codes").write_text("".join(codes), encoding="utf-8")
    pieces = vocabulary(words, Segmenter(out / "codes"), settings)
    lines = (f"{piece}\t{count}\n" for piece, count in pieces)
    (out / "vocabulary.tsv").write_text("".join(lines), encoding="utf-8")
    return {
        "words": len(words),
        "merges": len(merges),
        "vocabulary": len(pieces),
        "pieces": sum(count for _, count in pieces),
    }


def vocabulary(words: Counter[str], segmenter: Segmenter, settings: LearnBpeSettings) -> list[tuple[str, int]]:
    """All pieces with their counts in the training text, in id order."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for piece in segmenter.word(word):
            counts[piece] += count
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    letters = {letter for word in words for letter in word}
    spellings = sorted({piece for letter in letters for piece in (letter, letter + CONTINUES)} - counts.keys())
    pieces = [*((special, 0) for special in SPECIALS), *ranked, *((piece, 0) for piece in spellings)]
    missing = -len(pieces) % settings.pad_vocabulary_to
    return pieces + [(f"<unused{number}>", 0) for number in range(missing)]


class Segmenter:
    """Splits words into pieces by learnt merges; each distinct word is split once."""

    def __init__(self, codes: Path) -> None:
        with codes.open(encoding="utf-8") as file:
            self.bpe = BPE(file, separator=CONTINUES)
        self.known: dict[str, tuple[str, ...]] = {}

    def word(self, word: str) -> tuple[str, ...]:
        """The pieces of one token."""
        pieces = self.known.get(word)
        if pieces is None:
            pieces = self.known[word] = tuple(self.bpe.segment_tokens([word]))
        return pieces

    def line(self, line: str) -> list[str]:
        """The pieces of a line of tokens."""
        return [piece for word in line.split(" ") if word for piece in self.word(word)]


def join(pieces: list[str]) -> str:
    """The line of tokens that `pieces` spell: what `Segmenter.line` took apart."""
    return (" ".join(pieces) + " ").replace(CONTINUES + " ", "").rstrip(" ")


def read_vocabulary(path: Path) -> list[str]:
    """The pieces of `vocabulary.tsv`, in id order."""
    return [line.rpartition("\t")[0] for line in read_lines(path)]
