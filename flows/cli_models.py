"""Commands for models that are there: translate, export, score, report, champion."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt import runs
from nmt.config import Experiment
from nmt.errors import RequestError

if TYPE_CHECKING:
    from nmt.scoring.metrics import Scores

app = typer.Typer()


class Numbers(str, Enum):
    """What CTranslate2 can store a matrix as."""

    int8 = "int8"
    int8_float16 = "int8_float16"
    int16 = "int16"
    float16 = "float16"
    float32 = "float32"


RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="name of a finished run: see wmtflow runs", show_default=False)
]


@app.command()
def translate(
    run_name: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="a finished run, or an exported folder; default: the champion"),
    ] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, max=64, help="hypotheses kept; default: as the run was scored")
    ] = None,
) -> None:
    """Translate the lines of standard input to standard output."""
    from nmt import champions
    from nmt.corpus.text import chunks
    from nmt.decoding.export import decoding_of
    from nmt.decoding.translate import Translator

    if run_name and (Path(run_name) / "model.bin").is_file():
        model, settings = Path(run_name), decoding_of(Path(run_name))
    else:
        result = runs.read(run_name) if run_name else champions.chosen().result
        model, settings = Path(result.model), result.experiment.score
    translator = Translator(model, settings.model_copy(update={"beam": beam}) if beam else settings)
    lines = (line.removesuffix(b"\n").decode("utf-8", errors="replace") for line in sys.stdin.buffer)
    for chunk in chunks(lines, 1 if sys.stdin.isatty() else 1_000):
        for output in translator(chunk):
            sys.stdout.buffer.write(output.text.encode() + b"\n")
        sys.stdout.buffer.flush()


@app.command()
def export(
    run_name: RunName,
    out: Annotated[Path, typer.Argument(help="folder to write; must not exist", show_default=False)],
    numbers: Annotated[Numbers, typer.Option("--type", help="what matrices are stored as")] = Numbers.int8,
) -> None:
    """Write a run's model as a folder that CTranslate2 loads, small enough for a small device."""
    from nmt.decoding.export import export_again

    result = runs.read(run_name)
    settings = result.experiment
    size = export_again(Path(result.model), out, settings.train.heads, numbers.value, settings.score)
    typer.echo(f"{out}: {size / 1e6:,.1f} MB, {numbers.value}. Try it: wmtflow translate {out} < lines")


@app.command()
def score(
    run_name: RunName,
    test_set: Annotated[str | None, typer.Option(help="a test set of sacreBLEU's, such as wmt14/full")] = None,
    files: Annotated[tuple[Path, Path] | None, typer.Option(metavar="SOURCE TARGET", help="two parallel files")] = None,
) -> None:
    """Show a run's scores, or score its model on another test set."""
    result = runs.read(run_name)
    if test_set and files:
        raise RequestError("--test-set and --files exclude each other")
    if test_set is None and files is None:
        show_scores("test", result, result.experiment)
        return
    from nmt.corpus.download import sacrebleu_files
    from nmt.decoding.translate import Translator
    from nmt.scoring.score import score_files

    experiment = result.experiment
    if test_set:
        found = sacrebleu_files(test_set, (experiment.source, experiment.target))
        files = found[experiment.source], found[experiment.target]
    assert files is not None
    for path in files:
        if not path.is_file():
            raise RequestError(f"there is no file {path}")
    scores, _ = score_files(Translator(Path(result.model), experiment.score), *files, test_set or files[0].name)
    show_scores(test_set or files[0].name, scores, experiment)


@app.command()
def report(run_name: RunName) -> None:
    """Print the eleven answers of a run and the path of its report."""
    import json

    result = runs.read(run_name)
    for answer in json.loads((runs.folder(run_name) / "answers.json").read_text(encoding="utf-8")):
        typer.echo(f"{answer['number']:>2}. {answer['question']}\n    {answer['answer']}")
    typer.echo(f"\nreport: {result.report}")


@app.command()
def champion(
    name: Annotated[str | None, typer.Argument(help="whose champion; default: the one promoted last")] = None,
    roll_back: Annotated[bool, typer.Option("--rollback", help="use the version before the current one again")] = False,
    use: Annotated[int | None, typer.Option("--use", metavar="N", help="use this version")] = None,
) -> None:
    """Show the model that translates by default, and those it replaced; or go back to one of them."""
    from nmt import champions

    if roll_back and use is not None:
        raise RequestError("--rollback and --use exclude each other")
    if use is not None and name:  # also where the one in use cannot be read
        current = champions.use(name, use)
    else:
        current = champions.chosen(name)
        current = champions.use(current.name, use) if use is not None else current
    if roll_back:
        current = champions.roll_back(current.name)
    for each in champions.versions(current.name):
        sign = "*" if each.version == current.version else " "
        why = each.comparison.words() if each.comparison else f"BLEU {each.result.bleu:.2f}, the first of its name"
        typer.echo(f"{sign} {current.name} {each.version}  {each.promoted:%Y-%m-%d %H:%M}  {why}")
    typer.echo(f"model: {current.result.model}\nreport: {current.result.report}")


def show_scores(name: str, scores: runs.Result | Scores, experiment: Experiment) -> None:
    """Scores with their signatures; for a model without case, also the one that papers on such models give."""
    typer.echo(f"BLEU {scores.bleu:.2f} on {name}  ({scores.signature})\nchrF {scores.chrf:.2f}")
    if experiment.tokenize.lowercase and scores.tokens_bleu is not None:
        typer.echo(f"BLEU {scores.tokens_bleu:.2f} on its lower-cased tokens  ({scores.tokens_signature})")
