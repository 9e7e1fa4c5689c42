"""The implied generative side against its definitions, dense linear-Gaussian oracles and integration on dense grids."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, vonmises

import rpmodels as rp
from oracles.generative import LinearGaussian, densities, imputed_on_a_grid, lattice, members
from registry import process_prior, tiny_data
from rpmodels import generative
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.fitted import FittedRPM
from rpmodels.generative import Rows
from rpmodels.inference import Amortised
from rpmodels.mixtures import InteriorBound, PerSite, Pooled
from rpmodels.model import targeted
from rpmodels.priors import CircularPrior, GaussianMixturePrior, GaussianPrior, LinearDynamicsPrior
from rpmodels.seeding import seeded

DOUBLE = torch.float64
MANY = 1e12
"""Of what every atom counts for: a new observation adds nothing to so heavy a mixture."""


# ---- models -------------------------------------------------------------------------------------------


def approximate(prior, data, *, atoms=None, sharpness=1.0, seed=0, targets=None, **options):
    """A model with random linear factors, and its training observations."""
    observations = rp.read(data, series=True, **options)
    with seeded(seed):
        sizes = {name: targeted(prior.family, name, (targets or {}).get(name))[0].raw_size for name in data}
        networks = {name: rp.recognition.Linear((3,), size) for name, size in sizes.items()}
    parts = {
        "targets": targets,
        "e_step": Amortised(),
        "expected_log_mixture": InteriorBound(),
        "atoms": atoms or PerSite(),
    }
    model = rp.RPM(prior, networks, scaling="none", dtype=DOUBLE, **parts)
    with torch.no_grad():
        for parameter in model.recognition.parameters():
            parameter.mul_(sharpness)
    model.prepare(observations)
    return FittedRPM.collected(model, observations), observations


class Exactly(torch.nn.Module):
    """p(z | x_j) of x_j = L z + σ ε, relative to N(0, I)."""

    def __init__(self, loading, noise):
        super().__init__()
        family, loading = FullGaussian(loading.shape[1]), torch.as_tensor(loading)
        precision = loading.mT @ loading / noise**2
        nothing = torch.zeros(family.latents, dtype=DOUBLE)
        self.register_buffer("gain", loading / noise**2)
        self.register_buffer("rest", family.to_raw(torch.cat([nothing, -0.5 * precision.flatten()]))[family.latents :])

    def forward(self, x):
        return torch.cat([x @ self.gain, self.rest.expand(len(x), -1)], -1)


def in_model(prior, world, nodes, atoms):
    """A linear-Gaussian RPM: p₀ is a normal on the nodes of a quadrature, so that F_j is the prior to all digits."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    width = len(next(iter(world.loadings.values())))
    grid = np.stack(np.meshgrid(*[points] * width), -1).reshape(-1, width)
    share = np.stack(np.meshgrid(*[weights / weights.sum()] * width), -1).reshape(-1, width).prod(-1)
    rows = {name: grid @ np.linalg.cholesky(world.marginal(name)).T for name in world.loadings}
    observations = rp.read({name: each[:, None] for name, each in rows.items()}, series=True)
    networks = {name: Exactly(each, world.noise) for name, each in world.loadings.items()}
    parts = {"e_step": Amortised(), "expected_log_mixture": InteriorBound(), "atoms": atoms}
    model = rp.RPM(prior, networks, scaling="none", dtype=DOUBLE, **parts)
    model.prepare(observations)
    return FittedRPM.collected(model, replace(observations, weights=MANY * share)), rows


def linear_gaussian(latents, width, nodes):
    random = np.random.default_rng(latents)
    loadings = {name: random.normal(size=(width, latents)) for name in "ab"}
    world = LinearGaussian(loadings, 1.2, np.eye(latents)[None, :, None, :])
    return world, *in_model(GaussianPrior(FullGaussian(latents)), world, nodes, PerSite())


def new_of(model, data, **options):
    return rp.read(data, series=True, known=model.specs, **options)


# ---- definitions --------------------------------------------------------------------------------------

