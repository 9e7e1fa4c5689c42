"""Metrics against small cases worked out by hand."""

import numpy as np
import pytest

from rpmodels import metrics


def test_matching_is_one_to_one_and_carried_to_new_data():
    truth = np.array([0, 0, 1, 1, 2, 2, 2])
    states = np.array([2, 2, 0, 0, 1, 1, 0])
    matching = metrics.match_states(truth, states, 3)
    assert matching.tolist() == [1, 2, 0]
    assert (matching[states] == truth).mean() == pytest.approx(6 / 7)


def test_two_classes_in_one_state_cannot_both_be_right():
    truth = np.array([0, 1, 2, 2])
    states = np.array([0, 0, 1, 2])
    matching = metrics.match_states(truth, states, 3)
    assert sorted(matching.tolist()) == [0, 1, 2]
    assert (matching[states] == truth).mean() == 0.5


def test_more_states_than_classes_leave_some_unmatched_or_extra():
    matching = metrics.match_states(np.array([0, 0, 1]), np.array([0, 1, 3]), 4)
    assert matching[3] == 1
    assert metrics.confusion(np.array([0, 0, 1]), np.array([0, 1, 3]), 4).sum() == 3


def test_entropy_of_the_average():
    assert metrics.entropy_of_average(np.eye(4)) == pytest.approx(np.log(4))
    assert metrics.entropy_of_average(np.array([[1.0, 0.0], [1.0, 0.0]])) == 0.0
