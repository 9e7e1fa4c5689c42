"""Populations against sums over values and dense integrals: F_c, φ, ⟨log F_c⟩, the free energy, log W, gradients."""

import gpytorch
import numpy as np
import pytest
import torch
from scipy.integrate import quad

import rpmodels as rp
from oracles import population as oracle
from oracles.dense_gaussian import absorbed, gaussian_processes
from oracles.differences import central_difference
from oracles.gaussians import as_numpy, kl, natural, normal
from oracles.kernels import rbf
from rpmodels import generative
from rpmodels.carriers import SiteMarginal
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.fitted import FittedRPM
from rpmodels.inference import Amortised, NaturalGradient, Refined
from rpmodels.learning import RPMObjective
from rpmodels.log_weight import by_quadrature, importance
from rpmodels.mixtures import InteriorBound, PerSite, Pooled, PopulationMixture, channel_sums
from rpmodels.mixtures.population import IN_TRAINING, OTHERWISE
from rpmodels.priors import GaussianPrior, GaussianProcessPrior
from rpmodels.recognition import ChannelCurves
from rpmodels.seeding import seeded

SHARP = 0.7


def randomised(network, seed=0):
    """Numbers that make mixtures matter: precisions around one, some of them much more."""
    with torch.no_grad(), seeded(seed):
        for parameter in network.parameters():
            parameter.normal_().mul_(SHARP)
        network.direction.normal_()
    return network


def of(prior, x, weights=None, seed=0, e_step=None, atoms=None):
    """A population that is not trained, in float64, and its observations."""
    x = np.asarray(x)
    observations = rp.read({"x": x}, series=x.ndim == 3, gaps=True, weights=weights)
    often = np.ones(len(x)) if weights is None else np.asarray(weights, float)
    everyone = np.broadcast_to(often[:, None], observations.exists.shape)[observations.present["x"]]
    network = ChannelCurves.of(observations.present_rows("x"), everyone, prior.family.latents)
    pattern = rp.RPM(
        prior,
        {"x": randomised(network, seed)},
        e_step=e_step or Amortised(),
        expected_log_mixture=InteriorBound(),
        atoms=atoms or PerSite(),
        dtype=torch.float64,
    )
    pattern.prepare(observations)
    return FittedRPM.collected(pattern, observations), observations


def counts(n=30, channels=4, most=3, seed=0):
    """Every value often enough that none is pooled."""
    return np.random.default_rng(seed).integers(0, most, (n, channels)).astype(float)


def standard(latents):
    return GaussianPrior(FullGaussian(latents))


def learned(latents, seed=3):
    """N(m, S), neither of them 0 or I."""
    prior = GaussianPrior(FullGaussian(latents), learned=True)
    with torch.no_grad(), seeded(seed):
        prior.raw.add_(0.5 * torch.randn_like(prior.raw))
    return prior


def finer(mixture, nodes):
    return PopulationMixture(mixture.family, mixture.reference, mixture.shared, mixture.curves, nodes)


def taken_apart(model):
    """Channels of the oracle, and the moments of the prior."""
    prior = normal(model.prior.family, model.prior.reference(model.sites(1), True)[0])
    return oracle.channels(model.recogniser("x").curves(), *prior), prior


PRIORS = {"standard": standard, "learned": learned}
each_prior = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)


# ---- one channel -----------------------------------------------------------------------------------


@each_prior
@pytest.mark.parametrize("latents", [1, 3])
def test_mixtures_are_sums_over_the_values(prior, latents):
    model, _ = of(prior(latents), counts(most=5))
    every, _ = taken_apart(model)
    u = np.linspace(-4, 4, 41)
    wide = torch.as_tensor(u)[None, None, :, None].expand(-1, -1, -1, len(every))
    found = model.summary("x").log_ratios(wide)[0, 0].detach().numpy()
    for c, channel in enumerate(every):
        np.testing.assert_allclose(found[:, c], channel.log_mixture(u), rtol=0, atol=1e-12)


