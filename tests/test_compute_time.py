"""compute-time: the clock stands still while it looks, and the comparison of curves is what it says."""

import time

import numpy as np
import pytest
import torch

import rpmodels as rp
from rpmodels.learning import State
from rpmodels.paper.experiments import compute_time
from rpmodels.paper.experiments.compute_time import BALL, PAIRS, Settings, Stopwatch, earliest
from rpmodels.paper.experiments.experiment import Row

TINY = Settings("digits", 8, 12, 5, pair_steps=6, ball_steps=6)


def test_looks_are_rarer_and_do_not_count():
    def slow(model):
        assert not model.training
        until = time.process_time() + 0.02
        while time.process_time() < until:
            pass
        return 0.5

    model = torch.nn.Linear(1, 1)
    clock = Stopwatch(slow)
    for step in range(1, 41):
        clock(State(step, {"free_energy": float(step)}, True, 0.1, model=model))
    assert model.training
    assert clock.curve["step"][:4] == [1, 2, 3, 4]
    assert len(clock.curve["step"]) < 20
    assert clock.curve["seconds"][-1] < 0.02 < 0.02 * len(clock.curve["step"])
    assert clock.curve["free_energy"] == clock.curve["step"]


def test_the_best_and_when():
    clock = Stopwatch(lambda _: 0.0)
    clock.curve = {"step": [1, 2, 3, 4], "seconds": [1.0, 2.0, 3.0, 4.0], "quality": [0.1, 0.896, 0.9, 0.5]}
    found = clock.outcome().metrics
    assert found == {"quality": 0.9, "seconds_to_best": 2.0, "seconds_in_all": 4.0}


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        ([0.1, 0.5, 0.9], [0.1, 0.2, 0.3], 2**0.25 / 2),  # a quarter of the way between our first two looks
        ([0.1, 0.2, 0.9], [0.1, 0.2, 0.5], 1.0),  # the same level at the same look
        ([0.1, 0.1, 0.9], [0.1, 0.2, 0.5], 2 * 1.5**0.125 / 2),
        ([0.1, 0.2, 0.3], [0.1, 0.2, 0.5], np.inf),
        ([0.1, 0.9, 0.9], [0.3, 0.3, 0.3], 0.0),  # they never learnt anything
        ([0.1, 0.9, 0.2], [0.1, 0.1, 0.8], 2**0.875 / 3),  # what was reached counts, though it was lost
    ],
)
def test_ratios_of_times_to_a_level(mine, theirs, expected):
    seconds = [1.0, 2.0, 3.0]
    found = earliest({"seconds": seconds, "quality": mine}, {"seconds": seconds, "quality": theirs})
    assert found == pytest.approx(expected)


def test_every_row_trains_and_is_drawn(tmp_path):
    experiment = compute_time.EXPERIMENT
    outcomes = {row: [experiment.run(row, TINY, 0)] for row in experiment.rows(TINY)}
    for row, (outcome,) in outcomes.items():
        curve = outcome.extras
        assert curve["step"] == [1, 2, 3, 4, 5, 6], row
        assert np.all(np.diff(curve["seconds"]) > 0)
        assert np.isfinite(curve["free_energy"]).all()
    experiment.figures(outcomes, TINY, tmp_path)
    assert (tmp_path / "compute-time.png").exists()
    text = (tmp_path / "first.md").read_text()
    assert text.count(f"{PAIRS}: RPM") == 3
    assert text.count(f"{BALL}: RP-GPFA") == 3


def test_the_quality_of_a_model_in_training_is_that_of_the_estimator():
    """One run by the experiment's own way of reading an unfinished model, and through the fitted estimator."""
    row = Row("RP-GPFA", "interior", BALL)
    curve = compute_time.EXPERIMENT.run(row, TINY, 0).extras
    series = rp.datasets.plain_ball(n_trials=8, n_times=12, random_state=0)
    observations = rp.read({"x": series.x}, series=True, times=series.times)
    estimator = rp.RPGPFA(1, n_inducing=5, max_iter=6, random_state=0)
    model, training = estimator.build(observations)
    fitted = rp.train(model, observations, training, random_state=0)
    mean = torch.cat([model.prior.family.moments(each.posterior.eta)[0] for each in fitted.posterior(observations)])
    assert curve["quality"][-1] == pytest.approx(1 - rp.metrics.nmse(mean.numpy(), series.z), abs=1e-4)
