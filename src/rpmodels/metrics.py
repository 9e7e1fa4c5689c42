"""How good a fit is, when the truth is known. numpy in, numpy out."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment


def confusion(truth: NDArray[Any], states: NDArray[Any], n_states: int) -> NDArray[np.int64]:
    """Counts of (class, state)."""
    classes = max(n_states, int(truth.max()) + 1)
    table = np.zeros((classes, n_states), np.int64)
    np.add.at(table, (truth, states), 1)
    return table


def match_states(truth: NDArray[Any], states: NDArray[Any], n_states: int) -> NDArray[np.int64]:
    """The class of every state under the best one-to-one assignment (Kuhn–Munkres).

    Fit it on training data and apply it unchanged to test data: `matching[states] == truth`.
    """
    classes, matched = linear_sum_assignment(-confusion(truth, states, n_states))
    matching = np.full(n_states, -1, np.int64)
    matching[matched] = classes
    return matching


def entropy_of_average(probabilities: NDArray[Any]) -> float:
    """H(mean over n of q_n) in nats: log K when all states are used equally."""
    average = np.asarray(probabilities, np.float64).mean(0)
    average = average[average > 0]
    return float(-(average * np.log(average)).sum())
