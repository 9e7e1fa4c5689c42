"""Compiled smoothing against the same in torch: values, gradients by everything, long chains, what it refuses."""

import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, PeriodicKernel

import rpmodels.kernels as compiled
from oracles.gaussians import random_potentials
from rpmodels.carriers import Sites
from rpmodels.errors import NumericalError
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.priors import MarkovianProcessPrior
from rpmodels.priors.compiled_chain import ConditionedCompiled

pytest.importorskip("numba")
DOUBLE = torch.float64
BATCH = torch.Size([2])
KERNELS = {
    1: lambda: MaternKernel(nu=0.5, batch_shape=BATCH),
    2: lambda: MaternKernel(nu=1.5, batch_shape=BATCH),
    6: lambda: MaternKernel(nu=1.5, batch_shape=BATCH) * PeriodicKernel(batch_shape=BATCH),
}
"""By the size of the state: unrolled ones, and the general loop (a product with one harmonic)."""


def prior_of(size):
    return MarkovianProcessPrior(DiagonalGaussian(2), KERNELS[size](), harmonics=1).double()


def sites_of(lengths, shared):
    longest, random = max(lengths), np.random.default_rng(0)
    gaps = random.gamma(0.5, 2.0, (1 if shared else len(lengths), longest))
    times = np.broadcast_to(np.cumsum(gaps, 1), (len(lengths), longest)).copy()
    exists = np.arange(longest) < np.array(lengths)[:, None]
    return Sites(torch.tensor(times), torch.tensor(exists))


def found(prior, potentials, sites, on):
    with compiled.switched(on):
        given = potentials.clone().requires_grad_()
        posterior = prior.condition(given, sites)
        assert isinstance(posterior.chain, ConditionedCompiled) == on
        weight = torch.linspace(-1.0, 1.0, posterior.mu.numel(), dtype=posterior.mu.dtype).reshape(posterior.mu.shape)
        seen = torch.where(sites.exists[..., None], weight * posterior.mu + posterior.eta.tanh(), 0.0)
        value = seen.sum() + posterior.kl.sum() - 0.3 * posterior.log_partition.sum()
        grads = torch.autograd.grad(value, [given, *prior.parameters()])
        moments = (posterior.mu, posterior.kl, posterior.log_partition, *posterior.filtered)
        return [each.detach() for each in (*moments, *grads)]


@pytest.mark.parametrize("size", KERNELS)
@pytest.mark.parametrize(("lengths", "shared"), [((1,), True), ((23, 23), True), ((9, 30, 1), False), ((40, 17), True)])
def test_compiled_smoothing_is_that_of_torch(size, lengths, shared):
    prior, sites = prior_of(size), sites_of(lengths, shared)
    _, _, potentials = random_potentials(prior.family, len(lengths), max(lengths), floor=0.0)
    for got, expected in zip(*(found(prior, potentials, sites, on) for on in (True, False)), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


def test_in_single_precision_it_is_rounded_alone():
    prior, sites = prior_of(2), sites_of((23, 23), shared=True)
    _, _, potentials = random_potentials(prior.family, 2, 23)
    exact, rounded = found(prior, potentials, sites, on=True), found(prior.float(), potentials.float(), sites, on=True)
    for got, expected in zip(rounded, exact, strict=True):
        assert got.dtype == torch.float32
        torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-5)


def test_slow_smooth_latents_keep_their_digits():
    kernel = MaternKernel(nu=1.5, batch_shape=BATCH).double()
    kernel.lengthscale = torch.tensor([3000.0, 300_000.0], dtype=DOUBLE)[:, None, None]
    prior, sites = MarkovianProcessPrior(DiagonalGaussian(2), kernel).double(), sites_of((2000,), shared=True)
    _, _, potentials = random_potentials(prior.family, 1, 2000)
    for got, expected in zip(*(found(prior, potentials, sites, on) for on in (True, False)), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-7, atol=1e-7)


def test_draws_are_those_of_torch():
    prior, sites = prior_of(2), sites_of((12,), shared=True)
    _, _, potentials = random_potentials(prior.family, 1, 12)
    draws = []
    for on in (True, False):
        with compiled.switched(on):
            posterior = prior.condition(potentials, sites)
            draws.append(posterior.draw(torch.Generator().manual_seed(0)))
    for one, other in zip(*draws, strict=True):
        torch.testing.assert_close(one, other)


def test_coupled_latents_go_the_general_way():
    prior = MarkovianProcessPrior(FullGaussian(2), KERNELS[2]()).double()
    _, _, potentials = random_potentials(prior.family, 1, 5)
    assert not isinstance(prior.condition(potentials, sites_of((5,), shared=True)).chain, ConditionedCompiled)


def test_what_is_no_number_is_refused():
    prior, sites = prior_of(1), sites_of((5,), shared=True)
    _, _, potentials = random_potentials(prior.family, 1, 5)
    potentials[0, 2] = torch.nan
    with pytest.raises(NumericalError, match="chain of states"):
        _ = prior.condition(potentials, sites).kl