GAUSSIAN = {"diagonal": lambda: GaussianPrior(DiagonalGaussian(2)), "full": lambda: GaussianPrior(FullGaussian(2))}


@pytest.mark.parametrize("prior", GAUSSIAN.values(), ids=GAUSSIAN.keys())
def test_the_conditional_of_gaussians_is_p0_f_over_F(prior, generator):
    weights = np.arange(1.0, 8.0)
    model, _ = approximate(prior(), tiny_data(n=7), weights=weights)
    here = generative.conditional(model, "x1")
    z = torch.randn(5, 1, 2, generator=generator, dtype=DOUBLE)
    mean, covariance, _ = members(model.atoms("x1"), 0)
    f, p0 = densities(mean, covariance, z[:, 0].numpy()), weights / weights.sum()
    mixture = p0 @ f
    found = generative.conditional_weights(model, "x1", z)[:, 0]
    np.testing.assert_allclose(found, (p0[:, None] * f / mixture).T, atol=1e-12)
    t = here.targets.mean(model.prior.family.statistic(z))[:, :, None]
    # F_j(z) = C exp(Φ_{x_j}(t(z))), and both are zero where t is.
    np.testing.assert_allclose(here.log_constant + here.log_normaliser(t)[:, 0, 0], np.log(mixture), atol=1e-10)
    assert abs(float(here.log_normaliser(torch.zeros_like(t)[:1])[0, 0, 0])) < 1e-12


def test_base_measure_and_normaliser_are_those_of_an_exponential_family(generator):
    model, _ = approximate(GaussianPrior(FullGaussian(2)), tiny_data(n=6), weights=np.arange(1.0, 7.0))
    here = generative.conditional(model, "x0")
    p0 = np.arange(1.0, 7.0) / 21
    log_phi = [_log_normaliser(m, c) for m, c in zip(*members(model.atoms("x0"), 0)[:2], strict=True)]
    chi = p0 * np.exp(-np.array(log_phi))
    np.testing.assert_allclose(here.log_chi[0].exp(), chi / chi.sum(), atol=1e-12)
    # The mean of the statistic η_j under p(x_j | z) is the gradient of Φ_{x_j} by the natural parameter t(z).
    t = model.prior.family.statistic(torch.randn(1, 1, 1, 2, generator=generator, dtype=DOUBLE)).requires_grad_()
    (slope,) = torch.autograd.grad(here.log_normaliser(t).sum(), t)
    torch.testing.assert_close(slope, here.weights(t) @ here.eta[0], rtol=0, atol=1e-12)


def _log_normaliser(mean, covariance):
    """Φ = ½(mᵀS⁻¹m + log|S|) + log 2π."""
    inside = mean @ np.linalg.solve(covariance, mean)
    return 0.5 * (inside + np.linalg.slogdet(covariance)[1]) + np.log(2 * np.pi)


def test_the_conditional_of_angles_is_p0_f_over_F():
    model, _ = approximate(CircularPrior(), tiny_data(n=6), sharpness=2.0)
    z = torch.linspace(-3, 3, 5, dtype=DOUBLE)[:, None]
    eta = (model.atoms("x0").reference + model.atoms("x0").g[0]).numpy()
    f = vonmises.pdf(z.numpy(), np.hypot(*eta.T), np.arctan2(eta[:, 1], eta[:, 0]))
    found = generative.conditional_weights(model, "x0", z)[:, 0]
    np.testing.assert_allclose(found, f / f.sum(1, keepdims=True), atol=1e-12)


# ---- the linear-Gaussian case -------------------------------------------------------------------------

WORLDS = {"one latent": (1, 1, 48), "two latents": (2, 2, 24)}


@pytest.fixture(scope="module", params=WORLDS.values(), ids=WORLDS.keys())
def world(request):
    return linear_gaussian(*request.param)


