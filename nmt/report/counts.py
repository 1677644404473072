"""What went into each stage of the data and what came out, as lines of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from nmt.config import Experiment
from nmt.report.shown import percent, size
from nmt.store.manifest import Manifest


@dataclass(frozen=True)
class Count:
    """A line of the table."""

    stage: str
    what: str
    value: str
    note: str = ""


Line = tuple[str, str, str]  # what was counted, how many, and a note


def counts(experiment: Experiment, manifests: Mapping[str, Manifest]) -> list[Count]:
    """The lines of those corpus stages whose manifests are given."""
    return [
        Count(stage, *line)
        for stage, lines in LINES.items()
        if stage in manifests
        for line in lines(experiment, manifests[stage])
    ]


def download(experiment: Experiment, manifest: Manifest) -> Iterator[Line]:
    """Pairs and bytes of each split."""
    for split in ("train", "dev", "test"):
        names = (f"{split}.{language}" for language in (experiment.source, experiment.target))
        files = [manifest.outputs[name] for name in names if name in manifest.outputs]
        if files:
            yield f"{split} pairs", f"{files[0].lines or 0:,}", " + ".join(size(file.bytes) for file in files)


def clean(experiment: Experiment, manifest: Manifest) -> Iterator[Line]:
    """Pairs read, dropped for each reason, kept and repaired."""
    found = manifest.counts
    yield "pairs read", f"{found['read']:,}", ""
    for why, number in found["dropped"].items():
        yield f"dropped: {why}", f"{number:,}", percent(number / found["read"])
    kept = size(sum(manifest.outputs[f"train.{language}"].bytes for language in (experiment.source, experiment.target)))
    yield "pairs kept", f"{found['kept']:,}", f"{percent(found['kept'] / found['read'])}, {kept}"
    yield "kept after folding white space", f"{found['repaired']:,}", ""


def tokenize(_: Experiment, manifest: Manifest) -> Iterator[Line]:
    """Tokens of each file."""
    for name, found in manifest.counts.items():
        each = f"{found['tokens'] / max(found['lines'], 1):.1f} per line"
        yield f"{name} tokens", f"{found['tokens']:,}", each


def learn_bpe(experiment: Experiment, manifest: Manifest) -> Iterator[Line]:
    """Words, merges and the vocabulary."""
    found = manifest.counts
    yield "distinct words", f"{found['words']:,}", ""
    yield "merges learnt", f"{found['merges']:,}", f"{experiment.learn_bpe.merges:,} asked for"
    yield "vocabulary", f"{found['vocabulary']:,}", "pieces, shared by both sides"


def shuffle(experiment: Experiment, manifest: Manifest) -> Iterator[Line]:
    """Pairs and pieces of each encoded split."""
    for split, found in manifest.counts.items():
        encoded = sum(file.bytes for name, file in manifest.outputs.items() if name.startswith(f"{split}."))
        copies = experiment.shuffle.copies if split == "train" else 1
        again = f"each {copies} times, in other pieces, " if copies > 1 else ""
        yield (
            f"{split} pairs encoded",
            f"{found['pairs']:,}",
            f"{again}{size(encoded)}, {found['too_long']:,} too long left out",
        )
        pieces = found["source_pieces"] + found["target_pieces"]
        sides = ", ".join(f"{found[f'{side}_pieces']:,} {getattr(experiment, side)}" for side in ("source", "target"))
        yield f"{split} pieces", f"{pieces:,}", f"{sides}, {found['unknown']:,} unknown"


LINES: dict[str, Callable[[Experiment, Manifest], Iterator[Line]]] = {
    "download": download,
    "clean": clean,
    "tokenize": tokenize,
    "learn_bpe": learn_bpe,
    "shuffle": shuffle,
}
