"""Angles: the von Mises family, the circular prior and RPCircular, against integrals on a grid, mpmath and SciPy."""

import mpmath
import numpy as np
import pytest
import scipy.stats
import torch

import data
import rpmodels as rp
from registry import tiny_data
from rpmodels import log_weight
from rpmodels.carriers import Sites
from rpmodels.estimators import RPCircular
from rpmodels.estimators.angles import half_width
from rpmodels.families import DiagonalGaussian, VonMises
from rpmodels.fitted import FittedRPM
from rpmodels.inference import Amortised
from rpmodels.mixtures import FixedGrid, InteriorBound, OptimalInteriorBound, SecondOrder
from rpmodels.priors import CircularPrior
from rpmodels.seeding import seeded

DOUBLE = torch.float64
CONCENTRATIONS = [0.0, 1e-9, 1e-4, 0.7, 12.0, 49.9, 50.1, 1e3, 1e6]
GRID = np.linspace(-np.pi, np.pi, 4001)[1:]
STEP = 2 * np.pi / 4000


def bessel(kappa):
    """Φ, A and A′ to fifty digits."""
    with mpmath.workdps(50):
        k = mpmath.mpf(kappa)
        zero, one = mpmath.besseli(0, k), mpmath.besseli(1, k)
        a = one / zero
        slope = mpmath.mpf(1) / 2 if kappa == 0 else 1 - a / k - a**2
        across = mpmath.mpf(1) / 2 if kappa == 0 else a / k
        return float(mpmath.log(2 * mpmath.pi * zero)), float(a), float(slope), float(across)


# ---- the family ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
@pytest.mark.parametrize("kappa", CONCENTRATIONS)
def test_the_family_is_right_at_every_concentration(kappa, dtype):
    direction = torch.tensor([np.cos(2.0), np.sin(2.0)])
    across = torch.tensor([-np.sin(2.0), np.cos(2.0)])
    eta = (kappa * direction).to(dtype).requires_grad_()
    family, eps = VonMises(), torch.finfo(dtype).eps
    phi, a, along, beside = bessel(kappa)
    value = family.log_normaliser(eta)
    assert float(value.detach()) == pytest.approx(phi, rel=20 * eps, abs=20 * eps)
    (slope,) = torch.autograd.grad(value, eta)
    for mean in (family.mean(eta), slope):
        np.testing.assert_allclose(mean.detach(), a * direction, rtol=0, atol=20 * eps)
    root = family.covariance_root(eta, torch.stack([direction, across]).to(dtype)).detach().double()
    loss = 1e-4 if dtype == torch.float32 else 1e-9
    np.testing.assert_allclose(root.square().sum(-1), [along, beside], rtol=loss, atol=1e-12 * float(kappa < 1e3))
    assert torch.isfinite(torch.autograd.grad(family.covariance_root(eta, direction.to(dtype)).sum(), eta)[0]).all()


@pytest.mark.parametrize("kappa", [0.0, 0.6, 8.0, 1e5])
def test_draws_are_those_of_scipy(kappa, generator):
    eta = kappa * torch.tensor([np.cos(3.0), np.sin(3.0)], dtype=DOUBLE)
    z = VonMises().sample(eta.expand(20_000, -1), generator).numpy()
    assert z.min() > -np.pi
    assert z.max() <= np.pi
    turned = np.angle(np.exp(1j * (z - (3.0 if kappa else 0.0))))
    reference = scipy.stats.vonmises(kappa) if kappa else scipy.stats.uniform(-np.pi, 2 * np.pi)
    assert scipy.stats.kstest(turned, reference.cdf).pvalue > 1e-3


# ---- the prior ----------------------------------------------------------------------------------------


def circular_prior(concentration=0.0):
    prior = CircularPrior(learned=bool(concentration)).double()
    with torch.no_grad():
        prior.eta.copy_(concentration * torch.tensor([np.cos(-1.0), np.sin(-1.0)]))
    return prior


