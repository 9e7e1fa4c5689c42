"""RP-FA against what is known in closed form: linear-Gaussian views, canonical correlations, the in-model limit."""

import numpy as np
import pytest
import scipy.linalg
import torch

import rpmodels as rp
from oracles.gaussians import log_mean_exp
from registry import made
from rpmodels.carriers import Factor, Sites
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.free_energy import free_energy
from rpmodels.inference import Amortised, NaturalGradient
from rpmodels.learning import RPMObjective
from rpmodels.mixtures import InteriorBound, PerSite, SharedGrid
from rpmodels.priors import GaussianPrior
from rpmodels.recognition import AbsoluteHead, ConstantPrecision, Linear
from rpmodels.step import Step

DOUBLE = torch.float64


def two_views(n, dims=(6, 5), correlations=(0.95, 0.85), seed=0):
    """Views with these canonical correlations, mixed by random matrices, and the canonical directions of each."""
    random = np.random.default_rng(seed)
    k = len(correlations)
    z = random.standard_normal((n, k))
    views, directions = {}, {}
    for name, d in zip("ab", dims, strict=True):
        noise = random.standard_normal((n, d))
        clean = noise.copy()
        clean[:, :k] = np.sqrt(correlations) * z + np.sqrt(1 - np.asarray(correlations)) * noise[:, :k]
        mixing = random.standard_normal((d, d)) + 2 * np.eye(d)
        views[name] = clean @ mixing.T
        directions[name] = np.linalg.inv(mixing)[:k].T
    return views, directions, z


@pytest.mark.soak
def test_linear_networks_recover_the_cca_subspace():
    views, directions, z = two_views(5000)
    model = rp.RPFA(
        2, network="linear", n_init=1, max_iter=500, learning_rate=0.02,
        recognition=rp.Recognition(precision="constant", scaling="none"),
        training=rp.Training(batch_size=500, weight_decay=0.0), random_state=0,
    ).fit(views)  # fmt: skip
    for name, recogniser in model.model_.pattern.recognisers():
        weights = next(p for p in recogniser.network.parameters() if p.ndim == 2).detach().double().numpy()
        angle = np.degrees(scipy.linalg.subspace_angles(weights.T, directions[name]).max())
        assert angle <= 5.0, f"{name}: {angle:.1f}°"
    assert rp.metrics.nmse(model.transform(views), z) < 0.2
    alone = model.transform({"a": views["a"]})
    assert alone.shape == (5000, 2)


def exact_factor(n, noise, seed=0):
    """One view x = z + noise of z ~ N(0, 1): the true recognition factor has potential [x/σ², −1/2σ²]."""
    random = np.random.default_rng(seed)
    x = random.standard_normal(n) + noise**0.5 * random.standard_normal(n)
    first = torch.as_tensor(x / noise)
    g = torch.stack([first, torch.full_like(first, -0.5 / noise)], -1)[:, None]
    return Factor(g, torch.ones(n, 1, dtype=torch.bool))


def test_in_model_limit():
    """F_j → p and the interior bound becomes exact as N grows."""
    family = DiagonalGaussian(1)
    prior = GaussianPrior(family).to(DOUBLE)
    z = torch.linspace(-6, 6, 2001, dtype=DOUBLE)
    t = family.statistic(z[None, None, :, None])
    log_p = -0.5 * z.square() - 0.5 * np.log(2 * np.pi)
    divergences, gaps = [], []
    for n in (100, 1_000, 10_000):
        factor = exact_factor(n, 0.3)
        reference = prior.reference(Sites.single(n), True)
        mixture = PerSite().collect(family, reference, factor, torch.ones(n, dtype=DOUBLE))
        ratio = mixture.log_ratio(t)[0, 0]
        divergences.append(float((torch.exp(ratio + log_p) * ratio).sum() * (z[1] - z[0])))
        few = prior.condition(2 * factor.g[:300], Sites.single(300)).eta
        gaps.append(float((InteriorBound()(few, mixture, {}) - SharedGrid()(few, mixture, {})).mean()))
    assert divergences[0] > divergences[1] > divergences[2] > 0
    assert gaps[0] > gaps[1] > gaps[2] > -1e-9
    assert gaps[2] <= 0.01


