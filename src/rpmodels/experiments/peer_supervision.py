"""Peer supervision (paper, section 5.1, table 1, figure A1): classes from pairs of images, without labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from rpmodels import datasets, metrics, plots
from rpmodels.baselines import SupervisedNetwork
from rpmodels.datasets import Images
from rpmodels.estimators import RPCategorical, choices
from rpmodels.experiments.experiment import Experiment, Outcome, Row
from rpmodels.experiments.figures import save
from rpmodels.learning import Training


@dataclass(frozen=True)
class Settings:
    """data: mnist (27 100 pairs, the paper's) or digits (scikit-learn's 8×8, no download); n_states: K."""

    data: Literal["mnist", "digits"]
    n_states: int = 10
    n_factors: int = 2


class PeerSupervision(Experiment):
    """RPM, and the same network trained with labels as the ceiling."""

    name = "peer-supervision"
    summary = "digit classes from pairs of images of the same digit, without labels"
    presets: Mapping[str, Any] = {"quick": Settings("digits"), "paper": Settings("mnist")}
    default_seeds: Mapping[str, int] = {"quick": 1, "paper": 10}

    def rows(self, settings: Any) -> Sequence[Row]:
        """The RPM and its ceiling."""
        return [Row("RPM"), Row("supervised")]

    def paper(self, settings: Any) -> Mapping[tuple[str, str], str]:
        """Table 1."""
        where = "" if settings.data == "mnist" else " (on MNIST)"
        return {("RPM", "accuracy"): f"0.87 ± 0.09{where}"}

    def run(self, row: Row, settings: Any, seed: int) -> Outcome:
        """One default fit."""
        images = datasets.load_mnist() if settings.data == "mnist" else datasets.load_digit_images(seed)
        pairs, labels = datasets.make_pairs(
            images.train_images, images.train_labels, n_factors=settings.n_factors, random_state=seed
        )
        fit = {"RPM": _rpm, "supervised": _supervised}[row.model]
        return fit(pairs, labels, images, settings, seed)

    def figures(self, outcomes: Mapping[Row, Sequence[Outcome]], settings: Any, folder: Path) -> None:
        """Accuracy against the entropy of the average posterior, with confusion matrices."""
        save(_accuracy_figure(outcomes, settings.data == "mnist"), folder / "accuracy")
        for outcome in outcomes.get(Row("RPM"), [])[:1]:
            history = {name: np.array(values, float) for name, values in outcome.extras["history"].items()}
            axes = plots.learning_curve(history, outcome.metrics["ceiling_nats"])
            save(axes.get_figure(root=True), folder / "learning_curve")


def _rpm(
    pairs: Mapping[str, NDArray[Any]], _: NDArray[np.int64], images: Images, settings: Settings, seed: int
) -> Outcome:
    model = RPCategorical(settings.n_states, tied=True, random_state=seed).fit(pairs)

    def recognised(x: NDArray[Any]) -> NDArray[np.int64]:
        return np.asarray(model.recognise(x, "x1").argmax(1))

    train = recognised(images.train_images)
    test = recognised(images.test_images)
    matching = metrics.match_states(images.train_labels, train, settings.n_states)
    return Outcome(
        metrics={
            "accuracy": float((matching[test] == images.test_labels).mean()),
            "accuracy_train": float((matching[train] == images.train_labels).mean()),
            "entropy": metrics.entropy_of_average(model.predict_proba({"x1": images.test_images})),
            "score_nats": float(model.score_),
            "ceiling_nats": model.score_.ceiling,
        },
        extras={
            "entropy_train": metrics.entropy_of_average(model.predict_proba(pairs)),
            "confusion": metrics.confusion(images.test_labels, matching[test], settings.n_states).tolist(),
            "history": _thinned(model.history_),
            "restarts": [{"kind": a.kind, "free_energies": a.free_energies} for a in model.restarts_],
        },
    )


def _supervised(
    pairs: Mapping[str, NDArray[Any]], labels: NDArray[np.int64], images: Images, settings: Settings, seed: int
) -> Outcome:
    """The images of the pairs, with their labels; twice the batch, so that a step sees as many images."""
    default = choices.regularisation(len(labels))
    training = Training(batch_size=500 * settings.n_factors, weight_decay=default.weight_decay)
    network = SupervisedNetwork(training, default.dropout, default.hidden, seed)
    network.fit(np.concatenate(list(pairs.values())), np.tile(labels, len(pairs)))
    train = network.predict_proba(images.train_images)
    test = network.predict_proba(images.test_images)
    return Outcome(
        metrics={
            "accuracy": float((test.argmax(1) == images.test_labels).mean()),
            "accuracy_train": float((train.argmax(1) == images.train_labels).mean()),
            "entropy": metrics.entropy_of_average(test),
        },
        extras={
            "entropy_train": metrics.entropy_of_average(train),
            "confusion": metrics.confusion(images.test_labels, test.argmax(1), settings.n_states).tolist(),
        },
    )


def _thinned(history: Mapping[str, NDArray[Any]]) -> dict[str, list[float]]:
    """Every tenth step, for the figure."""
    return {name: [round(float(v), 5) for v in values[::10]] for name, values in history.items()}


def _accuracy_figure(outcomes: Mapping[Row, Sequence[Outcome]], beside_paper: bool) -> Any:
    """Figure A1: accuracy and entropy per seed, train hollow and test filled; confusion matrices beside it."""
    shown = _insets(outcomes)
    figure = plt.figure(figsize=(5.2 + 2.1 * len(shown), 4.0), layout="constrained")
    grid = figure.add_gridspec(1, 2, width_ratios=[5.2, 2.1 * len(shown)])
    axes = figure.add_subplot(grid[0])
    _scatter(axes, outcomes)
    if beside_paper:
        # The paper's axis: a fit that merges two digits would stand further left and lower.
        axes.set_xlim(2.0, 2.33)
        axes.axvline(np.log(10), color="0.6", ls=":", lw=1)
        axes.text(np.log(10), 0.775, "log 10 ", color="0.4", ha="right")
        axes.axhspan(0.78, 0.96, color="0.9", zorder=0)
        axes.axhline(0.87, color="0.6", ls="--", lw=1)
        axes.text(0.02, 0.872, "the paper's RPM, 0.87 ± 0.09", color="0.4", transform=axes.get_yaxis_transform())
    panels = figure.add_subfigure(grid[1]).subplots(1, len(shown), squeeze=False)[0]
    for panel, (title, outcome) in zip(panels, shown, strict=True):
        plots.confusion_matrix(np.array(outcome.extras["confusion"]), panel)
        panel.set_title(title, fontsize="small")
        panel.set_xlabel("predicted digit", fontsize="small")
        panel.set_ylabel("")
    panels[0].set_ylabel("true digit", fontsize="small")
    return figure


def _scatter(axes: Axes, outcomes: Mapping[Row, Sequence[Outcome]]) -> None:
    handles = []
    for number, (row, each) in enumerate(outcomes.items()):
        colour = f"C{number}"
        for outcome in each:
            found = outcome.metrics
            axes.plot(outcome.extras["entropy_train"], found["accuracy_train"], "o", mfc="none", mec=colour)
            axes.plot(found["entropy"], found["accuracy"], "o", color=colour)
        handles.append(Line2D([], [], marker="o", ls="", color=colour, label=row.model))
    handles.append(Line2D([], [], marker="o", ls="", mfc="none", mec="0.4", label="train (filled: test)"))
    axes.legend(handles=handles, frameon=False, loc="lower left")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set(xlabel="entropy of the average posterior (nats)", ylabel="accuracy")


def _insets(outcomes: Mapping[Row, Sequence[Outcome]]) -> list[tuple[str, Outcome]]:
    """The least and the most accurate RPM, and the best seed of everything else."""
    chosen = []
    for row, each in outcomes.items():
        ranked = sorted(each, key=lambda outcome: outcome.metrics["accuracy"])
        if row.model == "RPM" and len(ranked) > 1:
            chosen.append((f"RPM, least accurate\n{ranked[0].metrics['accuracy']:.3f}", ranked[0]))
        label = f"{row.model}, most accurate" if len(ranked) > 1 else row.model
        chosen.append((f"{label}\n{ranked[-1].metrics['accuracy']:.3f}", ranked[-1]))
    return chosen


EXPERIMENT = PeerSupervision()