@pytest.mark.parametrize("concentration", [0.0, 1.5])
def test_the_posterior_is_that_of_a_grid(concentration):
    prior, sites = circular_prior(concentration), Sites.single(1)
    g = np.array([1.2, -2.0])
    log_p = (
        scipy.stats.vonmises.logpdf(GRID + 1.0, concentration) if concentration else np.full(4000, -np.log(2 * np.pi))
    )
    joint = np.exp(log_p + g[0] * np.cos(GRID) + g[1] * np.sin(GRID))
    q = joint / (joint.sum() * STEP)
    found = prior.condition(torch.tensor(g)[None, None], sites)
    np.testing.assert_allclose(
        found.mu[0, 0].detach(), [(q * np.cos(GRID)).sum() * STEP, (q * np.sin(GRID)).sum() * STEP], atol=1e-10
    )
    assert float(found.kl.detach()) == pytest.approx((q * (np.log(q) - log_p)).sum() * STEP, abs=1e-10)
    at = torch.tensor(GRID)[:, None, None]
    np.testing.assert_allclose(prior.log_density(at, sites).detach()[:, 0], log_p, atol=1e-10)


def test_draws_of_the_prior_are_its_own(generator):
    z = circular_prior(1.5).sample(Sites.single(20_000), generator)[:, 0].numpy()
    assert scipy.stats.kstest(np.angle(np.exp(1j * (z + 1.0))), scipy.stats.vonmises(1.5).cdf).pvalue > 1e-3


@pytest.fixture(scope="module", params=[0.0, 1.5], ids=["uniform", "learned"])
def tiny(request):
    """A model of random factors, and log W of its training data by sums over a grid in NumPy."""
    observations = rp.read(tiny_data(n=6), series=True)
    with seeded(0):
        networks = {name: rp.recognition.Linear((3,), 2) for name in observations.specs}
    parts = {"e_step": Amortised(), "expected_log_mixture": FixedGrid(), "dtype": DOUBLE, "scaling": "none"}
    pattern = rp.RPM(circular_prior(request.param), networks, **parts)
    with torch.no_grad():
        for parameter in pattern.recognition.parameters():
            parameter.mul_(3.0)
    pattern.prepare(observations)
    model = FittedRPM.collected(pattern, observations)
    return model, observations, log_w_on_a_grid(model, observations)


def log_w_on_a_grid(model, observations):
    t = np.stack([np.cos(GRID), np.sin(GRID)])
    reference = model.prior.eta.detach().numpy()
    log_p = reference @ t - np.log(np.exp(reference @ t).sum() * STEP)
    total = np.repeat(log_p[None], len(observations), 0)
    for name in model.names:
        eta = torch.cat(list(model.recognise(observations, name)))[:, 0].numpy()
        f = np.exp(eta @ t - eta.max())
        f /= f.sum(1, keepdims=True) * STEP
        total = total + np.log(f) - np.log(f.mean(0))
    return np.log(np.exp(total).sum(1) * STEP)


def test_log_w_is_that_of_a_grid_by_quadrature_and_by_importance(tiny, generator):
    model, observations, expected = tiny
    assert (model.free_energies(observations, in_training=True).total.numpy() <= expected + 1e-9).all()
    bound = model.free_energies(observations, InteriorBound(), in_training=True).total.numpy()
    assert (bound <= expected + 1e-9).all()
    for n in range(2):
        one, each = observations.subset(np.array([n])), log_w_of(model, observations, n)
        np.testing.assert_allclose(log_weight.by_quadrature(model, one, 512).values, each, atol=1e-8)
        drawn = log_weight.importance(model, one, 300, generator)
        assert abs(drawn.values[0] - each) < 5 * drawn.standard_error[0]


def log_w_of(model, observations, n):
    """As a new observation: its own atom once more."""
    twice = observations.subset(np.array([*range(len(observations)), n]))
    return log_w_on_a_grid(model, twice)[-1]


