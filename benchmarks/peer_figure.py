"""Figure A1 from the records of ten seeds of every row: accuracy against the entropy of the average posterior.

python benchmarks/peer_figure.py: of test images, whose numbers are kept for every seed; draws
docs/results/peer-supervision/ten-seeds.png.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from rpmodels.paper.experiments.figures import save
from rpmodels.paper.experiments.peer_baselines import PAPER

FOLDER = Path(__file__).parent.parent / "docs/results/peer-supervision"
Points = dict[str, tuple[list[float], list[float]]]
BEST = 0.96
"""Accuracy that all seeds of a row in the second panel have."""


def recorded() -> Points:
    """(entropies, accuracies) of every row, ten seeds each; the newest run of each."""
    found: Points = {}
    for name in ("rpm.json", "baselines.json"):
        rows = json.loads((FOLDER / name).read_text(encoding="utf-8"))["rows"]
        values = {(row["model"], row["condition"], row["metric"]): row["values"] for row in rows}
        for model, condition in dict.fromkeys(key[:2] for key in values):
            entropies, accuracies = (values[model, condition, metric] for metric in ("entropy", "accuracy"))
            found.setdefault(f"{model}, peer" if condition else model, (entropies, accuracies))
    newest = json.loads((FOLDER / "rates-seeds.json").read_text(encoding="utf-8"))["rows"]["supervised"]["seeds"]
    entropies, accuracies = ([each[metric] for each in newest.values()] for metric in ("entropy", "accuracy"))
    found["supervised"] = entropies, accuracies
    assert all(len(values) == 10 for each in found.values() for values in each)
    return found


def main() -> None:
    """Two panels: entropy and accuracy of everything, and the accuracies of the best rows side by side."""
    points = recorded()
    models = list(dict.fromkeys(name.removesuffix(", peer") for name in points))
    figure, (whole, best) = plt.subplots(1, 2, figsize=(11.0, 6.2), width_ratios=[1.4, 1.0], layout="constrained")
    shown = [name for name, (_, accuracies) in points.items() if min(accuracies) > BEST]
    for name, (entropies, accuracies) in points.items():
        model = name.removesuffix(", peer")
        style = {"color": f"C{models.index(model)}", "marker": "s" if name != model else "o", "ls": "", "ms": 5}
        whole.plot(entropies, accuracies, mec="w", mew=0.5, label=name, **style)
        if name in shown:
            aside = np.linspace(-0.25, 0.25, len(accuracies))
            best.plot(shown.index(name) + aside, accuracies, mec="w", mew=0.5, **style)
        if model == name and model in PAPER:
            mean = float(PAPER[model].split(maxsplit=1)[0])
            whole.plot(1.0, mean, "<", color=style["color"], transform=whole.get_yaxis_transform(), clip_on=False)
    whole.plot([], [], "<", color="0.4", label="at the edge: the paper's mean")
    whole.axvline(np.log(10), color="0.6", ls=":", lw=1)
    whole.text(np.log(10), 0.02, "log 10 ", color="0.4", ha="right", transform=whole.get_xaxis_transform())
    whole.set(xlabel="entropy of the average posterior (nats)", ylabel="accuracy, test images")
    whole.set_title("ten seeds of every row", fontsize="medium")
    best.set_xticks(range(len(shown)), [name.replace(", ", ",\n") for name in shown], fontsize="small")
    best.set_title("the rows at the top, seed by seed", fontsize="medium")
    named = whole.get_legend_handles_labels()
    figure.legend(*named, frameon=False, fontsize="small", loc="outside lower center", ncols=6)
    save(figure, FOLDER / "ten-seeds")


if __name__ == "__main__":
    main()
