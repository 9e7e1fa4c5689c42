"""Markovian processes: what conditioning costs in T, and whether single precision holds on long chains.

    python benchmarks/markovian.py cost
    python benchmarks/markovian.py precision
    python benchmarks/markovian.py step
    python benchmarks/markovian.py whole
    python benchmarks/markovian.py recording

One thread, processor time. `cost`: one trial of 10³ … 10⁶ sites, one latent of length scale 50; marginals and KL, and
their gradient. `precision`: 10⁵ sites with latents of length scales 2 000 and 15, single against double precision.
`step`: 20 trials of 2 000 bins, two latents; conditioning there and back, with inducing points and without.
`whole`: 20 trials of 10 000 bins and 100 channels, K = 10: a step of a model against its bare network on the same bins,
and the peak memory of the process. `recording`: one of 90 000 bins and 40 channels, two latents of length scales 2 000
and 15 bins; latents found without labels against a ridge regression that is given them, by bins.
RPMODELS_KERNELS=0 does without compiled loops.
"""

import argparse
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import gpytorch
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from sklearn.linear_model import Ridge
from torch import Tensor

import rpmodels as rp
from rpmodels.carriers import Sites
from rpmodels.families import DiagonalGaussian
from rpmodels.priors import GaussianProcessPrior, MarkovianProcessPrior, Prior

KINDS = (0.5, 1.5, 2.5)
KERNELS = ("matern12", "matern32", "matern52")
LENGTHS = (1_000, 10_000, 100_000, 1_000_000)


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
    length = 100_000
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


def whole() -> None:
    """Each kernel in a process of its own, whose memory is its own."""
    for kernel in (*KERNELS, "rbf"):
        subprocess.run([sys.executable, __file__, "one", "--kernel", kernel], check=True)


def one(kernel: str, trials: int = 20, length: int = 10_000, channels: int = 100, latents: int = 10) -> None:
    """Three steps after one in which loops are compiled."""
    x = np.random.default_rng(0).standard_normal((trials, length, channels)).astype(np.float32)
    estimator = rp.RPGPFA(latents, kernel=kernel, window=None, random_state=0)
    observations = rp.read({"x": x}, series=True)
    model = estimator.build(observations)[0]
    model.prepare(observations)
    objective = rp.learning.RPMObjective(model, observations)
    batch = observations.batch(np.arange(trials), model.dtype, model.device)
    parameters = [each for each in model.parameters() if each.requires_grad]

    def step() -> None:
        torch.autograd.grad(-objective(batch)["free_energy"], parameters)

    def network() -> None:
        said = model.recognise(batch)["x"].g
        torch.autograd.grad(said.sum(), list(model.recognition.parameters()), allow_unused=True)

    step()
    ours, bare = ([_seconds(work) for _ in range(3)] for work in (step, network))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    ratio = min(ours) / min(bare)
    print(f"{kernel}: a step {min(ours):.2f} s, its network {min(bare):.2f} s: {ratio:.1f} x; {peak:.2f} GB at most")


def _seconds(work: Callable[[], None]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def recording(length: int = 90_000, channels: int = 40, seeds: tuple[int, ...] = (0, 1, 2)) -> None:
    for seed in seeds:
        random = np.random.default_rng(seed)
        z = np.stack([_smooth(random, length, scale) for scale in (2000.0, 15.0)], 1)
        rates = np.tanh(0.7 * z @ random.standard_normal((2, channels)))
        x = (rates + random.standard_normal((length, channels))).astype(np.float32)
        begin = time.process_time()
        model = rp.RPGPFA(2, max_iter=60, n_init=1, random_state=0).fit(x)
        taken = time.process_time() - begin
        ours, ridge = (_nmse(each, z) for each in (model.transform(x), Ridge().fit(x, z).predict(x)))
        print(
            f"seed {seed}: {taken:.0f} s; nMSE slow {ours[0]:.3f}, fast {ours[1]:.3f}; ridge {ridge[0]:.3f}, "
            f"{ridge[1]:.3f}; {model.model_.prior.approach}"
        )


def _smooth(random: np.random.Generator, length: int, scale: float) -> NDArray[np.float64]:
    margin = int(4 * scale)
    z = gaussian_filter1d(random.standard_normal(length + 2 * margin), scale / math.sqrt(2.0))[margin:-margin]
    return np.asarray((z - z.mean()) / z.std())


def _nmse(found: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the best linear map of what was found leaves of each latent."""
    wide = np.concatenate([found, np.ones((len(found), 1))], 1)
    left = z - wide @ np.linalg.lstsq(wide, z, rcond=None)[0]
    return np.asarray(left.var(0) / z.var(0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cost", "precision", "step", "whole", "one", "recording"))
    parser.add_argument("--kernel", default="matern32")
    torch.set_num_threads(1)
    given = parser.parse_args()
    works = {"cost": cost, "precision": precision, "step": step, "whole": whole, "recording": recording}
    works.get(given.what, lambda: one(given.kernel))()
