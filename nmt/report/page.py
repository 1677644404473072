"""The report as a page to read (`page.html.j2`) and as Markdown for Prefect's artifacts (`page.md.j2`).

Text from corpora can hold anything. Every value that enters a template is escaped for its format; only
the drawings, which are made here, go in as they are.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config import Experiment
from nmt.report.answers import Answer
from nmt.report.counts import counts
from nmt.report.facts import Facts, Sample, set_name
from nmt.report.files import role
from nmt.report.plots import Plot
from nmt.report.shown import size, span

HERE = Path(__file__).resolve().parent
SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")
LONGEST = 300  # characters shown of a dropped pair's side


@dataclass(frozen=True)
class Tile:
    """A headline figure."""

    label: str
    value: str
    note: str
    signature: str = ""


@dataclass(frozen=True)
class Setting:
    """A setting; `default` is None where the value is the default."""

    name: str
    value: str
    default: str | None


Words = list[tuple[str, bool]]  # a text's words, each with whether the other text lacks it there


def html(facts: Facts, answers: list[Answer], plots: list[Plot]) -> str:
    """The whole page, styles and drawings included."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    css = (HERE / "page.css").read_text(encoding="utf-8")
    return templates.get_template("page.html.j2").render(context(facts, answers), plots=plots, css=css)


def markdown(facts: Facts, answers: list[Answer], plots: list[Plot]) -> str:
    """The same facts as Markdown; of the drawings, their captions."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(  # no HTML here: `finalize` escapes every value for Markdown
        loader=FileSystemLoader(HERE),
        finalize=escape_markdown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template("page.md.j2").render(context(facts, answers), plots=plots)


def escape_markdown(value: Any) -> str:
    """A value as one line of Markdown that shows it literally."""
    return SPECIAL.sub(r"\\\1", " ".join(str(value).split()))


def context(facts: Facts, answers: list[Answer]) -> dict[str, Any]:
    """What both templates are given."""
    manifests = facts.manifests.values()
    return {
        "experiment": facts.experiment,
        "tiles": tiles(facts),
        "answers": answers,
        "counts": counts(facts.experiment, facts.manifests),
        "samples": [(sample, *compared(sample)) for sample in facts.samples],
        "test_set": set_name(facts.experiment, "test"),
        "dropped": {
            reason: [(clip(left), clip(right)) for left, right in pairs] for reason, pairs in facts.dropped.items()
        },
        "checkpoint": [(name, role(name), f"{count:,}", size(count)) for name, count in facts.checkpoint.items()],
        "checkpoint_bytes": f"{sum(facts.checkpoint.values()):,}",
        "checkpoint_total": size(sum(facts.checkpoint.values())),
        "stages": [(m.stage, m.key, span(m.seconds), size(m.bytes), m.host, m.created) for m in manifests],
        "settings": settings(facts.experiment),
        "versions": versions(facts),
    }


def tiles(facts: Facts) -> list[Tile]:
    """The headline: scores with their signatures, then time, speed and size."""
    test, dev, summary = facts.scores["test"], facts.scores["dev"], facts.summary
    names = {
        split: f"{set_name(facts.experiment, split)}, {facts.scores[split]['sentences']:,} sentences"
        for split in ("test", "dev")
    }
    speeds = sorted(float(row["tokens_per_second"]) for row in facts.trains)
    ranks = facts.experiment.train.ranks
    return [
        Tile("Test BLEU", f"{test['bleu']:.2f}", names["test"], test["signature"]),
        *on_tokens(facts),
        Tile("Test chrF", f"{test['chrf']:.2f}", names["test"], test["chrf_signature"]),
        Tile("Dev BLEU", f"{dev['bleu']:.2f}", names["dev"], dev["signature"]),
        Tile(
            "Training time",
            span(summary["training_seconds"]),
            f"{summary['steps']:,} steps on {ranks} rank{'s' * (ranks > 1)}",
        ),
        Tile(
            "Tokens per second",
            f"{speeds[len(speeds) // 2]:,.0f}",
            f"target pieces, all ranks, median; in {facts.experiment.train.precision}",
        ),
        Tile("Parameters", f"{summary['parameters']:,}", f"checkpoint {size(sum(facts.checkpoint.values()))}"),
    ]


def on_tokens(facts: Facts) -> list[Tile]:
    """For a model without case: the score that papers on such models give."""
    test = facts.scores["test"]
    if not facts.experiment.tokenize.lowercase:
        return []
    note = "lower-cased; not comparable with the other"
    return [Tile("Test BLEU on tokens", f"{test['tokens_bleu']:.2f}", note, test["tokens_signature"])]


def compared(sample: Sample) -> tuple[Words, Words]:
    """A sample's reference and output word by word, marking where they differ."""
    reference, output = sample.reference.split(), sample.output.split()
    matcher = difflib.SequenceMatcher(a=reference, b=output, autojunk=False)
    same = matcher.get_matching_blocks()
    left = {block.a + offset for block in same for offset in range(block.size)}
    right = {block.b + offset for block in same for offset in range(block.size)}
    return (
        [(word, number not in left) for number, word in enumerate(reference)],
        [(word, number not in right) for number, word in enumerate(output)],
    )


def clip(text: str) -> str:
    """A text short enough to show."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def settings(experiment: Experiment) -> dict[str, list[Setting]]:
    """Every setting by section, those of none first, as YAML would write it, with the default where it differs."""
    chosen, defaults = experiment.model_dump(mode="json"), Experiment().model_dump(mode="json")
    found: dict[str, list[Setting]] = {"": []}
    for name, value in chosen.items():
        if isinstance(value, dict):
            found[name] = [setting(inner, value[inner], defaults[name][inner]) for inner in value]
        else:
            found[""].append(setting(name, value, defaults[name]))
    return found


def setting(name: str, value: Any, default: Any) -> Setting:
    """One setting beside its default."""
    return Setting(name, plain(value), None if value == default else plain(default))


def plain(value: Any) -> str:
    """A setting's value; words stand without quotes."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def versions(facts: Facts) -> list[tuple[str, str, str]]:
    """(package, version, stages it was used in): more than one line for a package that changed between stages."""
    found: dict[tuple[str, str], list[str]] = {}
    for stage, manifest in facts.manifests.items():
        for package, version in {**manifest.versions, **manifest.libraries}.items():
            found.setdefault((package, version), []).append(stage)
    everywhere = len(facts.manifests)
    return [
        (*key, "all stages" if len(stages) == everywhere else ", ".join(stages))
        for key, stages in sorted(found.items())
    ]