@pytest.mark.parametrize("approximation", [FixedGrid(64), InteriorBound(), OptimalInteriorBound(), SecondOrder()])
def test_every_way_to_the_mixture_against_the_integral(tiny, approximation):
    model, observations, _ = tiny
    (inferred,) = model.posterior(observations)
    eta = inferred.posterior.eta.detach()
    t = np.stack([np.cos(GRID), np.sin(GRID)])
    q = np.exp(eta[:, 0].numpy() @ t)
    q /= q.sum(1, keepdims=True)
    for name, mixture in inferred.mixtures.items():
        ratio = mixture.log_ratio(torch.tensor(t.T)[None, None]).detach()[:, 0].numpy()
        expected = (q * ratio).sum(1)
        local = approximation.initial_parameters(VonMises(), lambda: eta)
        found = approximation(eta, mixture, local).detach()[:, 0].numpy()
        if isinstance(approximation, FixedGrid):
            np.testing.assert_allclose(found, expected, atol=1e-9, err_msg=name)
        elif isinstance(approximation, SecondOrder):
            assert np.abs(found - expected).max() < 0.5 * np.abs(expected).max() + 0.1
        else:
            assert (found > expected - 1e-9).all()


def test_a_grid_needs_a_bounded_space():
    with pytest.raises(rp.RPModelsError, match=r"DiagonalGaussian is unbounded.*HasGrid"):
        FixedGrid().check(DiagonalGaussian(1))


# ---- the estimator ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fit():
    x, z = data.headings(200, noise=0.3, seed=0)
    few = {"max_iter": 150, "n_init": 1, "random_state": 0, "learning_rate": 0.02, "network": "linear"}
    model = RPCircular(**few).fit({name: each[:150] for name, each in x.items()})
    return model, x, z


def test_headings_are_found_up_to_a_turn(fit):
    model, x, z = fit
    found = model.predict(x)
    assert found.shape == (200,)
    assert (np.abs(found) <= np.pi).all()
    sign, offset = rp.metrics.angle_map(found[:150], z[:150])
    left = rp.metrics.wrapped(sign * found[150:] + offset) - z[150:]
    assert np.cos(left).mean() > 0.9


def test_verbs_agree_with_each_other_and_with_scipy(fit):
    model, x, _ = fit
    found = model.posterior(x)
    points = model.transform(x)
    np.testing.assert_allclose(np.arctan2(points[:, 1], points[:, 0]), found.angle, atol=1e-4)
    np.testing.assert_allclose(np.hypot(*points.T), found.resultant_length, atol=1e-5)
    low, high = found.interval(0.8)
    expected = scipy.stats.vonmises.ppf(0.9, found.concentration)
    np.testing.assert_allclose(0.5 * (high - low), expected, atol=1e-6)
    np.testing.assert_allclose(0.5 * (high + low), found.angle, atol=1e-12)
    drawn = found.sample(2000, random_state=1)
    assert drawn.shape == (2000, 200)
    spread = 5 / np.sqrt(2000)
    assert np.abs(np.exp(1j * (drawn - found.angle)).mean(0).real - found.resultant_length).max() < spread
    latents = model.latents(x)
    np.testing.assert_array_equal(latents.values[:, 0], found.angle)
    np.testing.assert_array_equal(latents.resultant[:, 0], found.resultant_length)


@pytest.mark.parametrize("kappa", [0.0, 0.3, 20.0, 1e4, 1e8])
def test_half_widths_hold_what_they_say(kappa):
    (half,) = half_width(np.array([kappa]), 0.9)
    expected = scipy.stats.norm.ppf(0.95) / np.sqrt(kappa) if kappa > 1e3 else None
    if expected is not None:
        assert half == pytest.approx(expected, rel=1e-3)
    else:
        assert 2 * scipy.stats.vonmises.cdf(half, kappa) - 1 == pytest.approx(0.9, abs=1e-9)


