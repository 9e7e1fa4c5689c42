"""Markovian processes: what conditioning costs in T, and whether single precision holds on long chains.

    python benchmarks/markovian.py cost
    python benchmarks/markovian.py precision
    python benchmarks/markovian.py step

One thread, processor time. `cost`: one trial of 10³ … 10⁵ sites, one latent of length scale 50; marginals and KL, and
their gradient. `precision`: 10⁵ sites with latents of length scales 2 000 and 15, single against double precision.
`step`: 20 trials of 2 000 bins, two latents; conditioning there and back, with inducing points and without.
"""

import argparse
import math
import time
from collections.abc import Callable

import gpytorch
import torch
from torch import Tensor

from rpmodels.carriers import Sites
from rpmodels.families import DiagonalGaussian
from rpmodels.priors import GaussianProcessPrior, MarkovianProcessPrior, Prior

KINDS = (0.5, 1.5, 2.5)
LENGTHS = (1_000, 10_000, 100_000)


def kernel_of(nu: float, *scales: float) -> gpytorch.kernels.MaternKernel:
    kernel = gpytorch.kernels.MaternKernel(nu=nu, batch_shape=torch.Size([len(scales)]))
    kernel.lengthscale = torch.tensor(scales)[:, None, None]
    return kernel


def sites_of(trials: int, length: int) -> Sites:
    times = torch.arange(length, dtype=torch.float64).expand(trials, -1)
    return Sites(times, torch.ones(trials, length, dtype=torch.bool))


def potentials_of(trials: int, length: int, latents: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    shift = torch.randn(trials, length, latents, generator=generator)
    return torch.cat([shift, -0.5 * torch.rand(trials, length, latents, generator=generator)], -1)


def quickest(work: Callable[[], tuple[float, float]], rounds: int) -> tuple[float, float]:
    there, back = zip(*(work() for _ in range(rounds)), strict=True)
    return min(there), min(back)


def timed(prior: Prior, potentials: Tensor, sites: Sites) -> tuple[float, float]:
    """Seconds for marginals and KL, and for their gradient."""
    given = potentials.clone().requires_grad_()
    begin = time.process_time()
    posterior = prior.condition(given, sites)
    value = posterior.kl.sum() + posterior.mu.sum() + posterior.eta.sum()
    there = time.process_time()
    torch.autograd.backward(value)
    return there - begin, time.process_time() - there


def cost() -> None:
    for nu in KINDS:
        before: tuple[float, float] | None = None
        for length in LENGTHS:
            prior, sites, potentials = (
                MarkovianProcessPrior(DiagonalGaussian(1), kernel_of(nu, 50.0)),
                sites_of(1, length),
                potentials_of(1, length, 1),
            )
            now = quickest(lambda p=prior, g=potentials, s=sites: timed(p, g, s), max(3, 30_000 // length))  # type: ignore[misc]
            pairs = zip(before, now, strict=True) if before else ()
            exponents = ", ".join(f"{math.log10(b / a):.2f}" for a, b in pairs)
            print(f"nu {nu}, T {length:7d}: {now[0]:.4f} s, gradient {now[1]:.4f} s; exponents {exponents or '-'}")
            before = now


@torch.no_grad()
def precision() -> None:
    length = LENGTHS[-1]
    sites, potentials = sites_of(1, length), potentials_of(1, length, 2)
    for nu in KINDS:
        narrow, wide = (MarkovianProcessPrior(DiagonalGaussian(2), kernel_of(nu, 2000.0, 15.0)) for _ in range(2))
        rounded = narrow.condition(potentials, sites)
        exact = wide.double().condition(potentials.double(), sites)
        worst = [
            float(((a.double() - b).abs() / (1 + b.abs())).max())
            for a, b in ((rounded.mu, exact.mu), (rounded.eta, exact.eta), (rounded.kl, exact.kl))
        ]
        print(f"nu {nu}, T {length}: mu {worst[0]:.1e}, eta {worst[1]:.1e}, KL {worst[2]:.1e}")


def step() -> None:
    trials, length = 20, 2_000
    sites, potentials = sites_of(trials, length), potentials_of(trials, length, 2)
    for nu in KINDS:
        kernel = kernel_of(nu, 50.0, 50.0)
        places = torch.linspace(0, length - 1, length // 5, dtype=torch.float64)
        sparse = GaussianProcessPrior(DiagonalGaussian(2), kernel, places).float()
        exact = MarkovianProcessPrior(DiagonalGaussian(2), kernel)
        ours, theirs = (sum(timed(each, potentials, sites)) for each in (exact, sparse))
        print(
            f"nu {nu}: without inducing points {ours:.2f} s, with {len(places)} {theirs:.2f} s: {theirs / ours:.1f} x"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cost", "precision", "step"))
    torch.set_num_threads(1)
    {"cost": cost, "precision": precision, "step": step}[parser.parse_args().what]()