# ---- targets --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [DiagonalGaussian, FullGaussian])
def test_targets_against_a_dense_computation_on_shared_and_private_latents(kind):
    """Latent 0 shared by both views, 1 and 2 private: every term of (5) ranges over a factor's own targets."""
    random = np.random.default_rng(0)
    n, k = 7, 3
    targets = {"a": [0, 1], "b": [2, 0]}
    data = {name: random.standard_normal((n, 4)) for name in targets}
    sub = kind(2)
    networks = {name: Linear((4,), sub.raw_size) for name in targets}
    model = rp.RPM(
        GaussianPrior(kind(k)), networks, e_step=Amortised(), expected_log_mixture=InteriorBound(),
        targets=targets, scaling="none", dtype=DOUBLE,
    )  # fmt: skip
    observations = rp.read(data)
    model.prepare(observations)
    batch = observations.batch(np.arange(n), DOUBLE, torch.device("cpu"))
    inferred = RPMObjective(model, observations).evaluate(batch)
    for i in range(n):
        precision, shift = np.eye(k), np.zeros(k)
        potentials = {}
        for name, chosen in targets.items():
            g = inferred.factors[name].g[:, 0].detach().numpy()
            matrices = [np.diag(row[2:]) if kind is DiagonalGaussian else row[2:].reshape(2, 2) for row in g]
            potentials[name] = (g[:, :2], matrices)
            precision[np.ix_(chosen, chosen)] -= 2 * matrices[i]
            shift[chosen] += g[i, :2]
        covariance = np.linalg.inv(precision)
        mean = covariance @ shift
        kl = 0.5 * (np.trace(covariance) + mean @ mean - k + np.linalg.slogdet(precision)[1])
        total = -kl
        for name, chosen in targets.items():
            first, matrices = potentials[name]
            m, s = mean[chosen], covariance[np.ix_(chosen, chosen)]
            shifts = [log_mean_exp(np.zeros(2), np.eye(2), f, g) for f, g in zip(first, matrices, strict=True)]
            total += first[i] @ m + np.trace(matrices[i] @ (s + np.outer(m, m))) - shifts[i]
            terms = [log_mean_exp(m, s, f, g) - c for f, g, c in zip(first, matrices, shifts, strict=True)]
            total -= np.log(np.mean(np.exp(terms)))
        assert float(inferred.energy.total[i].detach()) == pytest.approx(total, abs=1e-8)
        np.testing.assert_allclose(
            model.prior.family.moments(inferred.posterior.eta)[0][i, 0].detach(), mean, atol=1e-8
        )


def test_a_private_latent_hears_nothing_of_the_other_view():
    views, _, _ = two_views(300)
    model = rp.RPFA(
        2,
        recognition=rp.Recognition(targets={"a": [0]}),
        n_init=1,
        max_iter=5,
        random_state=0,
        engine=rp.Engine(dtype="float64"),
    ).fit(views)
    only = model.posterior({"a": views["a"]})
    np.testing.assert_allclose(only.mean[:, 1], 0, atol=1e-9)
    np.testing.assert_allclose(only.variance[:, 1], 1, atol=1e-6)
    mean, covariance = model.recognise(views["a"], "a")
    assert mean.shape == (300, 1)
    assert covariance.shape == (300, 1, 1)


# ---- log W ----------------------------------------------------------------------------------


def test_log_weight_by_quadrature_and_by_importance_agree_and_bound_the_score():
    both, _, _ = two_views(220, correlations=(0.9,))
    views, new = ({name: x[rows] for name, x in both.items()} for rows in (slice(200), slice(200, None)))
    training = rp.Training(finish="none")
    model = rp.RPFA(1, n_init=1, max_iter=60, random_state=0, training=training, engine=rp.Engine(dtype="float64"))
    model.fit(views)
    exact = model.log_weight(new, method="quadrature", nodes=64)
    sampled = model.log_weight(new, draws=500)
    assert (np.abs(exact.values - sampled.values) < 5 * sampled.standard_error + 1e-3).all()
    assert (model.score_samples(new) <= exact.values + 1e-6).all()
    assert (model.score_samples(new, exact=True) <= exact.values + 1e-6).all()
    assert model.score(new, exact=True) >= model.score(new) - 1e-6
    assert "lower bound" in repr(model.score(new))
    assert (sampled.effective_samples > 1).all()


def test_score_of_one_observation_does_not_depend_on_its_batch():
    views, _, _ = two_views(100)
    for approximation in ("interior", "monte_carlo", "second_order", "quadrature"):
        model = rp.RPFA(
            2, n_init=1, max_iter=5, random_state=0, inference=rp.Inference(expected_log_mixture=approximation),
            training=rp.Training(finish="none"),
        ).fit(views)  # fmt: skip
        alone = [model.score_samples({name: x[n : n + 1] for name, x in views.items()})[0] for n in (0, 7)]
        np.testing.assert_allclose(alone, model.score_samples(views)[[0, 7]], rtol=1e-4, atol=1e-4)


# ---- the estimator --------------------------------------------------------------------------

LINEAR = {"tied": True, "precision": "constant", "network": "linear"}