@each_prior
def test_what_normalises_a_value_is_an_integral(prior):
    model, observations = of(prior(2), counts(8, 3))
    (inferred,) = model.posterior(observations)
    seen, every = inferred.factors["x"].channels, taken_apart(model)[0]
    expected = np.zeros(8)
    for n in range(8):
        for c, channel in enumerate(every):
            a, b = float(seen.a[n, 0, c]), float(seen.b[n, 0, c])
            sd = channel.variance**0.5
            inside = lambda v, a=a, b=b, m=channel.mean, s=sd: np.exp(  # noqa: E731
                a * (m + s * v) - 0.5 * b * (m + s * v) ** 2 - 0.5 * v**2
            )
            expected[n] += np.log(quad(inside, -12, 12, epsabs=0, epsrel=1e-12)[0] / np.sqrt(2 * np.pi))
    found = model.summary("x").log_normaliser_of(inferred.factors["x"])[:, 0]
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=0, atol=1e-9)


@each_prior
def test_what_a_channel_shows_has_probabilities(prior):
    model, _ = of(prior(2), counts(most=4))
    every, _ = taken_apart(model)
    u = np.linspace(-3, 3, 13)
    wide = torch.as_tensor(u)[None, None, :, None].expand(-1, -1, -1, len(every))
    found = model.summary("x").log_probabilities(wide)[0, 0].exp().detach().numpy()
    np.testing.assert_allclose(found.sum(-1), 1.0, atol=1e-12)
    for c, channel in enumerate(every):
        np.testing.assert_allclose(found[:, c], channel.probabilities(u).T, atol=1e-12)


@each_prior
def test_the_model_is_normalised(prior):
    """Σ_X p₀(X) W(X) = 1 over all that two channels of three values can show: eq (3) integrated over z."""
    model, _ = of(prior(1), counts(channels=2))
    every, moments = taken_apart(model)
    seen, share = oracle.everything(every)
    assert len(seen) == 9
    brute = np.array([oracle.log_w(every, one, *moments, points=4001) for one in seen])
    assert share @ np.exp(brute) == pytest.approx(1.0, abs=1e-9)
    new = rp.read({"x": np.array(seen, float)}, known=model.specs)
    found = by_quadrature(model, new, 100).values
    np.testing.assert_allclose(found, brute, atol=1e-6)
    assert share @ np.exp(found) == pytest.approx(1.0, abs=1e-6)


# ---- integrals under q -------------------------------------------------------------------------------


@each_prior
@pytest.mark.parametrize("latents", [1, 2, 3])
def test_the_expected_log_of_a_mixture_is_an_integral(prior, latents):
    model, observations = of(prior(latents), counts(6, 3))
    every, _ = taken_apart(model)
    (inferred,) = model.posterior(observations)
    q = SiteMarginal(lambda: inferred.posterior.eta, lambda: inferred.posterior.mu)
    found = finer(model.summary("x"), 150).expected_logs(q)[:, 0].detach().numpy()
    for n in range(6):
        m, s = normal(model.prior.family, inferred.posterior.eta[n, 0])
        for c, channel in enumerate(every):
            along = np.array([channel.w @ m]), np.array([[channel.w @ s @ channel.w]])
            brute = oracle.expected(lambda u, channel=channel: channel.log_mixture(u[:, 0]), *along)
            assert found[n, c] == pytest.approx(brute, abs=1e-6)


def test_few_nodes_are_enough_for_fitted_curves():
    """How far the nodes of training and those of everything else are off, nats a channel and site of a fitted model."""
    x, _ = tuned(120, 12, 2, seed=5)
    model = rp.RPFA(2, max_iter=100, random_state=0).fit(x)
    (inferred,) = model.model_.posterior(model.read(x))
    q = SiteMarginal(lambda: inferred.posterior.eta, lambda: inferred.posterior.mu)
    mixture = model.model_.summary("x")
    exact = finer(mixture, 100).expected_logs(q)
    off = {n: (finer(mixture, n).expected_logs(q) - exact).abs() for n in (IN_TRAINING, OTHERWISE)}
    assert float(off[IN_TRAINING].mean()) < 3e-3
    assert float(off[OTHERWISE].mean()) < 1e-4
    assert float(off[OTHERWISE].max()) < 1e-2


