"""Rows of `rpmodels run real-data --preset paper`, one at a time, into lines of JSON with the seconds of CPU they took.

python benchmarks/real_data.py [--sets mc_maze reach …] [--models GPFA …] [--conditions 4 8] [--seeds 0 1 2]
    [--keep] [--out FILE]
python benchmarks/real_data.py --figures | --table

What FILE holds already is not run again. Numbers are the means over folds that the experiment reports. With --keep what
figures show of seed 0 (latents, behaviour, tuning of one fold) is kept in results/real-data, and --figures draws from
both what `rpmodels run real-data` draws, beside FILE.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from rpmodels.paper.experiments.experiment import Outcome, Row
from rpmodels.paper.experiments.real_data import EXPERIMENT
from rpmodels.persistence import write_json

ROOT = Path(__file__).parent.parent
OUT, KEPT = ROOT / "docs" / "results" / "real-data" / "rows.json", ROOT / "results" / "real-data"
NAMES = ("set", "condition", "model", "seed")
SETTINGS = EXPERIMENT.presets["paper"]


def wanted(given: Any) -> list[Row]:
    """Rows of the table, or those that were named."""
    return [
        row
        for row in EXPERIMENT.rows(SETTINGS)
        if (not given.sets or row.method in given.sets)
        and (not given.models or row.model in given.models)
        and (not given.conditions or float(row.condition.partition("=")[2]) in given.conditions)
    ]


def known(path: Path) -> list[dict[str, Any]]:
    """The rows of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def one(row: Row, seed: int, keep: bool) -> dict[str, Any]:
    """What the experiment measures, and the CPU's time."""
    began = time.process_time()
    outcome = EXPERIMENT.run(row, SETTINGS, seed)
    seconds = round(time.process_time() - began, 1)
    if keep and seed == 0 and "example" in outcome.extras:
        write_json(KEPT / f"{row.slug}.json", outcome.extras["example"])
    numbers = {name: round(value, 4) for name, value in outcome.metrics.items()}
    return {**named(row, seed), "cpu": seconds, **numbers}


def named(row: Row, seed: int) -> dict[str, Any]:
    """Whose line it is."""
    return dict(zip(NAMES, (row.method, row.condition, row.model, seed), strict=True))


def draw(path: Path) -> None:
    """The experiment's figures, of all that was run."""
    lines, outcomes = known(path), {}
    for row in EXPERIMENT.rows(SETTINGS):
        example = KEPT / f"{row.slug}.json"
        extras = {"example": json.loads(example.read_text(encoding="utf-8"))} if example.exists() else {}
        own = [each for each in lines if named(row, each["seed"]).items() <= each.items()]
        metrics = [{k: v for k, v in each.items() if k not in (*NAMES, "cpu")} for each in own]
        if own:
            outcomes[row] = [Outcome(each, extras) for each in metrics]
    EXPERIMENT.figures(outcomes, SETTINGS, path.parent)


def told(lines: list[dict[str, Any]]) -> str:
    """Markdown: a table for every set, the mean over seeds and, of several, the lowest and the highest."""
    found = []
    for name in dict.fromkeys(row.method for row in EXPERIMENT.rows(SETTINGS)):
        of_set = [each for each in lines if each["set"] == name]
        numbers = list(dict.fromkeys(key for each in of_set for key in each if key not in (*NAMES, "cpu")))
        found += [
            f"\n## {name}\n",
            f"| | method | {' | '.join(numbers)} | seeds | s |",
            "|---" * (len(numbers) + 4) + "|",
        ]
        for row in EXPERIMENT.rows(SETTINGS):
            own = [each for each in of_set if named(row, each["seed"]).items() <= each.items()]
            if own:
                cells = [_cell([each[key] for each in own if key in each]) for key in numbers]
                seconds = sum(each["cpu"] for each in own) / len(own)
                found.append(f"| {row.condition} | {row.model} | {' | '.join(cells)} | {len(own)} | {seconds:.0f} |")
    return "\n".join(found)


def _cell(values: list[float]) -> str:
    if not values:
        return ""
    mean, low, high = f"{sum(values) / len(values):.3f}", f"{min(values):.3f}", f"{max(values):.3f}"
    return mean if low == high else f"{mean} ({low} – {high})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", nargs="+", default=[])
    parser.add_argument("--models", nargs="+", default=[])
    parser.add_argument("--conditions", type=float, nargs="+", default=[])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--keep", action="store_true", help="keep what figures show")
    parser.add_argument("--figures", action="store_true", help="run nothing, and draw")
    parser.add_argument("--table", action="store_true", help="run nothing, and print means over seeds")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in given.seeds:
        for row in [] if given.figures or given.table else wanted(given):
            if any(named(row, seed).items() <= each.items() for each in known(given.out)):
                continue
            line = json.dumps(one(row, seed, given.keep))
            print(line, flush=True)
            with given.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
    if given.figures:
        draw(given.out)
    if given.table:
        print(told(known(given.out)))
