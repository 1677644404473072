"""The command `wmtflow`. Prefect and TensorFlow are imported only by the commands that need them."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from flows import cli_models
from flows.cli_models import show_scores
from nmt import runs
from nmt.config import StageName, data_folder, require_data_folder
from nmt.errors import RequestError, WmtflowError, choices
from nmt.settings_file import load
from nmt.store.plan import ORDER, plan, require_earlier
from nmt.store.store import Store

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The WMT16 English-German Transformer experiment, end to end.",
)
app.add_typer(cli_models.app)


Config = Annotated[str, typer.Argument(help="settings file, or a name in config/ such as demo", show_default=False)]
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
    first, last = stage_name(only or start or "preflight"), stage_name(only or "report")
    # A wrong request ends here, before Prefect is started.
    chosen = load(config, changes, name)
    require_earlier(plan(chosen, Store(data_folder() / "store"), runs.previous_keys(chosen.name)), first)
    start_prefect()
    from flows.experiment import experiment

    named = experiment.with_options(flow_run_name=chosen.name)
    result = named(config, overrides=changes, name=name or "", start=first, until=last, force=force)
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
def retrain(
    config: Config,
    overrides: Overrides = None,
    name: Name = None,
    tolerance: Annotated[float, typer.Option(min=0, max=100, help="BLEU it may lose where that may be chance")] = 0.5,
) -> None:
    """Run an experiment and make its model the champion, unless it is worse than the one there is."""
    load(config, overrides or [], name)  # a wrong request ends here, before Prefect is started
    start_prefect()
    from flows.retrain import retrain as flow

    state = flow(config, overrides=overrides or [], name=name or "", tolerance=tolerance, return_state=True)
    state.result()  # an error is shown as one message
    typer.echo(f"{state.name}: {state.message}")


@app.command()
def ui(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="of a server started here; default 4200")] = None,
) -> None:
    """Start Prefect's server and a worker with every deployment, in the foreground; Ctrl-C ends all of it."""
    from flows.ui import ui as serve

    serve(port, typer.echo)


@app.command()
def clean(
    keep: Annotated[int, typer.Option(min=0, help="most recent runs whose outputs are kept")] = 3,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be freed")] = False,
    unfinished: Annotated[bool, typer.Option("--unfinished", help="free trainings that were stopped, too")] = False,
) -> None:
    """Free the disk of stage outputs that no kept run needs."""
    from nmt.store.free import free

    freed = free(data_folder(), keep, dry_run, unfinished)
    typer.echo(f"kept runs: {', '.join(freed.runs) or 'none'}")
    for one in freed.unfinished:
        typer.echo(f"kept unfinished training: {one.folder}, step {one.step:,} (--unfinished frees it)")
    for path in freed.folders:
        typer.echo(f"{'would free' if dry_run else 'freed'}  {path}")
    typer.echo(f"{freed.size / 1e6:,.1f} MB {'would be freed' if dry_run else 'freed'}")


def start_prefect() -> None:
    """What holds for every flow that is run from a terminal."""
    # Prefect passes SIGTERM on when it has dealt with it: leave by the door, so that its server is stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ.setdefault(
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120"
    )  # its default is short for a busy machine
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", "30")  # as prefect.yaml has it: see flows/server.py
    from flows import address, console
    from nmt.cluster import guard

    require_data_folder()
    address.require()
    guard.stand_by()
    console.use()
    start_server()


def start_server() -> None:
    """Have Prefect start its temporary server, where it needs one, deaf to Ctrl-C.

    A terminal sends that to every process of a command; Prefect without its server would try for minutes to tell it of
    the end. What is blocked here stays so in the server, which Prefect ends by SIGTERM.
    """
    from prefect import get_client

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        get_client(sync_client=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stage_name(name: str) -> StageName:
    """A stage by its name; an unknown one is refused with the nearest."""
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