@each_prior
@pytest.mark.parametrize("latents", [1, 2, 3])
def test_the_free_energy_is_what_it_says(prior, latents):
    model, observations = of(prior(latents), counts(30, 3))
    every, moments = taken_apart(model)
    (inferred,) = model.posterior(observations)
    found = model.free_energies(observations)
    for n in range(5):
        q = normal(model.prior.family, inferred.posterior.eta[n, 0])
        seen = observations.values["x"][n, 0]
        assert float(found.prior[n]) == pytest.approx(-kl(*q, *moments), abs=1e-10)
        assert float(found.total[n]) == pytest.approx(oracle.free_energy(every, seen, q, moments), abs=2e-3)
        own = -sum(np.log(c.p0[int(x)]) for c, x in zip(every, seen, strict=True))
        assert float(found.log_atoms[n]) == pytest.approx(own, abs=1e-10)


@each_prior
@pytest.mark.parametrize("latents", [1, 2, 3])
def test_the_free_energy_is_below_log_w(prior, latents):
    model, observations = of(prior(latents), counts(20, 4))
    exact = by_quadrature(model, observations, {1: 100, 2: 48}.get(latents, 24)).values
    bound = model.free_energies(observations).values
    assert (bound <= exact + 1e-3).all()
    assert (bound < exact - 1e-3).any()  # q is not the posterior
    drawn = importance(model, observations, 1500, torch.Generator().manual_seed(0))
    assert (np.abs(drawn.values - exact) < 5 * drawn.standard_error + 2e-3).all()
    assert float(np.mean(drawn.values - exact)) == pytest.approx(0.0, abs=0.05)


def test_refinement_raises_the_free_energy():
    model, observations = of(standard(2), counts(20, 4))
    refined, _ = of(standard(2), counts(20, 4), e_step=NaturalGradient(20))
    before, after = (each.free_energies(observations).values for each in (model, refined))
    assert (after >= before - 1e-9).all()
    assert (after - before).mean() > 0.01
    exact = by_quadrature(model, observations, 48).values
    assert (after <= exact + 1e-3).all()


# ---- gradients -----------------------------------------------------------------------------------------


@each_prior
def test_gradients_are_quotients_of_differences(prior):
    x = np.concatenate([counts(12, 2), np.random.default_rng(1).standard_normal((12, 2))], 1)
    x[0, 1] = x[3, 3] = np.nan
    model, observations = of(prior(2), x)
    objective = RPMObjective(model.pattern, observations)
    batch = observations.batch(np.arange(12), torch.float64, torch.device("cpu"))

    def value():
        return objective.evaluate(batch).energy.total.sum()

    shared = [each for each in model.pattern.parameters() if each.requires_grad]
    gradients = torch.autograd.grad(value(), shared)
    random = np.random.default_rng(0)
    for parameter, gradient in zip(shared, gradients, strict=True):
        for place in random.integers(0, parameter.numel(), 4):
            index = tuple(int(each) for each in np.unravel_index(place, tuple(parameter.shape)))
            quotient = central_difference(value, parameter.data, index, 1e-5)
            assert float(gradient[index]) == pytest.approx(quotient, rel=1e-6, abs=1e-7)


# ---- references that are not N(0, I) ---------------------------------------------------------------------


def process(scale=2.5, slope=0.6):
    """A GP with an output scale and a mean that rises with time."""
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    kernel.outputscale, kernel.base_kernel.lengthscale = scale, 1.5
    mean = gpytorch.means.LinearMean(1)
    with torch.no_grad():
        mean.weights.fill_(slope)
        mean.bias.fill_(-0.4)
    return GaussianProcessPrior(FullGaussian(1), kernel, torch.arange(3, dtype=torch.float64), mean=mean)