def seen_and_expected(world, rows, n=4):
    random = np.random.default_rng(7)
    seen = random.normal(size=(n, 1, len(world.loadings["a"]))) * 1.5
    mean, covariance = zip(*(world.predicted("b", {"a": each}) for each in seen), strict=True)
    p0 = multivariate_normal(np.zeros(rows["b"].shape[1]), world.marginal("b")).pdf(rows["b"])
    given = [multivariate_normal(m[0], c[0]).pdf(rows["b"]) / p0 for m, c in zip(mean, covariance, strict=True)]
    return seen, np.stack(mean), np.stack(covariance), np.stack(given)


def standing_on(model, name, rows):
    """The rows of training, with what they count for."""
    weights = model.atoms(name).log_count[0].exp().numpy()
    observations = replace(new_of(model, {name: rows[name][:, None]}), weights=weights)
    return Rows(observations, torch.as_tensor(rows[name])[:, None])


def test_imputation_by_quadrature_is_the_linear_gaussian_regression(world):
    dense, model, rows = world
    seen, mean, covariance, given = seen_and_expected(dense, rows)
    observations = new_of(model, {"a": seen})
    found = generative.impute(model, observations, "b")
    counts = model.atoms("b").log_count[0].exp().numpy()
    np.testing.assert_allclose(found.values[:, 0], given * counts / counts.sum(), atol=1e-6)
    assert found.method == "quadrature"
    assert float(found.error.max()) < 1e-5  # of two thirds of the nodes
    on_rows = generative.impute(model, observations, "b", rows=standing_on(model, "b", rows))
    np.testing.assert_allclose(on_rows.values, mean, atol=1e-6)
    np.testing.assert_allclose(on_rows.spread[:, 0], np.sqrt(np.einsum("ntdd->nd", covariance)), atol=1e-6)


@pytest.mark.parametrize("method", ["importance", "q"])
def test_imputation_by_draws_and_by_q_is_that_regression_within_its_error(world, method):
    dense, model, rows = world
    seen, mean, _, _ = seen_and_expected(dense, rows)
    observations = new_of(model, {"a": seen})
    found = generative.impute(
        model, observations, "b", rows=standing_on(model, "b", rows), method=method, draws=400, seed=1
    )
    assert (np.abs(found.values.numpy() - mean) < 3 * found.error.numpy() + 1e-6).all()
    assert (float(found.error.max()) > 1e-3) == (method == "importance")


def test_draws_of_observations_have_the_linear_gaussian_covariance(world, generator):
    dense, model, rows = world
    n = 8_000
    z, drawn = generative.sample(model, n, generator)
    x = np.concatenate([rows[name][drawn[name][:, 0]] for name in "ab"] + [z[:, 0].numpy()], 1)
    across = dense.covariance_of("a", "b")[0, :, 0]
    both = np.concatenate([dense.loadings["a"], dense.loadings["b"]])
    expected = np.block([[dense.marginal("a"), across], [across.T, dense.marginal("b")]])
    expected = np.block([[expected, both], [both.T, np.eye(z.shape[-1])]])
    products = x[:, :, None] * x[:, None]
    error = products.std(0) / np.sqrt(n)
    assert (np.abs(products.mean(0) - expected) < 4 * error).all()  # of up to 36 numbers


def test_series_are_imputed_as_the_dense_normal_of_all_times_has_them():
    memory, sites = 0.8, 6
    times = np.arange(sites)
    covariance = memory ** np.abs(times[:, None] - times)
    random = np.random.default_rng(0)
    loadings = {name: random.normal(size=(1, 1)) + 0.5 for name in "ab"}
    dense = LinearGaussian(loadings, 1.0, covariance[:, None, :, None])
    prior = LinearDynamicsPrior(FullGaussian(1), memory=memory)
    model, rows = in_model(prior.double(), dense, 48, Pooled())
    seen = 1.5 * random.normal(size=(3, sites, 1))
    lengths = (6, 6, 4)
    observations = new_of(model, {"a": [each[:length] for each, length in zip(seen, lengths, strict=True)]})
    by_q, by_draws = (
        generative.impute(model, observations, "b", rows=standing_on(model, "b", rows), method=each, draws=400)
        for each in ("auto", "importance")
    )
    assert (by_q.method, by_draws.method) == ("q", "importance")
    for n, length in enumerate(lengths):
        short = replace(dense, covariance=dense.covariance[:length, :, :length])
        mean, spread = short.predicted("b", {"a": seen[n, :length]})
        np.testing.assert_allclose(by_q.values[n, :length], mean, atol=1e-6)
        np.testing.assert_allclose(by_q.spread[n, :length], np.sqrt(spread[:, 0]), atol=1e-6)
        off = np.abs(by_draws.values[n, :length].numpy() - mean)
        assert (off < 4 * by_draws.error[n, :length].numpy()).all()  # of sixteen numbers


