"""The command `wmtflow`. Prefect and TensorFlow are imported only by the commands that need them."""

from __future__ import annotations

import os
import signal
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt import runs
from nmt.config import Experiment, ScoreSettings, StageName, data_folder, load
from nmt.errors import RequestError, WmtflowError, choices
from nmt.store.plan import ORDER, plan, require_earlier
from nmt.store.store import Store

if TYPE_CHECKING:
    from nmt.scoring.metrics import Scores

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The WMT16 English-German Transformer experiment, end to end.",
)


class Numbers(str, Enum):
    """What CTranslate2 can store a matrix as."""

    int8 = "int8"
    int8_float16 = "int8_float16"
    int16 = "int16"
    float16 = "float16"
    float32 = "float32"


Config = Annotated[str, typer.Argument(help="settings file, or a name in config/ such as demo", show_default=False)]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="name of a finished run: see wmtflow runs", show_default=False)
]
Overrides = Annotated[list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="change one setting")]
Name = Annotated[str | None, typer.Option("--name", help="name of the run; default: the settings file's")]


@app.command()
def run(
    config: Config,
    overrides: Overrides = None,
    name: Name = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="STAGE", help="begin here; earlier stages must be in the store")
    ] = None,
    only: Annotated[str | None, typer.Option("--only", metavar="STAGE", help="run this stage alone")] = None,
    force: Annotated[bool, typer.Option("--force", help="make the stages again even if they are in the store")] = False,
    mirror: Annotated[Path | None, typer.Option("--mirror", help="folder to look for downloads in first")] = None,
) -> None:
    """Run an experiment: what is in the store is reused, the rest is done."""
    if start and only:
        raise RequestError("--from and --only exclude each other")
    changes = [*(overrides or []), *([f"download.mirror={mirror}"] if mirror else [])]
    first, last = stage_name(only or start), stage_name(only)
    # A wrong request ends here, before Prefect is started.
    chosen = load(config, changes, name)
    require_earlier(plan(chosen, Store(data_folder() / "store"), runs.previous_keys(chosen.name)), first)
    # Prefect passes SIGTERM on when it has dealt with it: leave by the door, so that its server is stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ.setdefault(
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120"
    )  # its default is short for a busy machine
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    from flows import console
    from flows.experiment import experiment

    console.use()
    named = experiment.with_options(flow_run_name=chosen.name)
    result = named(config, overrides=changes, name=name, start=first, until=last, force=force)
    if result is not None:
        show_result(result)


@app.command()
def status(
    config: Config,
    overrides: Overrides = None,
    name: Name = None,
    verify: Annotated[bool, typer.Option("--verify", help="hash every stored file, however large")] = False,
) -> None:
    """Show for each stage whether it is cached or would run, and why."""
    experiment = load(config, overrides or [], name)
    planned = plan(experiment, Store(data_folder() / "store"), runs.previous_keys(experiment.name), thorough=verify)
    for item in planned:
        word = "cached" if item.cached else "run"
        typer.echo(f"{item.key.stage:<10} {item.key.digest}  {word:<7} {item.reason}")


@app.command("runs")
def list_runs() -> None:
    """List finished runs with their scores."""
    for name in runs.names():
        result = runs.read(name)
        typer.echo(f"{name:<20} BLEU {result.bleu:6.2f}  chrF {result.chrf:6.2f}  {result.report}")


@app.command()
def translate(
    run_name: Annotated[
        str, typer.Argument(metavar="RUN", help="name of a finished run, or an exported folder", show_default=False)
    ],
    beam: Annotated[
        int | None, typer.Option(min=1, max=64, help="hypotheses kept; default: as the run was scored")
    ] = None,
) -> None:
    """Translate the lines of standard input to standard output."""
    from nmt.corpus.text import chunks
    from nmt.decoding.translate import Translator

    if (Path(run_name) / "model.bin").is_file():
        model, settings = Path(run_name), ScoreSettings()
    else:
        result = runs.read(run_name)
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
    size = export_again(Path(result.model), out, result.experiment.train.heads, numbers.value)
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
def clean(
    keep: Annotated[int, typer.Option(min=0, help="most recent runs whose outputs are kept")] = 3,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be freed")] = False,
) -> None:
    """Free the disk of stage outputs that no kept run needs."""
    from nmt.store.free import free

    kept, freed, size = free(data_folder(), keep, dry_run)
    typer.echo(f"kept runs: {', '.join(kept) or 'none'}")
    for path in freed:
        typer.echo(f"{'would free' if dry_run else 'freed'}  {path}")
    typer.echo(f"{size / 1e6:,.1f} MB {'would be freed' if dry_run else 'freed'}")


def stage_name(name: str | None) -> StageName | None:
    """A stage by its name; an unknown one is refused with the nearest."""
    if name is None:
        return None
    for valid in ORDER:
        if name == valid:
            return valid
    raise RequestError(f"no stage '{name}'; {choices(name, ORDER)}")


def show_result(result: runs.Result) -> None:
    """The last lines of a run."""
    width = max(len(stage.name) for stage in result.stages)
    for stage in result.stages:
        typer.echo(
            f"{stage.name:<{width}}  {'cached' if stage.cached else f'{stage.seconds:.1f} s':>9}  {stage.reason}"
        )
    show_scores("test", result, result.experiment)
    typer.echo(f"report: {result.report}")


def show_scores(name: str, scores: runs.Result | Scores, experiment: Experiment) -> None:
    """Scores with their signatures; for a model without case, also the one that papers on such models give."""
    typer.echo(f"BLEU {scores.bleu:.2f} on {name}  ({scores.signature})\nchrF {scores.chrf:.2f}")
    if experiment.tokenize.lowercase and scores.tokens_bleu is not None:
        typer.echo(f"BLEU {scores.tokens_bleu:.2f} on its lower-cased tokens  ({scores.tokens_signature})")


def main() -> None:
    """Run the command; an error a person can act on becomes one message and its exit status."""
    try:
        app()
    except WmtflowError as error:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left; nothing more to say
        sys.exit(1)


if __name__ == "__main__":
    main()