@pytest.mark.parametrize("atoms", [PerSite(), Pooled()], ids=["per_time", "pooled"])
def test_a_process_with_mean_and_scale_is_what_dense_algebra_says(atoms):
    """One latent at three times, two channels: free energies term by term, and Σ_X p₀ W = 1 over all 64 sequences."""
    random = np.random.default_rng(0)
    x = random.integers(0, 2, (20, 3, 2)).astype(float)
    model, observations = of(process(), x, atoms=atoms)
    t = np.arange(3.0)
    before = (0.6 * t - 0.4)[:, None]
    covariance = gaussian_processes([lambda s, u: 2.5 * rbf(1.5)(s, u)], t)
    mixture = model.summary("x")
    reference = [normal(model.prior.family, each) for each in mixture.reference.expand(3, -1)]
    if not mixture.shared:
        np.testing.assert_allclose([float(m[0]) for m, _ in reference], before[:, 0], atol=1e-6)
        np.testing.assert_allclose([float(s[0, 0]) for _, s in reference], 2.5, atol=1e-4)
    every = [oracle.channels(mixture.curves, *moments) for moments in reference]
    found = model.free_energies(observations)
    for n in range(3):
        seen = x[n].astype(int)
        h = np.array([[sum(c.w[0] * c.a[s] for c, s in zip(every[i], seen[i], strict=True))] for i in range(3)])
        w = np.array([[[sum(c.b[s] for c, s in zip(every[i], seen[i], strict=True))]] for i in range(3)])
        q = absorbed(before, covariance, h, w)
        total = -q.kl
        for i in range(3):
            m, s = q.mean[i], q.marginals()[i]
            for c, value in zip(every[i], seen[i], strict=True):
                total += oracle.expected(lambda z, c=c, v=value: c.log_weight(v, z[:, 0] * c.w[0]), m, s, 2001)
        assert float(found.total[n]) == pytest.approx(total, abs=2e-3)
    places, share = oracle.dense(3, 41, 6.0)
    z = before[:, 0] + places @ np.linalg.cholesky(covariance[:, 0, :, 0] + 1e-9 * np.eye(3)).T
    sites = [np.array([c.probabilities(z[:, i] * c.w[0]) for c in every[i]]) for i in range(3)]
    mass = sum(
        share @ np.prod([sites[i][c, (code >> (2 * i + c)) & 1] for i in range(3) for c in range(2)], axis=0)
        for code in range(64)
    )
    assert mass == pytest.approx(1.0, abs=1e-9)


# ---- missing channels, weights ---------------------------------------------------------------------------


@each_prior
@pytest.mark.parametrize("kind", ["counts", "numbers"])
def test_a_missing_channel_might_never_have_been(prior, kind):
    x = counts(40, 4) if kind == "counts" else np.random.default_rng(2).standard_normal((40, 4))
    model, _ = of(prior(2), x)
    alone, fewer = of(prior(2), x[:, :3])
    theirs, ours = model.recogniser("x").network, alone.recogniser("x").network
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            whole = getattr(theirs, name)[:3]
            parameter.copy_(whole[:, : parameter.shape[1]] if parameter.ndim == 2 else whole)
    gone = x.copy()
    gone[:, 3] = np.nan
    hidden = rp.read({"x": gone}, known=model.specs, gaps=True)
    one, other = (
        (next(m.posterior(o)).posterior.eta, m.free_energies(o)) for m, o in ((model, hidden), (alone, fewer))
    )
    torch.testing.assert_close(one[0], other[0], rtol=0, atol=1e-10)
    torch.testing.assert_close(one[1].total, other[1].total, rtol=0, atol=1e-10)
    torch.testing.assert_close(one[1].log_atoms, other[1].log_atoms, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["counts", "numbers"])
def test_weights_are_repetitions(kind):
    random = np.random.default_rng(3)
    x = random.poisson(2.0, (25, 3)).astype(float) if kind == "counts" else random.standard_normal((25, 3))
    x[4, 1] = np.nan
    often = random.integers(0, 4, 25)
    weighted, observations = of(standard(2), x, weights=often)
    repeated, others = of(standard(2), np.repeat(x, often, 0))
    one, other = (each.recogniser("x").network.state_dict() for each in (weighted, repeated))
    for name, values in one.items():
        torch.testing.assert_close(values, other[name], rtol=1e-12, atol=1e-12)
    energies = [
        RPMObjective(m.pattern, o).evaluate(o.batch(np.arange(len(o)), torch.float64, torch.device("cpu"))).energy
        for m, o in ((weighted, observations), (repeated, others))
    ]
    first = energies[0].means(torch.as_tensor(often, dtype=torch.float64))
    second = energies[1].means(torch.ones(len(others), dtype=torch.float64))
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], rtol=0, atol=1e-10)
    # Weights are brought to one on average when they are read; the numbers above are means.
    assert weighted.ceiling(observations) == pytest.approx(repeated.ceiling(others), abs=1e-10)