def test_one_factor_says_less_than_both_and_the_bound_lies_below_log_w(fit):
    model, x, _ = fit
    alone = model.recognise(x["a"], "a").concentration
    np.testing.assert_allclose(model.posterior({"a": x["a"]}).concentration, alone, rtol=1e-4)
    assert np.median(model.posterior(x).concentration) > np.median(alone)
    exact = model.log_weight(x, nodes=256).values
    assert (model.score_samples(x) <= exact + 1e-4).all()
    sampled = model.log_weight({name: each[:5] for name, each in x.items()}, method="importance", draws=200)
    assert (np.abs(sampled.values - exact[:5]) < 5 * sampled.standard_error + 1e-3).all()
    with pytest.raises(rp.RPModelsError, match="method"):
        model.log_weight(x, method="hope")


def test_files_hold_everything(fit, tmp_path):
    model, x, _ = fit
    model.save(tmp_path / "angles.rpm")
    again = rp.load(tmp_path / "angles.rpm")
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    assert again.prior_.resultant_length[0] == pytest.approx(0, abs=1e-6)


def test_a_learned_prior_finds_that_headings_are_uneven():
    random = np.random.default_rng(0)
    z = random.vonmises(0.0, 2.0, 300)
    points = np.stack([np.cos(z), np.sin(z)], -1)
    x = {name: points + 0.3 * random.standard_normal((300, 2)) for name in "ab"}
    model = RPCircular(learned_prior=True, max_iter=150, n_init=1, random_state=0, learning_rate=0.02).fit(x)
    assert 0.4 < model.prior_.resultant_length[0] < 0.95
    found = model.posterior(x)
    sign, offset = rp.metrics.angle_map(found.angle, z)
    assert np.cos(sign * found.angle + offset - z).mean() > 0.9
    np.testing.assert_allclose(np.hypot(*model.transform(x).T), found.resultant_length, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"recognition": rp.Recognition(covariance="full")}, "its latent is one angle"),
        ({"inference": rp.Inference(e_step="natural_gradient")}, "Gaussian"),
        ({"inference": rp.Inference(expected_log_mixture="monte_carlo")}, "differentiable"),
    ],
)
def test_what_angles_have_no_use_for_is_refused(options, words):
    with pytest.raises(rp.RPModelsError, match=words):
        RPCircular(**options).fit(data.headings(20)[0])


# ---- alignment ----------------------------------------------------------------------------------------


def test_angles_are_aligned_by_the_best_turn():
    random = np.random.default_rng(0)
    truth = random.uniform(-np.pi, np.pi, 100)
    found = rp.metrics.wrapped(0.7 - truth)
    np.testing.assert_allclose(rp.metrics.aligned_angles(found, truth), truth, atol=1e-9)
    turned = rp.metrics.aligned_angles(found, truth, reflection=False)
    offsets = np.linspace(-np.pi, np.pi, 2001)
    best = max(np.cos(truth - found - each).mean() for each in offsets)
    assert np.cos(truth - turned).mean() == pytest.approx(best, abs=1e-5)
    noise = random.normal(0, 0.5, 100)
    assert rp.metrics.resultant_length(truth + noise, truth) == pytest.approx(1 - scipy.stats.circvar(noise))
    with pytest.raises(rp.RPModelsError, match="truth"):
        rp.metrics.aligned_angles(found, truth[:3])


def test_angles_of_ones_own_are_a_start():
    random = np.random.default_rng(0)
    angles = random.uniform(-np.pi, np.pi, 120)
    shown = np.stack([np.cos(angles), np.sin(angles)], 1)
    x = {name: shown + 0.2 * random.standard_normal((120, 2)) for name in "ab"}
    settings = {"max_iter": 200, "n_init": 1, "random_state": 0, "training": rp.Training(finish="none")}
    model = rp.RPCircular(search=rp.Search(start=angles), **settings).fit(x)
    (taught,) = [each for each in model.restarts_ if each.kind == "given latents"]
    assert taught.lessons > 0
    found = np.arctan2(*np.asarray(model.transform(x)).T[::-1])
    assert abs(np.exp(1j * (found - angles)).mean()) > 0.95
    for wrong, said in ((np.ones((120, 2)), "an angle for every site"), (np.ones(119), "119")):
        with pytest.raises(rp.RPModelsError, match=said):
            rp.RPCircular(search=rp.Search(start=wrong), **settings).fit(x)