# ---- mixtures that are not the prior, by integration over a dense grid --------------------------------


def etas_of(model, observations, others):
    """{factor: {site: η}} of the one observation."""
    found = {}
    for name in others:
        (eta,) = model.recognise(observations, name)
        found[name] = {t: eta[0, t] for t in np.flatnonzero(observations.present[name][0])}
    return found


@pytest.mark.parametrize("targets", [None, {"x0": [1], "x2": [1]}], ids=["all", "some"])
@pytest.mark.parametrize("prior", GAUSSIAN.values(), ids=GAUSSIAN.keys())
def test_imputation_by_quadrature_and_by_importance_is_that_of_a_dense_grid(prior, targets):
    data = tiny_data(n=9, n_factors=3)
    data["x2"][3] = np.nan  # missing among the atoms of what is imputed
    data["x0"][5] = np.nan
    model, _ = approximate(prior(), data, weights=np.linspace(0.5, 2.0, 9), sharpness=1.5, targets=targets)
    one = new_of(model, {"x0": np.random.default_rng(3).normal(size=(1, 1, 3)), "x1": np.ones((1, 1, 3))})
    z = lattice(1, 2, 7.0, 201)
    log_p = multivariate_normal(np.zeros(2)).logpdf(z[:, 0])
    expected = imputed_on_a_grid(model, etas_of(model, one, ("x0", "x1")), "x2", z, log_p, targets)
    exact = generative.impute(model, one, "x2", nodes=64)
    np.testing.assert_allclose(exact.values[0], expected, atol=1e-6)
    assert exact.values[0, 0, 3] == 0
    drawn = generative.impute(model, one, "x2", method="importance", draws=500)
    assert (np.abs(drawn.values[0].numpy() - expected) <= 3 * drawn.error[0].numpy() + 1e-12).all()
    assert 50 < float(drawn.effective[0]) <= 500


@pytest.mark.parametrize("atoms", [PerSite(), Pooled()], ids=["per site", "pooled"])
def test_series_by_importance_are_those_of_a_dense_grid_over_all_times(atoms):
    data = tiny_data(n=6, sites=2)
    data["x1"][2, 1] = np.nan
    model, _ = approximate(process_prior(DiagonalGaussian(1), n_inducing=2, end=1.0), data, atoms=atoms, sharpness=2.0)
    one = new_of(model, tiny_data(n=1, sites=2, seed=4))
    one.present["x0"][0, 1] = False
    z = lattice(2, 1, 6.0, 201)
    kernel = np.exp(-0.5 * np.square(np.subtract.outer(np.arange(2), np.arange(2)) / 2.0))
    log_p = multivariate_normal(np.zeros(2), kernel).logpdf(z[:, :, 0])
    expected = imputed_on_a_grid(model, etas_of(model, one, ("x0",)), "x1", z, log_p)
    drawn = generative.impute(model, one, "x1", method="importance", draws=500, seed=2)
    assert (np.abs(drawn.values[0].numpy() - expected) <= 3.5 * drawn.error[0].numpy() + 1e-12).all()
    # What is there is looked at where it is not hidden, and what is missing is found from it.
    one.present["x1"][0, 1] = False
    expected = imputed_on_a_grid(model, etas_of(model, one, ("x0", "x1")), "x1", z, log_p)
    drawn = generative.impute(model, one, "x1", method="importance", draws=500, hide=False)
    assert (np.abs(drawn.values[0].numpy() - expected) <= 3.5 * drawn.error[0].numpy() + 1e-12).all()


