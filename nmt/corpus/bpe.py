"""learn_bpe: tokenized training text in → merges (`codes`), the joint vocabulary and word counts (`*.tsv`).

The merges are those that subword-nmt would learn, and it applies them. The vocabulary is ours: four
special pieces, every piece that segmenting the training text gives, most frequent first, then every
character seen, so that any word in the same letters can be written, and padding up to a round size.
"""

from __future__ import annotations

import ctypes
import gc
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import repeat
from pathlib import Path
from typing import Any

from subword_nmt import apply_bpe
from subword_nmt.apply_bpe import BPE

from nmt.config import LearnBpeSettings
from nmt.corpus.blocks import Block, Workers, blocks
from nmt.corpus.merges import Vocabulary, Word, learn_merges
from nmt.corpus.text import chunks, read_lines
from nmt.errors import CorpusError
from nmt.progress import progress

PAD, UNKNOWN, BEGIN, END = "<pad>", "<unk>", "<s>", "</s>"
SPECIALS = (PAD, UNKNOWN, BEGIN, END)
CONTINUES = "@@"  # ends a piece that the next one continues
COUNTED = 250_000  # lines in one table of counts: the more, the fewer tables have to be added up
SPLIT = 20_000  # lines whose words are in memory at once
REMEMBERED = 500_000  # words whose pieces are kept; some 100 MB


def learn(files: list[Path], out: Path, settings: LearnBpeSettings) -> dict[str, Any]:
    """Learn from all `files` together; write `codes`, `vocabulary.tsv` and `words.tsv` into `out` and return counts."""
    with uncollected():
        return learn_uncollected(files, out, settings)


@contextmanager
def uncollected() -> Iterator[None]:
    """Without Python's search for cycles: there are none, and looking for them is a third of all the time.

    Afterwards the C library is made to give back what millions of small objects took; else it keeps it for itself.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
        gc.collect()
        with suppress(AttributeError):  # not every C library has it
            ctypes.CDLL(None).malloc_trim(0)


def learn_uncollected(files: list[Path], out: Path, settings: LearnBpeSettings) -> dict[str, Any]:
    """The work of `learn`."""
    words = count_words(files, out / "words.tsv", settings)
    table = Vocabulary(read_counts(out / "words.tsv"))
    with progress("learn_bpe", settings.merges, "merges") as advance:
        merges = learn_merges(table, settings.merges, settings.min_frequency, advance)
    if not merges:
        raise CorpusError(
            f"no two letters stand side by side {settings.min_frequency} times in the training text, so there is "
            "nothing to merge. Give more text, or lower learn_bpe.min_frequency."
        )
    codes = ("#version: 0.2\n", *(f"{left} {right}\n" for left, right in merges))  # subword-nmt's own format
    (out / "codes").write_text("".join(codes), encoding="utf-8")
    counts = write_segments(out / "words.tsv", Segmenter(out / "codes"), table.segments())
    if settings.min_count > 1:
        # Never empty: subword-nmt takes an empty vocabulary for none at all.
        frequent = [PAD, *(piece for piece, count in counts.items() if count >= settings.min_count)]
        counts = write_segments(out / "words.tsv", Segmenter(out / "codes", frequent), repeat(None))
    pieces = vocabulary(counts, settings)
    listing = (f"{piece}\t{count}\n" for piece, count in pieces)
    (out / "vocabulary.tsv").write_text("".join(listing), encoding="utf-8")
    return {"words": words, "merges": len(merges), "vocabulary": len(pieces), "pieces": counts.total()}


def count_words(files: list[Path], out: Path, settings: LearnBpeSettings) -> int:
    """Write each distinct word of `files` and its count to `out`, most frequent first; returns how many there are."""
    words: Counter[str] = Counter()
    with Workers(settings.workers, files) as workers, progress("count words", None, "lines") as advance:
        jobs = ((block,) for path in files for block in blocks(path, COUNTED))
        for found, lines in workers.map(count_block, jobs):
            words.update(found)
            advance(lines)
    if not any(len(word) > 1 for word in words):
        raise CorpusError("the training text holds no word of two letters or more, so there is nothing to merge")
    if odd := [word for word in words if word in SPECIALS or "\t" in word]:
        raise CorpusError(f"the text is not tokenized: {odd[0]!r} cannot be a word. Was it made by tokenize?")
    # On disk, so that the table is not in memory while merges are learnt.
    with out.open("w", encoding="utf-8", newline="\n") as file:
        ranked = sorted(sorted(words), key=words.__getitem__, reverse=True)  # of equally frequent ones, A before B
        file.writelines(f"{word}\t{words[word]}\n" for word in ranked)
    return len(words)


def count_block(block: Block) -> tuple[Counter[str], int]:
    """The words of a block and how often each occurs; and the number of lines."""
    words: Counter[str] = Counter()
    for some in chunks(block.text(), SPLIT):
        words.update(" ".join(some).split(" "))
    del words[""]
    return words, block.lines


def read_counts(path: Path) -> Iterator[tuple[str, int]]:
    """Words (or pieces) and their counts, from a table that has them in its first two columns."""
    for line in read_lines(path):
        word, count = line.split("\t")[:2]
        yield word, int(count)


def write_segments(words: Path, segmenter: Segmenter, known: Iterable[Word | None]) -> Counter[str]:
    """Add the pieces of each word to the table `words` as a third column; returns how often each piece occurs.

    `known` says what the pieces are, word by word; where it says None, the segmenter is asked.
    """
    counts: Counter[str] = Counter()
    temporary = words.with_suffix(".partial")
    with temporary.open("w", encoding="utf-8", newline="\n") as file:
        for (word, count), pieces in zip(read_counts(words), known, strict=False):
            text = segmenter.known[word] if pieces is None else f"{CONTINUES} ".join(pieces)
            file.write(f"{word}\t{count}\t{text}\n")
            for piece in text.split(" "):
                counts[piece] += count
    temporary.replace(words)
    return counts


def vocabulary(counts: Counter[str], settings: LearnBpeSettings) -> list[tuple[str, int]]:
    """All pieces with their counts in the training text, in id order."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    letters = {letter for piece in counts for letter in piece.removesuffix(CONTINUES)}
    spellings = sorted({piece for letter in letters for piece in (letter, letter + CONTINUES)} - counts.keys())
    pieces = [*((special, 0) for special in SPECIALS), *ranked, *((piece, 0) for piece in spellings)]
    missing = -len(pieces) % settings.pad_vocabulary_to
    return pieces + [(f"<unused{number}>", 0) for number in range(missing)]


