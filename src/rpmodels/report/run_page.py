"""The page of a run of `rpmodels run`: its table beside the paper's numbers, its pictures, how to make it again."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rpmodels.report import html

_ALT = {
    "accuracy": "Accuracy against the entropy of the average posterior for every seed, and confusion matrices",
    "learning_curve": "Free energy and its terms against the training step, below the ceiling",
    "learning_curves": "Free energies against the training step, one curve for each method",
    "recovery": "Recovered latent paths of held-out trials with 90 % bands, against the truth",
    "nmse": "Normalised mean squared error of every seed, one column for each model",
    "integration": "Frames of the video, the four ranges over time, and four paths of the agent coloured by corner",
    "missing_sensors": "Posterior bands through an episode whose middle half lacks sensors",
    "contact_sheet": "Episodes of the arena, twenty frames each",
}


def run_page(folder: Path) -> str:
    """From metrics.json and the pictures beside it."""
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    seeds = len(metrics["rows"][0]["values"])
    name = f"{metrics['experiment']} ({metrics['preset']} preset)"
    pictures = [
        html.picture(path, _ALT.get(path.stem, path.stem.replace("_", " "))) for path in sorted(folder.glob("*.png"))
    ]
    again = f"rpmodels run {metrics['experiment']} --preset {metrics['preset']} --seeds {seeds}"
    record = {"settings": metrics["settings"], "versions": metrics["versions"]}
    return html.document(
        f"rpmodels: {name}",
        html.paragraph(
            f"{seeds} seed(s), {metrics['seconds']:.0f} s of computing. "
            "Scores are nats above independence per observation."
        ),
        html.section("Numbers", _numbers(metrics)),
        html.section("Pictures", *pictures),
        html.section("How to make it again", html.code(again)),
        html.section("Settings and versions", html.code(json.dumps(record, indent=1))),
    )


def _numbers(metrics: Mapping[str, Any]) -> str:
    rows = []
    for row in metrics["rows"]:
        name = " ".join(part for part in (row["model"], row["method"], row["condition"]) if part)
        quartiles = f"{row['q1']:.4g} – {row['q3']:.4g}"
        rows.append((name, row["metric"], f"{row['median']:.4g}", quartiles, row["paper"] or ""))
    return html.table(("model", "metric", "median", "quartiles", "the paper"), rows, text_columns=2)