@pytest.mark.parametrize(
    "settings",
    [
        {"covariance": "full"},
        {"covariance": "full", "precision": "constant", "expected_log_mixture": "second_order"},
        {"e_step": NaturalGradient(steps=2), "expected_log_mixture": "interior_optimal", "max_iter": 1, "n_init": 1},
        {"e_step": "free", "expected_log_mixture": "interior_free", "batch_size": None},
        {"e_step": "free", "alternate": 2},
        {"learned_prior": True},
        {"marginal": "kernel_density"},
        {"marginal": "gaussian"},
        {"e_step": "natural_gradient", "head": "absolute"},
        LINEAR,
    ],
    ids=",".join,
)
def test_every_choice_fits_and_repeats(settings):
    ends = settings in ({"covariance": "full"}, LINEAR)  # by L-BFGS, with rows enough to do without folds
    n = 40 if settings.get("e_step", "amortised") == "amortised" else 16  # refinement takes its time
    n, dims = (100, (2, 2)) if ends else (n, (5, 5))
    views, _, _ = two_views(n, dims=dims)
    brief = {"n_init": 1 if ends else 2, "max_iter": 6, "retries": 0, "random_state": 3}
    brief = {**brief, "finish": "auto" if ends else "none", **settings}
    fits = [made(rp.RPFA, 2, **brief).fit(views) for _ in range(2)]
    np.testing.assert_array_equal(*(fit.transform(views) for fit in fits))
    np.testing.assert_array_equal(*(fit.score_samples(views) for fit in fits))
    posterior = fits[0].posterior(views)
    assert posterior.mean.shape == (n, 2)
    assert posterior.covariance.shape == (n, 2, 2)
    assert np.isfinite(posterior.mean).all()
    assert (posterior.variance > 0).all()
    assert len(posterior.sample(3)) == 3
    assert posterior.sample(1)[0].shape == (n, 2)


def test_constant_precision_is_one_number_for_all_rows():
    network = ConstantPrecision(Linear((3,), 2), 2, 4)
    raw = network(torch.randn(5, 3))
    assert raw.shape == (5, 4)
    assert (raw[:, 2:] == raw[0, 2:]).all()


def test_coverage_of_ninety_percent_intervals_on_in_model_data():
    views, _, z = two_views(5000, dims=(1, 1), correlations=(0.9,))
    seen, fresh = ({name: x[rows] for name, x in views.items()} for rows in (slice(2000), slice(2000, None)))
    model = rp.RPFA(
        1, network="linear", n_init=1, max_iter=400, learning_rate=0.1,
        recognition=rp.Recognition(precision="constant", scaling="none"),
        training=rp.Training(weight_decay=0.0), random_state=0,
    ).fit(seen)  # fmt: skip
    posterior = model.posterior(fresh)
    line = rp.metrics.linear_map(model.transform(seen), z[:2000])
    mean, variance = rp.metrics.aligned(posterior.mean, posterior.covariance, *line)
    assert 0.85 <= rp.metrics.coverage(mean, variance, z[2000:]) <= 0.95
    information = -0.5 * np.log(1 - 0.9**2)
    assert information - 0.05 < model.score(fresh) < information + 0.05


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_latents": 0}, "n_latents"),
        ({"expected_log_mixture": "magic"}, "inference.expected_log_mixture: expected 'auto', 'interior'"),
        ({"e_step": "magic"}, "inference.e_step: expected 'amortised'"),
        ({"covariance": "round"}, "recognition.covariance: expected 'auto', 'diagonal', 'full'"),
        ({"precision": "some"}, "recognition.precision: expected 'network' or 'constant'"),
        ({"targets": {"a": [2]}}, "targets of factor 'a': expected different latents from 0 to 1"),
        ({"targets": {"c": [0]}}, "Unknown factor 'c'"),
        ({"n_latents": 4, "expected_log_mixture": "quadrature"}, "at most 3 latent"),
        ({"head": "absolute"}, "absolute factors may know less"),
        ({"e_step": "free_inducing"}, "needs a prior with inducing points"),
        ({"marginal": "magic"}, "inference.marginal: expected 'empirical'"),
    ],
    ids=str,
)
def test_bad_choices_are_named(settings, message):
    views, _, _ = two_views(30)
    with pytest.raises(ValueError, match=message):
        made(rp.RPFA, **{"n_latents": 2, "max_iter": 2, **settings}).fit(views)


def test_free_energy_of_a_head_does_not_depend_on_the_reference():
    """The same factors relative to the prior or absolute: r cancels between f_j and F_j."""
    family = DiagonalGaussian(1)
    prior = GaussianPrior(family).to(DOUBLE)
    generator = torch.Generator().manual_seed(0)
    g = family.to_potential(torch.randn(6, 1, 2, generator=generator, dtype=DOUBLE))
    present = torch.ones(6, 1, dtype=torch.bool)
    sites, ones = Sites.single(6), torch.ones(6, dtype=DOUBLE)
    relative = prior.reference(sites, True)
    absolute = AbsoluteHead().reference(family, relative)
    posterior = prior.condition(2 * g, sites)
    totals = []
    for reference in (relative, absolute):
        factor = Factor(relative + g - reference, present)
        mixture = PerSite().collect(family, reference, factor, ones)
        factors, mixtures = {"a": factor, "b": factor}, {"a": mixture, "b": mixture}
        step = Step(prior, sites, factors, mixtures)
        totals.append(free_energy(step, posterior, SharedGrid(), ones, 6.0).total)
    torch.testing.assert_close(*totals, rtol=0, atol=1e-6)