# ---- draws -------------------------------------------------------------------------------------------------


def test_draws_of_the_model_have_its_probabilities():
    """In the model itself x_c given u has p₀ f_c/F_c, and log W of draws is worth its KL: at least zero on average."""
    model, _ = of(learned(1), counts(channels=2))
    z, x = generative.sample(model, 20000, torch.Generator().manual_seed(0))
    every, moments = taken_apart(model)
    seen, share = oracle.everything(every)
    expected = share * np.exp([oracle.log_w(every, one, *moments, points=2001) for one in seen])
    drawn = x["x"][:, 0].numpy()
    found = np.array([(drawn == one).all(1).mean() for one in seen])
    assert (np.abs(found - expected) < 5 * np.sqrt(expected / 20000)).all()
    assert as_numpy(z).mean() == pytest.approx(float(moments[0][0]), abs=0.05 * float(moments[1][0, 0]) ** 0.5 + 0.02)


def tuned(n, channels, latents, seed=0, gain=0.8, offset=0.3):
    """Poisson counts that are log-linear in normal latents, and their rates."""
    random = np.random.default_rng(seed)
    z = random.standard_normal((n, latents))
    rate = np.exp(z @ (gain * random.standard_normal((latents, channels))) + offset)
    return random.poisson(rate).astype(float), rate


def test_a_population_needs_a_full_family_and_relative_factors():
    network = ChannelCurves.of(counts(), np.ones(30), 2)
    parts = {"e_step": Amortised(), "expected_log_mixture": InteriorBound()}
    with pytest.raises(rp.RPModelsError, match="expected a full Gaussian"):
        rp.RPM(GaussianPrior(DiagonalGaussian(2)), {"x": network}, **parts)
    with pytest.raises(rp.RPModelsError, match="A population of channels says what it knows beyond the prior"):
        rp.RPM(
            standard(2), {"x": network}, head=rp.recognition.AbsoluteHead(), **{**parts, "e_step": NaturalGradient()}
        )


def test_a_linear_model_is_what_curves_begin_at():
    """With Gaussian factors of one channel each, q is the posterior of factor analysis."""
    random = np.random.default_rng(0)
    loadings, noise, offset = random.standard_normal((4, 2)), random.uniform(0.3, 1.0, 4), 0.1 * np.ones(4)
    x = random.standard_normal((60, 4))
    model, observations = of(standard(2), x)
    network = model.recogniser("x").network
    network.begin(loadings, offset, noise)
    score = network.scored(torch.as_tensor(x)).numpy()
    precision = np.eye(2) + loadings.T @ (loadings / noise[:, None])
    mean = np.linalg.solve(precision, loadings.T @ ((score - offset) / noise).T).T
    (inferred,) = model.posterior(observations)
    expected = natural(model.prior.family, mean, np.broadcast_to(np.linalg.inv(precision), (60, 2, 2)))
    np.testing.assert_allclose(as_numpy(inferred.posterior.eta[:, 0]), expected.numpy(), atol=1e-6)


# ---- the refined E-step ---------------------------------------------------------------------------------


def site_of(channel, x, mean, sd, points=801):
    """The best normal site of f/F near N(mean, sd²): a and b from derivatives of log f/F − log r by differences."""
    step = 1e-4

    def expected(m, v):
        return oracle.expected(lambda u: channel.log_weight(x, u[:, 0]), np.array([m]), np.array([[v]]), points)

    by_mean = (expected(mean + step, sd**2) - expected(mean - step, sd**2)) / (2 * step)
    by_variance = (expected(mean, sd**2 + step) - expected(mean, sd**2 - step)) / (2 * step)
    b = max(0.0, -2.0 * by_variance)
    return by_mean + b * mean, b


