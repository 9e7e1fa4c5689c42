"""The paper's own settings are the paper's: nothing that the library adds by itself is in them."""

import numpy as np
import pytest
import torch

import rpmodels as rp
from rpmodels.learning import AsGiven, NoFinish
from rpmodels.recognition import MLP, ConvolutionalNetwork


def small_ball():
    return rp.datasets.plain_ball(n_trials=6, n_times=9, random_state=0)


def plain_training(estimator, observations):
    """Steps of all data at one rate by Adam, from one start, and nothing before or after them."""
    model, training = estimator.build(observations)
    assert [type(each) for each in estimator._starts()] == [AsGiven]
    assert training.batch_size is None
    assert training.validation_fraction == training.weight_decay == 0.0
    assert training.max_gradient_norm is None
    assert isinstance(training.finish, NoFinish)
    weight = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.Adam([weight], lr=0.5)
    schedule = training.make_scheduler(optimiser)
    for _ in range(3):
        optimiser.step()
        schedule.step()
    assert optimiser.param_groups[0]["lr"] == 0.5
    return model


@pytest.mark.parametrize("bound", ["interior_free", "interior_thresholded", "second_order", "monte_carlo"])
def test_rp_gpfa(bound):
    series = small_ball()
    observations = rp.read({"x": series.x}, series=True, times=series.times)
    model = plain_training(rp.RPGPFA(1, n_inducing=5, **rp.presets.paper(bound)), observations)
    (network,) = (each.network for _, each in model.recognisers())
    assert isinstance(network, MLP)
    assert network.hidden == (50, 50)
    assert network.dropout == 0.0
    assert type(model.prior.kernel).__name__ == "RBFKernel"
    assert not model.atoms.shared, "one mixture per time (A20)"
    model.prepare(observations)
    reference = model.references(observations.sites(torch.device("cpu")))["x"]
    broadest = model.prior.family.broadest().to(reference)
    torch.testing.assert_close(reference, broadest.expand_as(reference), rtol=0, atol=0)


def test_counts_have_hidden_layers_too():
    counts = np.random.default_rng(0).poisson(2.0, (6, 9, 4))
    observations = rp.read({"x": counts}, series=True)
    model, _ = rp.RPGPFA(1, n_inducing=4, **rp.presets.paper()).build(observations)
    assert [each.network.hidden for _, each in model.recognisers()] == [(50, 50)]
    usual, _ = rp.RPGPFA(1, n_inducing=4).build(observations)
    assert [each.network.hidden for _, each in usual.recognisers()] == [()]


@pytest.mark.parametrize("side", [8, 16])
def test_states(side):
    images = np.random.default_rng(0).random((2, 30, side, side))
    pairs = dict(zip("ab", images, strict=True))
    estimator = rp.RPCategorical(3, **rp.presets.paper_states()).set_params(recognition__tied=True)
    model = plain_training(estimator, rp.read(pairs))
    one, two = (each.network for _, each in model.recognisers())
    assert one is two
    assert isinstance(one, ConvolutionalNetwork if side == 16 else MLP)
    assert estimator.fit(pairs).restarts_[0].kind == "as given"
    assert len(estimator.restarts_) == 1


def test_hidden_layers_of_ones_own():
    x = {name: np.random.default_rng(0).random((40, 4)) for name in "ab"}
    model = rp.RPFA(1, max_iter=2, n_init=1, random_state=0, recognition=rp.Recognition(hidden=(7, 3, 2))).fit(x)
    assert [each.network.hidden for _, each in model.model_.pattern.recognisers()] == [(7, 3, 2)] * 2
    with pytest.raises(rp.errors.InputError, match="hidden"):
        rp.RPFA(1, recognition=rp.Recognition(hidden=(0,))).fit(x)
