"""Digits along a Markov chain (the authors' code): which digit is it, when only its neighbours in time can tell?"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from rpmodels import RPHMM, datasets, metrics
from rpmodels.datasets import Maze
from rpmodels.paper.experiments.experiment import Experiment, Outcome, Row
from rpmodels.paper.experiments.figures import save

SHOWN = 60


@dataclass(frozen=True)
class Settings:
    """Steps of the walk, digits, and which images to show."""

    n_steps: int = 10_000
    n_states: int = 6
    mnist: bool = True


class HMMMaze(Experiment):
    """RP-HMM on one long walk; the states after matching, the transition matrix against the one that made it."""

    name = "hmm-maze"
    summary = "digits along a Markov chain"
    presets: Mapping[str, Any] = {"quick": Settings(n_steps=2_000, mnist=False), "paper": Settings()}
    default_seeds: Mapping[str, int] = {"quick": 1, "paper": 3}

    def rows(self, settings: Any) -> Sequence[Row]:
        """One model."""
        return [Row("RP-HMM")]

    def paper(self, settings: Any) -> Mapping[tuple[str, str], str]:
        """Not in the paper; the authors' code reports this."""
        return {("RP-HMM", "accuracy"): "0.979 (authors' code)"}

    def run(self, row: Row, settings: Any, seed: int) -> Outcome:
        """One fit with its defaults."""
        maze = _maze(settings, seed)
        begun = time.perf_counter()
        model = RPHMM(settings.n_states, random_state=seed).fit([maze.images])
        seconds = time.perf_counter() - begun
        states = model.predict([maze.images])[0]
        digit = metrics.match_states(maze.states, states, settings.n_states)
        found = np.empty_like(model.transitions_)
        found[np.ix_(digit, digit)] = model.transitions_
        numbers = {
            "accuracy": float((digit[states] == maze.states).mean()),
            "accuracy_filter": float((digit[model.filter([maze.images])[0].argmax(-1)] == maze.states).mean()),
            "accuracy_alone": float((digit[model.recognise([maze.images], "x")[0].argmax(-1)] == maze.states).mean()),
            "transition_mae": float(np.abs(found - maze.transitions).mean()),
            "score_nats": float(model.score_) / settings.n_steps,
            "seconds": seconds,
        }
        shown = {
            "transitions": maze.transitions.tolist(),
            "found": found.tolist(),
            "truth": maze.states[:SHOWN].tolist(),
            "states": digit[states[:SHOWN]].tolist(),
            "confusion": metrics.confusion(maze.states, digit[states], settings.n_states).tolist(),
        }
        return Outcome(numbers, shown)

    def figures(self, outcomes: Mapping[Row, Sequence[Outcome]], settings: Any, folder: Path) -> None:
        """Both transition matrices, the confusion, and the beginning of the walk."""
        shown = next(iter(outcomes.values()))[0].extras
        figure, axes = plt.subplots(1, 4, figsize=(13, 3.2), width_ratios=[1, 1, 1, 2], layout="constrained")
        for ax, name, title in (
            (axes[0], "transitions", "true transitions"),
            (axes[1], "found", "learned transitions"),
            (axes[2], "confusion", "digit (rows) and state"),
        ):
            table = np.asarray(shown[name], float)
            shares = table / table.sum(1, keepdims=True)
            ax.imshow(shares, vmin=0, vmax=1, cmap="Blues")
            for (i, j), value in np.ndenumerate(table):
                text = f"{value:.2f}" if name != "confusion" else f"{int(value)}"
                ax.text(j, i, text, ha="center", va="center", fontsize=6, color="k" if shares[i, j] < 0.6 else "w")
            ax.set_title(title, fontsize="medium")
        axes[3].plot(shown["truth"], "k--", lw=1, label="digit")
        axes[3].plot(shown["states"], "o", ms=4, mfc="none", label="state, Viterbi")
        axes[3].set_xlabel("step")
        axes[3].set_yticks(range(len(shown["found"])))
        axes[3].legend(frameon=False, fontsize="small")
        save(figure, folder / "maze")


def _maze(settings: Settings, seed: int) -> Maze:
    source = datasets.load_mnist() if settings.mnist else datasets.load_digit_images(seed)
    return datasets.digit_maze(
        source.train_images,
        source.train_labels,
        n_states=settings.n_states,
        n_steps=settings.n_steps,
        random_state=seed,
    )


EXPERIMENT = HMMMaze()
