"""The commands: `rpmodels run`, `rpmodels report`, `rpmodels versions`."""

from pathlib import Path
from typing import Annotated

import typer

from rpmodels.errors import RPModelsError
from rpmodels.experiments.experiment import every_experiment, experiment_named
from rpmodels.experiments.runner import run_experiment
from rpmodels.report import build_page
from rpmodels.versions import show_versions

app = typer.Typer(
    help="Recognition-parametrised models: experiments and reports.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="The experiment; see `rpmodels experiments`.")],
    preset: Annotated[
        str, typer.Option(help="quick (under a minute, no download) or paper (the paper's size).")
    ] = "quick",
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds; default 1 for quick, the paper's for paper.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Keep only rows of this model or method; repeatable.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Seeds and rows at once, one thread each.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder; default results/NAME-PRESET.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace results of other settings.")] = False,
) -> None:
    """Run an experiment: metrics.json, table.md and figures; continues where it stopped."""
    folder = run_experiment(
        experiment_named(name), preset, seeds=seeds, methods=method or (), jobs=jobs, out=out, force=force
    )
    typer.echo((folder / "table.md").read_text(encoding="utf-8"))
    typer.echo(f"Written to {folder}")


@app.command()
def experiments() -> None:
    """List the experiments."""
    for name, experiment in sorted(every_experiment().items()):
        typer.echo(f"{name:20} {experiment.summary} (presets: {', '.join(experiment.presets)})")


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a run.")],
    out: Annotated[Path | None, typer.Option(help="The page; default FOLDER/report.html.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the page if it is there.")] = False,
) -> None:
    """Make a self-contained HTML page from the folder of a run."""
    typer.echo(f"Written to {build_page(folder, out or folder / 'report.html', force)}")


@app.command()
def versions() -> None:
    """Print versions, for bug reports."""
    show_versions()


def main() -> None:
    """Entry point: our own errors become one sentence and exit code 2."""
    try:
        app()
    except (RPModelsError, OSError) as failure:
        typer.echo(f"rpmodels: {failure}", err=True)
        raise SystemExit(2) from failure
