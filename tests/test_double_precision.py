"""Models of double precision keep their constants in it: nothing passes through single precision on its way."""

import numpy as np
import pytest
import torch

import rpmodels as rp
from registry import ESTIMATORS, made
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.observations import Observations
from rpmodels.priors import GaussianPrior

DOUBLE = torch.float64


def counts(seed=0):
    return np.random.default_rng(seed).poisson(2.0, (8, 10, 5))


def driven():
    """Trials with inputs."""
    random = np.random.default_rng(0)
    return random.normal(size=(6, 9, 4)), random.normal(0.3, 1.7, (6, 9, 2))


def tiny(name, **options):
    each = ESTIMATORS[name]
    return each.make(dtype="float64", **options), (each.data(0),)


CASES = {
    **{name: tiny(name) for name in ESTIMATORS},
    "fa, full": tiny("fa", covariance="full"),
    "fa, absolute": tiny("fa", head="absolute", e_step="natural_gradient", network="linear"),
    "categorical, known": tiny("categorical", prior=[0.3, 0.7]),
    "categorical, Dirichlet": tiny("categorical", prior=0.1),
    "hmm, known": tiny("hmm", transitions=[[0.9, 0.1], [0.3, 0.7]]),
    "hmm, Dirichlet": tiny("hmm", transitions=0.1),
    "lda, α": tiny("lda", alpha=[0.1, 0.3]),
    "graph, Dirichlet": tiny("graph", tables=0.1),
    "population": (
        made(rp.RPGPFA, 2, factors={"x": rp.Population()}, n_inducing=4, max_iter=2, n_init=1, random_state=0,
             finish="none", dtype="float64", retries=0),
        (counts(),),
    ),
}  # fmt: skip


def constants(model, observations: Observations):
    """Buffers, parameters that nothing learns, and what factors are relative to."""
    learned = {name for name, each in model.named_parameters() if each.requires_grad}
    found = {name: each for name, each in model.state_dict().items() if name not in learned}
    references = model.references(observations.sites(torch.device("cpu")))
    return found | {f"reference of {name}": each.detach() for name, each in references.items()}


@pytest.mark.parametrize("name", CASES)
def test_constants_are_those_of_a_library_that_knows_no_single_precision(name, monkeypatch):
    """The same model built where torch's own default is double."""
    estimator, data = CASES[name]
    seen = []
    build = type(estimator)._build
    monkeypatch.setattr(type(estimator), "_build", lambda self, data: seen.append(data) or build(self, data))
    estimator.fit(*data)
    observations = seen[-1]
    found = []
    for default in (torch.float32, DOUBLE):
        torch.set_default_dtype(default)
        try:
            model, _ = estimator.build(observations)
            model.prepare(observations)
            found.append(constants(model, observations))
        finally:
            torch.set_default_dtype(torch.float32)
    one, two = found
    assert one.keys() == two.keys()
    for each, values in one.items():
        assert not values.is_floating_point() or values.dtype == DOUBLE, each
        torch.testing.assert_close(
            values, two[each], rtol=1e-14, atol=1e-15, equal_nan=True, msg=lambda m, e=each: f"{e}: {m}"
        )


def test_what_users_give_is_kept_to_the_last_digit():
    (categorical, x), (chains, trials), (topics, parts) = (
        CASES[name] for name in ("categorical, known", "hmm, known", "lda, α")
    )
    prior = categorical.fit(*x).model_.prior
    np.testing.assert_allclose(prior.probabilities.numpy(), [0.3, 0.7], rtol=1e-15)
    chain = chains.fit(*trials).model_.prior
    np.testing.assert_allclose(chain.transition.probabilities().numpy(), [[0.9, 0.1], [0.3, 0.7]], rtol=1e-15)
    np.testing.assert_allclose(topics.fit(*parts).model_.prior.alpha.numpy(), [0.1, 0.3], rtol=1e-15)


@pytest.mark.parametrize("family", [DiagonalGaussian(2), FullGaussian(2)], ids=lambda f: type(f).__name__)
def test_the_standard_normal_is_one(family):
    model = rp.RPM(
        GaussianPrior(family),
        {"x": rp.recognition.Linear((3,), family.raw_size)},
        dtype=DOUBLE,
        e_step=rp.inference.Amortised(),
        expected_log_mixture=rp.mixtures.InteriorBound(),
    )
    reference = model.prior.reference(rp.carriers.Sites.single(1), True)[0]
    mean, _ = family.moments(reference)
    np.testing.assert_array_equal(mean.detach().numpy(), 0.0)
    np.testing.assert_allclose(family.covariance(reference).detach().numpy(), np.eye(2), rtol=1e-15)
    np.testing.assert_array_equal(family.broadest().numpy()[2:].reshape(-1)[0], -0.5e-3)


def test_what_inputs_are_like():
    x, u = driven()
    model = made(rp.RPLDS, 2, max_iter=1, n_init=1, random_state=0, finish="none", dtype="float64", retries=0).fit(
        x, inputs=u
    )
    inputs = model.model_.prior.inputs
    scales = np.sqrt((u.reshape(-1, 2) ** 2).mean(0))
    np.testing.assert_allclose(inputs.scales.numpy(), scales, rtol=1e-14)
    np.testing.assert_allclose(inputs.mean.numpy(), (u / scales).reshape(-1, 2).mean(0), rtol=1e-13)
