"""Registry × property: what the posterior of every prior must satisfy."""

import pytest
import torch

from oracles.differences import central_difference
from registry import PRIORS, bound, sites_of, valid_potentials
from rpmodels.carriers import Sites

LENGTHS = (5, 3, 1)
priors = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())


@priors
def test_padding_and_company_change_nothing(prior):
    prior, sites = prior().double(), sites_of(LENGTHS)
    potentials = valid_potentials(prior.family, 3, 5)
    junk = torch.where(sites.exists[..., None], potentials, 1e3 * potentials)
    together = prior.condition(junk, sites)
    for n, length in enumerate(LENGTHS):
        alone = Sites(sites.times[n : n + 1, :length], sites.exists[n : n + 1, :length])
        posterior = prior.condition(potentials[n : n + 1, :length], alone)
        for got, expected in ((together.mu, posterior.mu), (together.eta, posterior.eta)):
            torch.testing.assert_close(got[n, :length], expected[0], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(together.kl[n], posterior.kl[0], rtol=1e-9, atol=1e-9)


@priors
def test_the_bound_changes_with_a_potential_by_what_the_posterior_expects(prior):
    """Finite differences, every posterior found anew: at the best q only the potential itself counts."""
    prior, sites = prior().double(), sites_of(LENGTHS)
    potentials = valid_potentials(prior.family, 3, 5, seed=1)
    mu = prior.condition(potentials, sites).mu

    def anew():
        return bound(prior.condition(potentials, sites), potentials, sites).sum()

    for place in ((0, 0, 0), (0, 4, -1), (1, 1, 1), (2, 0, -1)):
        found = central_difference(anew, potentials, place, 1e-4)
        assert found == pytest.approx(float(mu[place].detach()), rel=1e-5, abs=1e-6)


@priors
def test_the_mean_parameters_are_those_of_the_marginals_and_no_divergence_is_negative(prior):
    prior, sites = prior().double(), sites_of(LENGTHS)
    posterior = prior.condition(valid_potentials(prior.family, 3, 5, seed=2), sites)
    expected = prior.family.mean(posterior.eta)
    torch.testing.assert_close(posterior.mu[sites.exists], expected[sites.exists], rtol=1e-9, atol=1e-9)
    assert (posterior.kl > 0).all()
    assert float(prior.parameter_kl().detach()) >= 0


@priors
def test_draws_have_the_mean_parameters(prior, generator):
    prior, n = prior().double(), 4000
    sites = sites_of([4] * n)
    posterior = prior.condition(valid_potentials(prior.family, 1, 4, seed=3).expand(n, -1, -1), sites)
    t = prior.family.statistic(posterior.sample(generator)).double()
    error = (t.mean(0) - posterior.mu[0]).abs()
    assert (error < 5 * t.std(0).clamp_min(n**-0.5) / n**0.5).all()  # also of what no draw has


@priors
def test_its_state_is_all_there_is(prior):
    one, other = prior().double(), prior().double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in one.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    other.load_state_dict(one.state_dict())
    sites, potentials = sites_of(LENGTHS), valid_potentials(one.family, 3, 5, seed=4)
    for name in ("eta", "mu", "kl"):
        first, second = (getattr(each.condition(potentials, sites), name) for each in (one, other))
        torch.testing.assert_close(first, second, rtol=0, atol=0)
