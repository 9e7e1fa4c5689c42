"""The sparse GP-VAE (Ashman et al., 2020): p(Z) a sparse GP, p(x|z) Gaussian around a network, q by amortised sites.

q(Z) ∝ p(Z) ∏_t exp(g(x_t)·t(z_t)) is what the prior makes of the potentials g of the recognition network, as in the
amortised E-step of RP-GPFA; what differs is the criterion, ELBO = Σ_t ⟨log p(x_t|z_t)⟩_q − KL(q‖p).
"""

import copy
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import NDArray
from torch import Tensor, nn

from rpmodels import errors, linalg
from rpmodels.carriers import Batch, Factor
from rpmodels.families import Gaussian
from rpmodels.inference import summed_potentials
from rpmodels.observations import Observations
from rpmodels.observations.scaling import Affine
from rpmodels.paper.baselines.trained import BaselineModel
from rpmodels.priors import Posterior, Prior
from rpmodels.recognition import MLP, RecognitionFactor

LEAST_NOISE = 1e-4
"""What is always left to noise: a channel that a decoder could copy would otherwise have an infinite density."""
SETTLED_DRAWS = 64
"""Draws a site when a trained model is scored."""
AT_ONCE = 500_000
"""Draws of all sites that a decoder is given at once, outside training."""


