"""Latents that come from a mixture: against the enumeration of components with dense Gaussians, and integration."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import rpmodels as rp
from registry import made, mixture_prior, random_eta, sites_of, valid_potentials
from rpmodels import metrics
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.fitted import FittedRPM
from rpmodels.mixtures import InteriorBound, SharedGrid
from rpmodels.priors import GaussianMixturePrior, GaussianPrior
from rpmodels.seeding import seeded

DOUBLE = torch.float64
FAMILIES = {"diagonal": DiagonalGaussian(2), "full": FullGaussian(2)}
each_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


def dense(prior, g):
    """Weights, means and covariances of q(z, c), and log ∫ p exp(g·t), component by component."""
    family, found = prior.family, []
    precision, linear = dense_potential(family, g)
    for weight, mean, covariance in zip(prior.log_weights(), prior.means, prior.covariances(), strict=True):
        m, s = mean.detach().numpy(), covariance.detach().numpy()
        after = np.linalg.inv(np.linalg.inv(s) + precision)
        centre = after @ (np.linalg.inv(s) @ m + linear)
        # ∫ N(z; m, S) exp(b·z − ½ zᵀPz): at the maximum, and its width.
        top = multivariate_normal(m, s).logpdf(centre) + linear @ centre - 0.5 * centre @ precision @ centre
        gained = top + 0.5 * np.linalg.slogdet(2 * np.pi * after)[1]
        found.append((weight.item() + gained, centre, after))
    logs, means, covariances = zip(*found, strict=True)
    total = logsumexp(logs)
    return np.exp(np.array(logs) - total), np.array(means), np.array(covariances), total


def dense_potential(family, g):
    """exp(b·z − ½ zᵀPz)."""
    g = g.numpy()
    k = family.latents
    return (
        (np.diag(-2.0 * g[k:]), g[:k]) if isinstance(family, DiagonalGaussian) else (-2.0 * g[k:].reshape(k, k), g[:k])
    )


@each_family
def test_the_posterior_is_that_of_every_component(family):
    prior = mixture_prior(family).double()
    g = valid_potentials(family, 4, 2, seed=1)
    sites = sites_of([2, 2, 1, 2])
    posterior = prior.condition(g, sites)
    mean, covariance = family.moments(posterior.eta)[0], family.covariance(posterior.eta)
    totals = np.zeros(4)
    for n, t in np.argwhere(sites.exists.numpy()):
        shares, means, covariances, total = dense(prior, g[n, t])
        totals[n] += total
        np.testing.assert_allclose(posterior.shares[n, t].detach(), shares, rtol=1e-9)
        assert int(posterior.most_probable()[n, t]) == shares.argmax()
        np.testing.assert_allclose(family.moments(posterior.components[n, t])[0].detach(), means, rtol=1e-9)
        found = family.covariance(posterior.components[n, t]).detach()
        np.testing.assert_allclose(found, covariances, rtol=1e-8, atol=1e-12)
        whole = shares @ means
        apart = means - whole
        between = np.einsum("c,ci,cj->ij", shares, apart, apart)
        expected = np.einsum("c,cij->ij", shares, covariances) + between
        np.testing.assert_allclose(mean[n, t].detach(), whole, rtol=1e-9)
        keep = np.eye(2, dtype=bool) | isinstance(family, FullGaussian)
        np.testing.assert_allclose(covariance[n, t].detach()[keep], expected[keep], rtol=1e-8)
    np.testing.assert_allclose(posterior.log_partition.detach(), totals, rtol=1e-10, atol=1e-10)


@each_family
def test_the_density_and_the_reference_are_those_of_all_components(family):
    prior = mixture_prior(family).double()
    z = torch.randn(5, 1, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    parts = [
        w.exp().item() * multivariate_normal(m.detach().numpy(), s.detach().numpy()).pdf(z[:, 0].numpy())
        for w, m, s in zip(prior.log_weights(), prior.means, prior.covariances(), strict=True)
    ]
    np.testing.assert_allclose(prior.log_density(z, sites_of([1] * 5)).detach(), np.log(np.sum(parts, 0)), rtol=1e-9)
    drawn = prior.sample(sites_of([40_000]), torch.Generator().manual_seed(1))[0].detach().numpy()
    reference = prior.reference(sites_of([1]), True)
    np.testing.assert_allclose(family.moments(reference)[0][0].detach(), drawn.mean(0), atol=0.03)
    spread = np.diag(family.covariance(reference)[0].detach().numpy())
    np.testing.assert_allclose(spread, drawn.var(0), rtol=0.05)


def test_the_kl_is_that_of_the_mixtures():
    """In one dimension, by integration over z alone."""
    with seeded(1):
        prior = GaussianMixturePrior(DiagonalGaussian(1), 3).double()
    g = valid_potentials(prior.family, 2, 1, seed=2)
    posterior = prior.condition(g, sites_of([1, 1]))
    z = torch.linspace(-12, 12, 40_001, dtype=DOUBLE)[:, None]
    step = float(z[1] - z[0])
    t = prior.family.statistic(z)
    before = torch.logsumexp(prior.family.log_density(prior.members(), t[:, None]) + prior.log_weights(), -1)
    for n in range(2):
        members = prior.family.log_density(posterior.components[n, 0], t[:, None])
        q = torch.logsumexp(members + posterior.shares[n, 0].log(), -1)
        expected = (q.exp() * (q - before)).sum() * step
        assert posterior.kl[n].item() == pytest.approx(expected.item(), rel=1e-7)


def test_equal_components_are_one_gaussian():
    with seeded(0):
        family = FullGaussian(2)
        one, many = GaussianPrior(family, learned=True).double(), GaussianMixturePrior(family, 3).double()
    eta = random_eta(family, seed=3)
    one.raw.data = family.to_raw(eta)
    mean, covariance = family.moments(eta)
    many.restart(torch.tensor([0.2, 0.3, 0.5]), mean.expand(3, -1), covariance.expand(3, -1, -1))
    g, sites = valid_potentials(family, 3, 2, seed=4), sites_of([2, 1, 2])
    a, b = (each.condition(g, sites) for each in (one, many))
    for name in ("log_partition", "kl", "mu", "eta"):
        torch.testing.assert_close(getattr(b, name), getattr(a, name), rtol=1e-6, atol=1e-6)  # restart is in float32
    torch.testing.assert_close(many.reference(sites, True), one.reference(sites, True), rtol=1e-6, atol=1e-6)


def views(n=250, seed=1000, clusters=3):
    """Clusters in a plane, seen by two linear views with noise."""
    random = np.random.default_rng(seed)
    centres = 2.0 * np.array([[np.cos(a), np.sin(a)] for a in 2 * np.pi * np.arange(clusters) / clusters])
    c = random.choice(clusters, n, p=[0.5, 0.3, 0.2])
    z = centres[c] + 0.35 * random.standard_normal((n, 2))
    maps = random.standard_normal((2, 2, 6))
    x = {name: z @ m + 0.5 * random.standard_normal((n, 6)) for name, m in zip("ab", maps, strict=True)}
    return x, c


@pytest.fixture(scope="module")
def fitted():
    x, c = views()
    settings = {"max_iter": 60, "n_init": 2, "random_state": 1000, "finish": "none"}
    return made(rp.RPFA, 2, n_components=3, covariance="full", **settings).fit(x), x, c


def test_components_are_found(fitted):
    model, x, c = fitted
    found, shares = model.predict(x), model.predict_proba(x)
    order = metrics.match_states(c, found, 3)
    assert (order[found] == c).mean() > 0.97
    np.testing.assert_array_equal(shares.argmax(1), found)
    np.testing.assert_allclose(shares.sum(1), 1.0, atol=1e-5)
    np.testing.assert_allclose(model.weights_[np.argsort(order)], [0.5, 0.3, 0.2], atol=0.07)
    assert model.means_.shape == (3, 2)
    assert model.covariances_.shape == (3, 2, 2)
    new, truth = views(seed=1000 + 1)  # other maps: only the form is asked
    assert model.predict(new).shape == truth.shape
    one = model.predict_proba({"a": x["a"]})
    assert (order[one.argmax(1)] == c).mean() > 0.9
    plain = made(rp.RPFA, 2, covariance="full", max_iter=60, n_init=2, random_state=1000, finish="none").fit(x)
    assert float(model.score(x)) > float(plain.score(x)) + 0.1


def test_a_plain_model_has_no_components(fitted):
    plain = rp.RPFA(2)
    assert not hasattr(plain, "predict")
    assert not hasattr(plain, "predict_proba")
    assert hasattr(rp.RPFA(2, n_components=2), "predict_proba")
    with pytest.raises(rp.RPModelsError, match="n_components: expected an integer ≥ 1 and ≤ 100000, got 0"):
        rp.RPFA(2, n_components=0).fit(fitted[1])


def test_files_and_tables_have_the_components(fitted, tmp_path):
    model, x, _ = fitted
    model.save(tmp_path / "mixture.rpm")
    again = rp.load(tmp_path / "mixture.rpm")
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    latent, found = model.description.latent, model.latents(x)
    arrays = latent.arrays(found)
    np.testing.assert_array_equal(arrays["component"], model.predict(x))
    assert list(latent.columns(arrays))[-4:] == ["component", "p0", "p1", "p2"]
    np.testing.assert_allclose(found.values, model.transform(x), atol=1e-6)


def test_the_mixture_term_is_the_sum_over_components():
    """⟨log F⟩ by a grid under every component is the integral under the whole q; the bound stays below it."""
    random = np.random.default_rng(0)
    x = rp.read({name: random.standard_normal((6, 3)) for name in "ab"})
    with seeded(0):
        prior = GaussianMixturePrior(DiagonalGaussian(1), 3)
        networks = {name: rp.recognition.Linear((3,), 2) for name in "ab"}
        pattern = rp.RPM(
            prior, networks, e_step=rp.inference.Amortised(), expected_log_mixture=SharedGrid(), dtype=DOUBLE
        )
    pattern.prepare(x)
    model = FittedRPM.collected(pattern, x)
    found = model.free_energies(x)
    bound = model.free_energies(x, InteriorBound())
    assert (bound.total <= found.total + 1e-9).all()
    (inferred,) = model.posterior(x)
    z = torch.linspace(-12, 12, 20_001, dtype=DOUBLE)[:, None]
    t, step = prior.family.statistic(z), float(z[1] - z[0])
    expected = torch.zeros(6, dtype=DOUBLE)
    with torch.no_grad():
        q = inferred.posterior
        for n in range(6):
            density = (q.shares[n, 0] * prior.family.log_density(q.components[n, 0], t[:, None]).exp()).sum(-1)
            for name in "ab":
                atoms = model.atoms(name)
                eta = atoms.reference[0] + atoms.g[0]
                log_f = prior.family.log_density(eta, t[:, None])
                log_r = prior.family.log_density(atoms.reference[0], t)
                log_mixture = torch.logsumexp(log_f, -1) - np.log(len(eta)) - log_r
                expected[n] -= (density * log_mixture).sum() * step
    found = model.free_energies(x, in_training=True)
    torch.testing.assert_close(found.mixture.detach(), expected, rtol=1e-4, atol=1e-5)
