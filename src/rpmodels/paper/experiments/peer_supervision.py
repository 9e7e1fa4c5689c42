"""Peer supervision (paper, section 5.1, table 1, figure A1): classes from pairs of images, without labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rpmodels import datasets, metrics, plots
from rpmodels.estimators import Recognition, RPCategorical
from rpmodels.estimators.regularisation import regularisation
from rpmodels.learning import TrainingSettings
from rpmodels.paper.baselines import SupervisedNetwork
from rpmodels.paper.experiments.experiment import Experiment, Outcome, Row
from rpmodels.paper.experiments.figures import save
from rpmodels.paper.experiments.peer_baselines import (
    PAPER,
    RATES,
    ROWS,
    Budget,
    PeerData,
    baseline,
    run_baseline,
    thinned,
)
from rpmodels.paper.experiments.peer_figures import accuracy_figure


@dataclass(frozen=True)
class Settings:
    """data: mnist (27 100 pairs, the paper's) or digits (scikit-learn's 8×8, no download); n_states: K."""

    data: Literal["mnist", "digits"]
    n_states: int = 10
    n_factors: int = 2


class PeerSupervision(Experiment):
    """RPM, the same network trained with labels as the ceiling, and the baselines."""

    name = "peer-supervision"
    summary = "digit classes from pairs of images of the same digit, without labels"
    presets: Mapping[str, Any] = {"quick": Settings("digits"), "paper": Settings("mnist")}
    default_seeds: Mapping[str, int] = {"quick": 1, "paper": 10}

    def rows(self, settings: Any) -> Sequence[Row]:
        """The RPM, its ceiling, and what it is compared with."""
        return [Row("RPM"), Row("supervised"), *ROWS]

    def paper(self, settings: Any) -> Mapping[tuple[str, str], str]:
        """Table 1."""
        where = "" if settings.data == "mnist" else " (on MNIST)"
        return {(model, "accuracy"): f"{value}{where}" for model, value in PAPER.items()}

    def run(self, row: Row, settings: Any, seed: int) -> Outcome:
        """One fit; the RPM's has every default."""
        data, budget = peer_data(settings, seed), table_budget(row, settings)
        if row.model == "RPM":
            return _rpm(data, budget, seed)
        if row.model == "supervised":
            return _supervised(data, budget, seed)
        return run_baseline(row, data, budget, seed)

    def figures(self, outcomes: Mapping[Row, Sequence[Outcome]], settings: Any, folder: Path) -> None:
        """Accuracy against the entropy of the average posterior, with confusion matrices."""
        save(accuracy_figure(outcomes, PAPER if settings.data == "mnist" else {}), folder / "accuracy")
        for outcome in outcomes.get(Row("RPM"), [])[:1]:
            history = {name: np.array(values, float) for name, values in outcome.extras["history"].items()}
            axes = plots.learning_curve(history, outcome.metrics["ceiling_nats"])
            save(axes.get_figure(root=True), folder / "learning_curve")


def peer_data(settings: Settings, seed: int) -> PeerData:
    """Pairs drawn by this seed."""
    images = datasets.load_mnist() if settings.data == "mnist" else datasets.load_digit_images(seed)
    pairs, labels = datasets.make_pairs(
        images.train_images, images.train_labels, n_factors=settings.n_factors, random_state=seed
    )
    return PeerData(pairs, labels, images)


def table_budget(row: Row, settings: Settings) -> Budget:
    """Starts and steps are those of a default RPM for every row."""
    default = RPCategorical(settings.n_states)
    return Budget(settings.n_states, default.n_init, default.max_iter, RATES.get(row.slug, default.learning_rate))


def trained(row: Row, data: PeerData, budget: Budget, seed: int) -> Any:
    """The model of a row, fitted; its `history_` has what it maximises."""
    if row.model == "RPM":
        model = RPCategorical(
            budget.n_states,
            recognition=Recognition(tied=True),
            n_init=budget.n_init,
            max_iter=budget.max_iter,
            learning_rate=budget.learning_rate,
            random_state=seed,
        )
        return model.fit(data.pairs)
    if row.model == "supervised":
        return _with_labels(data, budget, seed)
    return baseline(row, budget, seed).fit(data.pairs)


def _rpm(data: PeerData, budget: Budget, seed: int) -> Outcome:
    pairs, images = data.pairs, data.images
    model = trained(Row("RPM"), data, budget, seed)

    def recognised(x: NDArray[Any]) -> NDArray[np.int64]:
        return np.asarray(model.recognise(x, "x1").argmax(1))

    train = recognised(images.train_images)
    test = recognised(images.test_images)
    matching = metrics.match_states(images.train_labels, train, budget.n_states)
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
            "confusion": metrics.confusion(images.test_labels, matching[test], budget.n_states).tolist(),
            "history": thinned(model.history_),
            "restarts": [{"kind": a.kind, "free_energies": a.free_energies} for a in model.restarts_],
        },
    )


def _with_labels(data: PeerData, budget: Budget, seed: int) -> SupervisedNetwork:
    """The images of the pairs, with their labels; twice the batch, so that a step sees as many images."""
    default = regularisation(len(data.labels))
    training = TrainingSettings(
        max_iter=budget.max_iter,
        learning_rate=budget.learning_rate,
        batch_size=500 * len(data.pairs),
        weight_decay=default.weight_decay,
    )
    network = SupervisedNetwork(training, default.dropout, default.hidden, seed)
    return network.fit(np.concatenate(list(data.pairs.values())), np.tile(data.labels, len(data.pairs)))


def _supervised(data: PeerData, budget: Budget, seed: int) -> Outcome:
    network = _with_labels(data, budget, seed)
    images = data.images
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
            "confusion": metrics.confusion(images.test_labels, test.argmax(1), budget.n_states).tolist(),
        },
    )


EXPERIMENT = PeerSupervision()