def test_angles_are_imputed_by_a_sum_over_the_circle():
    model, _ = approximate(CircularPrior(), tiny_data(n=6), sharpness=2.0)
    one = new_of(model, {"x0": np.ones((1, 1, 3))})
    angles = np.linspace(-np.pi, np.pi, 2000, endpoint=False)
    t = np.stack([np.cos(angles), np.sin(angles)])

    def densities_of(eta):
        f = np.exp(eta @ t)
        return f / f.sum(-1, keepdims=True)

    atoms = [densities_of((model.atoms(name).reference + model.atoms(name).g[0]).numpy()) for name in ("x0", "x1")]
    own = densities_of(next(iter(model.recognise(one, "x0")))[0].numpy())[0]
    posterior = own / (atoms[0].sum(0) + own)
    expected = (atoms[1] / atoms[1].sum(0)) @ (posterior / posterior.sum())
    found = generative.impute(model, one, "x1")
    np.testing.assert_allclose(found.values[0, 0], expected, atol=1e-10)
    drawn = generative.impute(model, one, "x1", method="importance", draws=500)
    assert (np.abs(drawn.values[0, 0].numpy() - expected) < 3.5 * drawn.error[0, 0].numpy()).all()
    # The prior is uniform, so that q is what the factor says.
    by_q = (atoms[1] / atoms[1].sum(0)) @ own
    np.testing.assert_allclose(generative.impute(model, one, "x1", method="q").values[0, 0], by_q, atol=1e-10)


def test_errors_of_draws_are_what_repetitions_differ_by():
    model, _ = approximate(GaussianPrior(DiagonalGaussian(2)), tiny_data(n=6), sharpness=2.0)
    one = new_of(model, {"x0": np.ones((1, 1, 3))})
    exact = generative.impute(model, one, "x1", nodes=48).values
    repeated = [generative.impute(model, one, "x1", method="importance", draws=60, seed=each) for each in range(24)]
    off = torch.stack([(each.values - exact) / each.error for each in repeated])
    assert 0.75 < float(off.square().mean().sqrt()) < 1.25


def test_weights_of_one_draw_alone_are_warned_of():
    model, observations = approximate(GaussianPrior(DiagonalGaussian(5)), tiny_data(n=6), sharpness=8.0)
    with pytest.warns(rp.RPModelsWarning, match="as good as .* of 20"):
        generative.impute(model, observations, "x1", draws=20)


def test_many_latents_are_drawn_and_blocks_change_nothing(monkeypatch):
    model, observations = approximate(GaussianPrior(DiagonalGaussian(5)), tiny_data(n=6))
    whole = generative.impute(model, observations, "x1", seed=3)
    assert whole.method == "importance"
    monkeypatch.setattr("rpmodels.generative.imputation.PAIR_BUDGET", 200)
    parts = generative.impute(model, observations, "x1", seed=3)
    for one, other in ((whole.values, parts.values), (whole.error, parts.error)):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_where_latents_come_from_narrow_normals_places_are_around_each_of_them():
    prior = GaussianMixturePrior(DiagonalGaussian(1), 2).double()
    prior.restart(
        torch.tensor([0.4, 0.6]).double(),
        torch.tensor([[-4.0], [3.0]]).double(),
        torch.tensor([[[1e-3]], [[2e-3]]]).double(),
    )
    model, observations = approximate(prior, tiny_data(n=6))
    inferred = next(model.posterior(observations))
    z = torch.cat([torch.linspace(c - 1.0, c + 1.0, 8001, dtype=DOUBLE) for c in (-4.0, 3.0)])
    t = torch.stack([z, z.square()], -1).expand(6, 1, -1, -1)
    log_p = (
        torch.distributions.Normal(torch.tensor([-4.0, 3.0]), torch.tensor([1e-3, 2e-3]).sqrt()).log_prob(z[:, None])
        + torch.tensor([0.4, 0.6]).log()
    ).logsumexp(-1)
    each = [inferred.mixtures[name].log_weight(inferred.factors[name], t)[:, 0] for name in model.names]
    truth = torch.logsumexp(log_p + sum(each), -1) + np.log(2.0 / 8000)
    found = rp.log_weight.by_quadrature(model, observations, 12)
    np.testing.assert_allclose(found.values, truth, atol=1e-6)
    # Under q itself, whose members are added up as well.
    exact, by_q = (generative.impute(model, observations, "x1", method=each) for each in ("quadrature", "q"))
    assert float(exact.error.max()) < 1e-6
    assert float(by_q.error.max()) < 1e-6


