"""`rpmodels run`: every row and seed, each written as it finishes, continued where it stopped."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from rpmodels import checks, errors
from rpmodels.learning.distributed import communicator
from rpmodels.learning.parallel import parallel_each
from rpmodels.paper.experiments.experiment import Experiment, Outcome, Row
from rpmodels.persistence import write_json, write_text
from rpmodels.versions import versions

Task = tuple[Row, int]
Outcomes = dict[Row, list[Outcome]]


def run_experiment(
    experiment: Experiment,
    preset: str,
    *,
    seeds: int | None = None,
    methods: Sequence[str] = (),
    jobs: int = 1,
    out: Path | None = None,
    force: bool = False,
) -> Path:
    """Run what is not there yet, then write metrics.json, table.md and the figures; returns the folder."""
    if preset not in experiment.presets:
        raise errors.bad_choice("--preset", experiment.presets, preset)
    settings = experiment.presets[preset]
    count = experiment.default_seeds[preset] if seeds is None else seeds
    checks.integer("--seeds", count, 1)
    checks.integer("--jobs", jobs, 1)
    rows = _chosen(experiment.rows(settings), methods)
    folder = out or Path("results") / f"{experiment.name}-{preset}"
    group = communicator()  # its first process reads and writes for all of them
    group.first_does(lambda: _claim(folder, experiment, preset, settings, force))
    every = [(row, seed) for seed in range(count) for row in rows]
    tasks = group.first_does(lambda: [task for task in every if not _file(folder, *task).exists()])
    finished = parallel_each(_run_one, tasks, jobs, experiment, settings, folder)
    for done in tqdm(finished, total=len(tasks), desc=experiment.name, disable=not tasks or group.rank > 0):
        tqdm.write(done)
    if group.rank > 0:
        return folder
    outcomes = {row: [_read(_file(folder, row, seed)) for seed in range(count)] for row in rows}
    metrics = _metrics(experiment, preset, settings, outcomes)
    write_json(folder / "metrics.json", metrics)
    write_text(folder / "table.md", table(metrics))
    experiment.figures(outcomes, settings, folder)
    return folder


def _chosen(rows: Sequence[Row], methods: Sequence[str]) -> list[Row]:
    wanted = {method.lower() for method in methods}
    kept = [row for row in rows if not wanted or wanted & {row.model.lower(), row.method.lower()}]
    if not kept:
        names = sorted({name for row in rows for name in (row.model, row.method) if name})
        raise errors.unknown_method(list(methods), names)
    return kept


def _claim(folder: Path, experiment: Experiment, preset: str, settings: Any, force: bool) -> None:
    """The folder belongs to these settings. Results of others need --force; anything else is never touched."""
    wanted = {"experiment": experiment.name, "preset": preset, "settings": json.loads(json.dumps(asdict(settings)))}
    record = folder / "settings.json"
    if folder.exists() and not folder.is_dir():
        raise errors.not_a_folder(str(folder))
    if folder.exists() and any(folder.iterdir()):
        there = _record(record)
        if there is None:
            raise errors.foreign_folder(str(folder))
        differing = [key for key in wanted if there.get(key) != wanted[key]]
        if differing and not force:
            raise errors.other_settings(str(folder), differing)
        if differing:
            _clear(folder)
    write_json(record, wanted)


def _record(path: Path) -> dict[str, Any] | None:
    """The settings that a folder of ours holds; None for anything else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and {"experiment", "preset", "settings"} <= set(found) else None


def _clear(folder: Path) -> None:
    """Remove what an earlier run wrote, and only that."""
    for pattern in ("seeds/*.json", "metrics.json", "table.md", "*.png", "*.pdf", "*.gif", "settings.json"):
        for path in folder.glob(pattern):
            path.unlink()


def _file(folder: Path, row: Row, seed: int) -> Path:
    return folder / "seeds" / f"{row.slug}-{seed}.json"


def _run_one(task: Task, experiment: Experiment, settings: Any, folder: Path) -> str:
    row, seed = task
    started = time.perf_counter()
    outcome = experiment.run(row, settings, seed)
    metrics = {**outcome.metrics, "seconds": time.perf_counter() - started}
    if communicator().rank > 0:
        return ""
    write_json(_file(folder, row, seed), {"metrics": metrics, "extras": _finite(outcome.extras)})
    shown = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
    return f"{row.slug} seed {seed}: {shown}"


def _finite(value: Any) -> Any:
    """JSON has no NaN or infinity: a start that diverged becomes null, and the seed is kept."""
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _read(path: Path) -> Outcome:
    stored = json.loads(path.read_text(encoding="utf-8"))
    return Outcome(stored["metrics"], stored["extras"])


def _metrics(experiment: Experiment, preset: str, settings: Any, outcomes: Outcomes) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    paper = experiment.paper(settings)
    for row, each in outcomes.items():
        for metric in each[0].metrics:
            values = [float(outcome.metrics[metric]) for outcome in each]
            q1, median, q3 = (float(q) for q in np.percentile(values, [25, 50, 75]))
            rows.append(
                {
                    "model": row.model, "method": row.method, "condition": row.condition, "metric": metric,
                    "values": values, "median": median, "q1": q1, "q3": q3,
                    "mean": float(np.mean(values)), "sd": float(np.std(values)),
                    "paper": paper.get((row.slug, metric)),
                }
            )  # fmt: skip
    return {
        "experiment": experiment.name,
        "preset": preset,
        "settings": asdict(settings),
        "rows": rows,
        "seconds": sum(sum(row["values"]) for row in rows if row["metric"] == "seconds"),
        "versions": versions(),
    }


def table(metrics: Mapping[str, Any]) -> str:
    """Markdown, beside the paper's column."""
    seeds = len(metrics["rows"][0]["values"])
    lines = [
        f"# {metrics['experiment']}, preset {metrics['preset']}, {seeds} seed(s)",
        "",
        "| model | method | condition | metric | median [q1 – q3] | mean ± sd | worst – best | paper |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in metrics["rows"]:
        numbers = f"{row['median']:.4g} [{row['q1']:.4g} – {row['q3']:.4g}] | {row['mean']:.4g} ± {row['sd']:.2g}"
        span = f"{min(row['values']):.4g} – {max(row['values']):.4g}"
        names = " | ".join(row[key] for key in ("model", "method", "condition", "metric"))
        lines.append(f"| {names} | {numbers} | {span} | {row['paper'] or ''} |")
    return "\n".join(lines) + "\n"