class Segmenter:
    """Splits words into pieces by learnt merges, as `subword-nmt apply-bpe --vocabulary` does.

    With a vocabulary, a piece that is not in it is taken apart again, so that rare words end as known pieces
    rather than as <unk>. Frequent words are split once.
    """

    def __init__(self, codes: Path, vocabulary: Iterable[str] | None = None) -> None:
        with codes.open(encoding="utf-8", newline="\n") as file:
            try:
                self.bpe = BPE(file, separator=CONTINUES, vocab=None if vocabulary is None else set(vocabulary))
            except SystemExit:  # how subword-nmt says that it cannot read its file
                raise CorpusError(f"{codes} is not a table of merges. Learn it again: --from learn_bpe") from None
        self.known = Pieces(self.bpe)

    def word(self, word: str) -> list[str]:
        """The pieces of one token."""
        return self.known[word].split(" ")

    def text(self, line: str) -> str:
        """The pieces of a line of tokens, joined by spaces: what `subword-nmt apply-bpe` prints."""
        return " ".join([self.known[word] for word in line.split(" ") if word])

    def line(self, line: str) -> list[str]:
        """The pieces of a line of tokens."""
        return self.text(line).split(" ") if line.strip(" ") else []

    def dropped(self, lines: list[str], share: float, seed: str) -> list[list[str]]:
        """The pieces of some lines with a share of the merges left out at random: `apply-bpe --dropout`."""
        apply_bpe.random = random.Random(seed)  # what it draws from; else numbers that every thread draws from
        found = [self.bpe.segment_tokens(line.split(" "), share) for line in lines]
        self.bpe.cache.clear()  # it would take these for the usual pieces of a word
        return found


class Pieces(dict[str, str]):
    """Word → its pieces, joined by spaces."""

    def __init__(self, bpe: BPE) -> None:
        self.bpe = bpe

    def __missing__(self, word: str) -> str:
        pieces = " ".join(self.bpe.segment_tokens([word]))
        self.bpe.cache.clear()  # it would keep every word for ever
        if len(self) < REMEMBERED:
            self[word] = pieces
        return pieces


def join(pieces: list[str]) -> str:
    """The line of tokens that `pieces` spell: what `Segmenter.line` took apart."""
    return (" ".join(pieces) + " ").replace(CONTINUES + " ", "").rstrip(" ")


def read_vocabulary(path: Path) -> list[str]:
    """The pieces of `vocabulary.tsv`, in id order."""
    return [piece for piece, _ in read_counts(path)]