# ---- rows ---------------------------------------------------------------------------------------------


def test_rows_of_the_fit_are_its_atoms_and_others_are_candidates():
    data = tiny_data(n=7)
    weights = np.arange(1.0, 8.0)
    model, observations = approximate(GaussianPrior(DiagonalGaussian(1)), data, weights=weights)
    atoms = generative.impute(model, observations, "x1").values[:, 0].numpy()
    rows = Rows(observations, torch.as_tensor(data["x1"]))
    found = generative.impute(model, observations, "x1", rows=rows)
    np.testing.assert_allclose(found.values[:, 0], atoms @ data["x1"][:, 0], atol=1e-12)
    spread = np.sqrt(atoms @ data["x1"][:, 0] ** 2 - (atoms @ data["x1"][:, 0]) ** 2)
    np.testing.assert_allclose(found.spread[:, 0], spread, atol=1e-10)
    # Candidates: p₀ stands on them alone.
    few = observations.subset(np.array([1, 4]))
    given = generative.conditional_on_rows(model, "x1", few).weights(torch.tensor([[[[0.3, 0.09]]]], dtype=DOUBLE))
    all_of_them = generative.conditional_weights(model, "x1", torch.tensor([[[0.3]]], dtype=DOUBLE))[0, 0, [1, 4]]
    torch.testing.assert_close(given[0, 0, 0], all_of_them / all_of_them.sum(), rtol=0, atol=1e-12)


def test_sites_without_atoms_are_nan_among_expected_observations():
    data = tiny_data(n=5, sites=3)
    presence = {"x0": np.ones((5, 3), bool), "x1": np.ones((5, 3), bool)}
    presence["x1"][:, 1] = False
    model, observations = approximate(
        process_prior(DiagonalGaussian(1), n_inducing=3, end=2.0), data, presence=presence
    )
    found = generative.impute(model, observations, "x1", rows=Rows(observations, torch.as_tensor(data["x1"])))
    assert torch.isnan(found.values[:, 1]).all()
    assert torch.isfinite(found.values[:, [0, 2]]).all()
    assert (generative.impute(model, observations, "x1").values[:, 1] == 0).all()


def test_what_cannot_be_imputed_says_why():
    model, observations = approximate(GaussianPrior(DiagonalGaussian(5)), tiny_data(n=5))
    with pytest.raises(rp.RPModelsError, match="at most 3"):
        generative.impute(model, observations, "x1", method="quadrature")
    with pytest.raises(rp.RPModelsError, match="method: expected 'auto', 'quadrature'"):
        generative.impute(model, observations, "x1", method="hope")
    with pytest.raises(rp.RPModelsError, match="Unknown factor"):
        generative.impute(model, observations, "x7")
    nothing = replace(observations, present={**observations.present, "x1": np.zeros((5, 1), bool)})
    with pytest.raises(rp.RPModelsError, match="rows: expected observations of factor 'x1'"):
        generative.conditional_on_rows(model, "x1", nothing)
    series, trials = approximate(process_prior(DiagonalGaussian(1)), tiny_data(n=5, sites=4))
    with pytest.raises(rp.RPModelsError, match="one site per observation"):
        generative.impute(series, trials, "x1", method="quadrature")
