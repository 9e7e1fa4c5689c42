"""The recordings: what is told of them, how they are divided, and how they are drawn."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from rpmodels import datasets
from rpmodels.evaluation import Decoder, TrialFolds
from rpmodels.paper.experiments.real_populations import Population, Trials


class Track(Population):
    """Position of a rat on a linear track, from CA1."""

    drawn = 3
    told: Mapping[str, Sequence[str]] = {"from latents": ("position on the track",)}

    def trials(self, seed: int, folds: int) -> Trials:
        """Runs up and down, dealt at random."""
        runs = datasets.load_hippocampus().runs()
        dealt = list(TrialFolds(folds, seed).split(runs.counts))
        return Trials(runs.counts, runs.position, dealt, runs.direction)


class Barriers(Population):
    """Velocity of a monkey's hand, from motor cortex."""

    drawn = 8
    told: Mapping[str, Sequence[str]] = {"from rates": ("$v_x$ (mm/s)", "$v_y$ (mm/s)")}

    def trials(self, seed: int, folds: int) -> Trials:
        """Dealt so that every fold has its share of every condition."""
        maze = datasets.load_mc_maze()
        splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
        dealt = list(splitter.split(maze.condition, maze.condition))
        return Trials(list(maze.counts), list(maze.velocity), dealt, maze.condition)


class Targets(Population):
    """Direction of a reach, bin by bin, from motor cortex: right within π/8."""

    drawn = 4
    told: Mapping[str, Sequence[str]] = {"from rates": ("cosine", "sine")}

    def __init__(self) -> None:
        self.readings = {"direction": right_direction}

    def trials(self, seed: int, folds: int) -> Trials:
        """Four fifths in the order of the recording; of the rest the second half. Nothing is chosen on the first."""
        reach = datasets.load_reach()
        ends = np.round(np.array([0.8, 0.9]) * len(reach)).astype(int)
        points = np.stack([np.cos(reach.angle), np.sin(reach.angle)], -1)
        behaviour = [np.tile(point, (len(each), 1)) for point, each in zip(points, reach.counts, strict=True)]
        fold = (np.arange(ends[0]), np.arange(ends[1], len(reach)))
        return Trials(reach.counts, behaviour, [fold], reach.target)


class Simulated(Population):
    """Poisson counts of units that are log-linear in smooth latents, which are what is read."""

    def __init__(self, n_trials: int = 40, n_times: int = 25, n_units: int = 30, n_latents: int = 2) -> None:
        self._shape = (n_trials, n_times, n_units, n_latents)

    def trials(self, seed: int, folds: int) -> Trials:
        """Drawn from the seed."""
        n_trials, n_times, n_units, n_latents = self._shape
        random = np.random.default_rng(seed)
        t = np.arange(n_times)
        covariance = np.exp(-0.5 * np.square((t[:, None] - t) / 4.0))
        drawn = random.multivariate_normal(np.zeros(n_times), covariance, (n_trials, n_latents), method="eigh")
        z = np.swapaxes(drawn, 1, 2)
        loadings = 0.7 * random.standard_normal((n_latents, n_units)) / np.sqrt(n_latents)
        counts = random.poisson(np.exp(z @ loadings - 0.7)).astype(np.float64)
        dealt = list(TrialFolds(folds, seed).split(z))
        return Trials(list(counts), list(z), dealt, np.zeros(n_trials, np.int64))


def right_direction(latents: Any, points: Any, new: Any, truth: Any) -> float:
    """Share of bins whose direction, by a linear map of latents to points of the circle, is within π/8."""
    found = np.concatenate(Decoder().fit(latents, points).predict(new))
    known = np.concatenate(truth)
    off = np.angle((found @ [1, 1j]) * (known @ [1, -1j]))
    return float((np.abs(off) < np.pi / 8).mean())
