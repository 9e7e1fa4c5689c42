"""log W by importance sampling: the number, its standard error and its effective samples, of whole series."""

import numpy as np
import pytest
import torch

import rpmodels as rp
from rpmodels import integration
from rpmodels.log_weight import importance


@pytest.fixture(scope="module")
def series():
    """A model of short trials, and some of them: every log W is a sum over four times."""
    random = np.random.default_rng(0)
    x = np.cumsum(random.standard_normal((40, 4, 3)), 1)
    plain = {"training": rp.Training(finish="none"), "engine": rp.Engine(dtype="float64")}
    model = rp.RPLDS(1, network="linear", max_iter=30, n_init=1, random_state=0, **plain).fit(x)
    return model.model_, model.read(x[:4])


def test_numbers_are_those_of_the_weights(series):
    model, observations = series
    draws = 60
    found = importance(model, observations, draws, torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    (inferred,) = model.posterior(observations)
    weights = [integration.drawn(model.prior.family, inferred, generator)[1].detach().numpy() for _ in range(draws)]
    w = np.exp(np.stack(weights))
    np.testing.assert_allclose(found.values, np.log(w.mean(0)), rtol=1e-10)
    # Kish's number, and the error of a mean on the scale of its logarithm.
    np.testing.assert_allclose(found.effective_samples, w.sum(0) ** 2 / np.square(w).sum(0), rtol=1e-8)
    np.testing.assert_allclose(found.standard_error, w.std(0, ddof=1) / w.mean(0) / np.sqrt(draws), rtol=1e-8)


def test_the_standard_error_is_that_of_repetitions(series):
    model, observations = series
    again = [importance(model, observations, 200, torch.Generator().manual_seed(seed)) for seed in range(80)]
    spread = np.std([each.values for each in again], 0)
    said = np.mean([each.standard_error for each in again], 0)
    np.testing.assert_allclose(said / spread, 1.0, atol=0.35)