@each_prior
def test_a_refined_site_has_the_derivatives_of_the_expected_log(prior):
    model, observations = of(prior(2), counts(30, 3))
    every, _ = taken_apart(model)
    (inferred,) = model.posterior(observations)
    q = SiteMarginal(lambda: inferred.posterior.eta, lambda: inferred.posterior.mu)
    mixture = finer(model.summary("x"), 60)
    found = mixture.refined(inferred.factors["x"], q).g[:, 0].detach().numpy()
    for n in range(6):
        m, s = normal(model.prior.family, inferred.posterior.eta[n, 0])
        first, second = np.zeros(2), np.zeros((2, 2))
        for c, channel in enumerate(every):
            seen = int(observations.values["x"][n, 0, c])
            a, b = site_of(channel, seen, channel.w @ m, np.sqrt(channel.w @ s @ channel.w))
            first += a * channel.w
            second -= 0.5 * b * np.outer(channel.w, channel.w)
        np.testing.assert_allclose(found[n], np.concatenate([first, second.ravel()]), rtol=1e-3, atol=1e-4)


def test_slopes_over_values_are_derivatives():
    generator = torch.Generator().manual_seed(0)
    options = {"dtype": torch.float64, "generator": generator}
    u, a = torch.randn(3, 2, 4, 5, **options), torch.randn(5, 3, **options)
    b, values = torch.rand(5, 3, **options), torch.randn(2, 5, 3, **options)
    inputs = tuple(each.requires_grad_() for each in (u, a, b, values))
    (brute,) = torch.autograd.grad(torch.logsumexp(channel_sums.log_terms(*inputs), -1).sum(), u)
    torch.testing.assert_close(channel_sums.slopes(*inputs), brute, rtol=0, atol=1e-12)
    assert torch.autograd.gradcheck(channel_sums.slopes, inputs)
    assert torch.autograd.gradcheck(channel_sums.log_sums, inputs)


def test_refined_steps_end_at_the_highest_free_energy():
    """Many steps of it are the fixed point that natural gradients with step control find; one is most of the way.

    Channels are log-linear (a in proportion to the score, one b), so that no site has a precision below zero.
    """

    def bound(e_step):
        model, observations = of(standard(2), counts(40, 4), e_step=e_step)
        with torch.no_grad():
            for name in ("bend", "bend_of_precision"):
                getattr(model.recogniser("x").network, name).zero_()
        return FittedRPM.collected(model.pattern, observations).free_energies(observations).values

    once, twice, often = (bound(Refined(steps)) for steps in (1, 2, 40))
    amortised, best = bound(Amortised()), bound(NaturalGradient(200, tol=1e-12))
    np.testing.assert_allclose(often, best, atol=1e-6)
    assert best.mean() - once.mean() < 0.3 * (best.mean() - amortised.mean())
    assert amortised.mean() < once.mean() < twice.mean() <= best.mean() + 1e-6


def test_gradients_go_through_refinement():
    x = np.concatenate([counts(12, 2), np.random.default_rng(1).standard_normal((12, 2))], 1)
    x[0, 1] = x[3, 3] = np.nan
    model, observations = of(standard(2), x, e_step=Refined(2))
    objective = RPMObjective(model.pattern, observations)
    batch = observations.batch(np.arange(12), torch.float64, torch.device("cpu"))

    def value():
        return objective.evaluate(batch).energy.total.sum()

    shared = [each for each in model.pattern.parameters() if each.requires_grad]
    gradients = torch.autograd.grad(value(), shared)
    random = np.random.default_rng(0)
    for parameter, gradient in zip(shared, gradients, strict=True):
        for place in random.integers(0, parameter.numel(), 4):
            index = tuple(int(each) for each in np.unravel_index(place, tuple(parameter.shape)))
            quotient = central_difference(value, parameter.data, index, 1e-5)
            assert float(gradient[index]) == pytest.approx(quotient, rel=1e-5, abs=1e-6)
