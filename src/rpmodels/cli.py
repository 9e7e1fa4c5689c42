"""The commands: models of your own data (fit, transform, info), data sets, experiments and their pages."""

import json
from pathlib import Path
from typing import Annotated

import typer

from rpmodels.commands.decoding import decode_files
from rpmodels.commands.fitting import fit_files
from rpmodels.commands.info import as_text, describe
from rpmodels.commands.listing import list_data_sets
from rpmodels.commands.models import counting, names_of
from rpmodels.commands.reading import Reading, parse_bins, parse_factors, parse_unit
from rpmodels.commands.reporting import report as make_report
from rpmodels.commands.transforming import transform_files
from rpmodels.errors import RPModelsError
from rpmodels.learning.distributed import process_group, silently
from rpmodels.paper.experiments.experiment import every_experiment, experiment_named
from rpmodels.paper.experiments.runner import run_experiment
from rpmodels.report import build_demo
from rpmodels.versions import show_versions

app = typer.Typer(
    help="Recognition-parametrised models: fits to your own data, experiments and reports.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="DATA...",
        help=".npz (every array a factor), .npy (several: factors named by their files), or one .csv or .parquet.",
    ),
]
Factors = Annotated[
    list[str] | None,
    typer.Option(
        "--factor",
        metavar="NAME=COLUMN,...",
        help="Columns of a table, ranges too (u0:u29; of an .npy: numbers, 0:3); of events: units; repeatable.",
    ),
]
Trial = Annotated[str | None, typer.Option(metavar="COLUMN", help="Table: to which trial a row belongs.")]
Time = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Table: when a row was; hmm counts rows and only orders them by it."),
]
Align = Annotated[bool, typer.Option("--align", help="Count --time from the first row of every trial.")]
Events = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Table of events (a row each, with --time): the column that names the unit."),
]
Bin = Annotated[
    str | None,
    typer.Option("--bin", metavar="SECONDS", help="Of events (default 0.02); fit chooses of several: 0.02,0.04,0.08."),
]
Epochs = Annotated[
    Path | None, typer.Option(metavar="TABLE", help="Of events: columns start and end of every trial, in its unit.")
]
TimeUnit = Annotated[
    str | None, typer.Option(metavar="UNIT", help="Of events: s (default), ms, us, ns, or seconds of a sample.")
]
AsJson = Annotated[bool, typer.Option("--json", help="For machines.")]


@app.command(
    epilog="Example: rpmodels fit answers.csv --model categorical --states 3 --factor left=a,b,c --factor right=d,e "
    "--set max_iter=500 --out answers-fit"
)
def fit(
    data: Files,
    model: Annotated[str, typer.Option(metavar="NAME", help=f"One of {names_of(lambda _: True)}.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where everything goes.")],
    latents: Annotated[int | None, typer.Option(metavar="K", help=f"Of {counting('latents')}.")] = None,
    states: Annotated[
        int | None, typer.Option("--states", "--topics", metavar="K", help=f"Of {counting('states')}.")
    ] = None,
    factor: Factors = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="FACTOR", help="A factor of one column whose numbers are labels; repeatable."),
    ] = None,
    trial: Trial = None,
    time: Time = None,
    align: Align = False,
    events: Events = None,
    bins: Bin = None,
    epochs: Epochs = None,
    time_unit: TimeUnit = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="ARGUMENT=VALUE", help="Any argument of the estimator, as JSON; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same number gives the same fit.")] = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep the fit there: the same command goes on after a kill.")
    ] = None,
    checkpoint_every: Annotated[float, typer.Option(metavar="SECONDS", help="Between two checkpoints.")] = 30.0,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier fit in FOLDER.")] = False,
) -> None:
    """Fit a model to your own data: model, latents, history, record and a page in FOLDER. Ctrl-C keeps the best."""
    reading = _reading(factor, label, trial, time, align, events, bins, epochs, time_unit)
    fitted = fit_files(
        data, model, out, reading, latents=latents, states=states, settings=settings or (), seed=seed,
        checkpoint=checkpoint, checkpoint_every=checkpoint_every, force=force,
    )  # fmt: skip
    typer.echo(repr(fitted.score_))
    typer.echo(f"Written to {out}")


@app.command(epilog="Example: rpmodels transform answers-fit/model.rpm new-answers.csv --out new-latents.csv")
def transform(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file that `fit` or Python's save wrote.")],
    data: Files,
    out: Annotated[Path, typer.Option(metavar="FILE", help=".npz or .csv.")],
    factor: Factors = None,
    trial: Trial = None,
    time: Time = None,
    align: Align = False,
    events: Events = None,
    bins: Bin = None,
    epochs: Epochs = None,
    time_unit: TimeUnit = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it is there.")] = False,
) -> None:
    """Latents of new data, from whatever factors they hold; options default to those of the fit beside MODEL."""
    reading = _reading(factor, None, trial, time, align, events, bins, epochs, time_unit)
    transform_files(model, data, out, reading, force=force)
    typer.echo(f"Written to {out}")