class GaussianLikelihood(nn.Module):
    """log p(x|z) = log N(x; f(z), diag s²) in the units of x; one noise s² for every channel, learned.

    Args:
        decoder: f, from (n, K) to (n, number of channels), in standardised units
        units: from x to standardised units, never clipped: a density must see all of x
        n_channels: numbers in one observation
        start_noise: where s² starts, as a share of every channel's variance

    """

    def __init__(self, decoder: nn.Module, units: Affine, n_channels: int, start_noise: float) -> None:
        super().__init__()
        self.decoder = decoder
        self.units = units
        self.start_noise = start_noise
        self.log_noise = nn.Parameter(torch.empty(n_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Noise as at the start; the decoder draws itself anew."""
        nn.init.constant_(self.log_noise, math.log(self.start_noise))

    @property
    def noise(self) -> Float[Tensor, "E"]:
        """s² of every channel, as a share of its variance in the training data."""
        return LEAST_NOISE + self.log_noise.exp()

    def standardised(self, x: Shaped[Tensor, "N T *event"]) -> Float[Tensor, "N T E"]:
        """The channels of x in standardised units."""
        rows: Tensor = self.units(x.flatten(0, 1), self.log_noise.dtype)
        return rows.reshape(*x.shape[:2], -1)

    def mean(self, z: Float[Tensor, "*b K"]) -> Float[Tensor, "*b E"]:
        """f(z), standardised."""
        flat: Tensor = self.decoder(z.flatten(0, -2))
        return flat.reshape(*z.shape[:-1], -1)

    def in_units_of_x(self, z: Float[Tensor, "*b K"]) -> Float[Tensor, "*b E"]:
        """f(z) as x is measured."""
        mean: Tensor = self.mean(z) * self.units.scale + self.units.offset
        return mean.to(z.dtype)

    def noise_sd(self) -> Float[Tensor, "E"]:
        """s as x is measured."""
        sd: Tensor = self.noise.sqrt() * self.units.scale
        return sd

    def log_density(self, x: Shaped[Tensor, "N T *event"], z: Float[Tensor, "S N T K"]) -> Float[Tensor, "S N T"]:
        """Of every observation at every draw, in nats of x as the user has it."""
        constant = self.noise_sd().log().sum().to(z.dtype) + 0.5 * len(self.log_noise) * linalg.LOG_2PI
        misfit = (self.standardised(x) - self.mean(z)).square() @ (0.5 / self.noise)
        return -misfit - constant


class SparseGPVAEModel(BaselineModel):
    """Prior, recognition factor and likelihood; trained by its ELBO with `samples` draws a site."""

    def __init__(
        self,
        name: str,
        prior: Prior[Gaussian],
        recogniser: RecognitionFactor,
        likelihood: GaussianLikelihood,
        samples: int,
    ) -> None:
        super().__init__(recogniser)
        self.name = name
        self.prior = prior
        self.likelihood = likelihood
        self.samples = samples

    @property
    def family(self) -> Gaussian:
        """Of one site."""
        return self.prior.family

    def recognise(self, batch: Batch) -> tuple[Factor, Posterior]:
        """What the network says at every site, and q: the prior conditioned on it."""
        like = self.likelihood.log_noise
        factor: Factor = self.recognition(batch.inputs[self.name], batch.present[self.name], like)
        return factor, self.prior.condition(summed_potentials({self.name: factor}), batch.sites)

    def elbo(self, batch: Batch, noise: Float[Tensor, "S n t K"]) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
        """Σ_t ⟨log p(x_t|z_t)⟩_q over the sites that are there, by these standard normal draws, and −KL(q‖p)."""
        factor, posterior = self.recognise(batch)
        z = self.family.reparametrise(posterior.eta, noise)
        each = self.likelihood.log_density(batch.inputs[self.name], z).mean(0)
        return factor.masked(each).sum(-1), -posterior.kl

    def terms(self, batch: Batch, n_observations: float) -> Mapping[str, Tensor]:
        """The ELBO, its expected log-likelihood and its −KL: weighted means over the batch, in nats a trial."""
        like = self.likelihood.log_noise
        shape = (self.samples, *batch.sites.exists.shape, self.family.noise_size())
        noise = torch.randn(shape, dtype=like.dtype, device=like.device)  # the loop has seeded the generator
        likelihood, prior = self.elbo(batch, noise)
        share = batch.weights / batch.weights.sum()
        terms = {"free_energy": likelihood + prior, "likelihood": likelihood, "prior": prior}
        return dict(zip(terms, torch.stack(list(terms.values())) @ share, strict=True))

    def after_step(self) -> None:
        """All is learnt by gradient."""

    def batches(self, observations: Observations, draws: int = 1) -> Iterator[Batch]:
        """All observations, in parts small enough for so many draws a site."""
        size = max(1, AT_ONCE // (draws * observations.n_sites))
        for start in range(0, len(observations), size):
            index = np.arange(start, min(start + size, len(observations)))
            yield observations.batch(index, self.dtype, self.device)

    def settled_noise(self) -> Float[Tensor, "S 1 1 K"]:
        """Evenly spread draws, the same for every site, so that equal data give equal numbers."""
        engine: Any = torch.quasirandom.SobolEngine(self.family.noise_size(), scramble=True, seed=0)  # type: ignore[no-untyped-call]
        even: Tensor = engine.draw(SETTLED_DRAWS, dtype=torch.float64)
        normal: Tensor = torch.special.ndtri(even)
        return normal[:, None, None].to(self.likelihood.log_noise)


def only_factor(observations: Observations) -> str:
    """Its name; a likelihood of numbers has no use for labels, and this model none for a second factor."""
    names = list(observations.specs)
    if len(names) != 1 or observations.specs[names[0]].is_label:
        kinds = ", ".join(f"{name} (labels)" if observations.specs[name].is_label else name for name in names)
        raise errors.bad_value("X", "one factor of numbers", f"{len(names)}: {kinds}")
    if not len(observations.usable()):
        raise errors.all_missing(names)
    return names[0]


def make_decoder(choice: Any, latents: int, channels: int, hidden: tuple[int, ...]) -> nn.Module:
    """From (n, K) to (n, channels): by name, or a copy of the user's own."""
    if isinstance(choice, nn.Module):
        return _tried(copy.deepcopy(choice), latents, channels)
    if choice not in ("auto", "linear"):
        raise errors.bad_choice("decoder", ("auto", "linear", "an nn.Module"), choice)
    return MLP((latents,), channels, hidden if choice == "auto" else ())


@torch.no_grad()
def _tried(decoder: nn.Module, latents: int, channels: int) -> nn.Module:
    """The user's own, seen to work before anything is trained."""
    like = next((each.dtype for each in decoder.parameters()), torch.float32)
    got = tuple(decoder(torch.zeros(2, latents, dtype=like)).shape)
    if got != (2, channels):
        raise errors.bad_value("decoder", f"(2, {latents}) mapped to (2, {channels})", got)
    return decoder


def units_of(rows: NDArray[Any]) -> Affine:
    """Mean and spread of x per channel (one pair for a whole image), in double precision."""
    axis = 0 if rows.ndim <= 2 else None
    spread = rows.std(axis=axis, dtype=np.float64)
    scale = np.where(spread > 0, spread, 1.0)
    return Affine(torch.as_tensor(rows.mean(axis=axis, dtype=np.float64)), torch.as_tensor(scale))