@app.command(epilog="Example: rpmodels decode spikes-fit position.csv --y x,y --trial trial --time time")
def decode(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Of a fit of a table with trials and times.")],
    data: Annotated[Path, typer.Argument(metavar="TABLE", help="Behaviour at its own rate, .csv or .parquet.")],
    y: Annotated[str, typer.Option("--y", metavar="COLUMN,...", help="What is to be read: numbers, or one of labels.")],
    trial: Trial = None,
    time: Time = None,
    align: Align = False,
    kind: Annotated[str, typer.Option(help="ridge (of labels: logistic regression) or knn.")] = "ridge",
    how: Annotated[
        str, typer.Option(help="Behaviour in bins: mean, linear, nearest; auto says which it was.")
    ] = "auto",
    folds: Annotated[int, typer.Option(help="Of trials.")] = 5,
) -> None:
    """Read behaviour from the latents of a fit, on trials that the decoder has not seen (the model has)."""
    reading = _reading(None, None, trial, time, align, None, None, None, None)
    typer.echo(repr(decode_files(folder, data, y.split(","), reading, kind=kind, how=how, cv=folds)))


@app.command(epilog="Example: rpmodels info answers-fit/model.rpm")
def info(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A model file, or the folder of a fit or a run.")],
    as_json: AsJson = False,
) -> None:
    """Tell what a model file or a folder of results holds."""
    about = describe(path)
    typer.echo(json.dumps(about, indent=1, ensure_ascii=False) if as_json else as_text(about))


@app.command(epilog="Example: rpmodels datasets")
def datasets(as_json: AsJson = False) -> None:
    """List the data sets: what they are, whose, what they need, and where they are on this machine."""
    typer.echo(list_data_sets(as_json))


@app.command(epilog="Example: rpmodels run textured-ball --preset quick --seeds 3 --out balls")
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


@app.command(epilog="Example: rpmodels experiments")
def experiments() -> None:
    """List the experiments."""
    for name, experiment in sorted(every_experiment().items()):
        typer.echo(f"{name:20} {experiment.summary} (presets: {', '.join(experiment.presets)})")


@app.command(epilog="Example: rpmodels report results/textured-ball-quick --out balls.html")
def report(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The folder of a run or of a fit, or a model file.")],
    data: Annotated[
        list[Path] | None, typer.Argument(metavar="[DATA]...", help="For a model: data to show it on, as in `fit`.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The page; default report.html in the folder.")] = None,
    factor: Factors = None,
    trial: Trial = None,
    time: Time = None,
    align: Align = False,
    events: Events = None,
    bins: Bin = None,
    epochs: Epochs = None,
    time_unit: TimeUnit = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the page if it is there.")] = False,
) -> None:
    """Make a self-contained HTML page: tables and pictures of a run, or latents and diagnostics of a model."""
    reading = _reading(factor, None, trial, time, align, events, bins, epochs, time_unit)
    typer.echo(f"Written to {make_report(path, data or (), reading, out, force)}")


@app.command(epilog="Example: rpmodels demo --out demo/report.html")
def demo(
    out: Annotated[Path, typer.Option(help="The page.")] = Path("demo/report.html"),
    force: Annotated[bool, typer.Option("--force", help="Replace the page if it is there.")] = False,
) -> None:
    """Four small fits, made now, as one page to look at and play with."""
    typer.echo(f"Written to {build_demo(out, force, typer.echo)}")


@app.command(epilog="Example: rpmodels versions")
def versions() -> None:
    """Print versions, for bug reports."""
    show_versions()


def _reading(
    factor: list[str] | None, label: list[str] | None, trial: str | None, time: str | None, align: bool,
    events: str | None, bins: str | None, epochs: Path | None, time_unit: str | None,
) -> Reading:  # fmt: skip
    """The options that say how files become factors."""
    where = None if epochs is None else str(epochs)
    return Reading(
        parse_factors(factor or ()), label or (), trial, time, align, events, parse_bins(bins), where,
        parse_unit(time_unit),
    )  # fmt: skip


def main() -> None:
    """Entry point: our own errors become one sentence and exit code 2. Under torchrun, all processes work together."""
    try:
        with process_group() as group:
            app() if group.rank == 0 else silently(app)
    except (RPModelsError, OSError) as failure:
        typer.echo(f"rpmodels: {failure}", err=True)
        raise SystemExit(2) from failure
