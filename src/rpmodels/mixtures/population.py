"""F_c of the channels of a population: a mixture over the values of every channel, along its projection of the latents.

F_c/r (u) = Σ_x p₀(x) exp(a_c(x) u − ½ b_c(x) u² − φ_c(x)), φ what normalises each of them under the reference. It is
a function of one number, u = w·z, so that ⟨log F_c⟩ is an integral over one dimension whatever K is. The values are
those that p₀ has, seen ones among them: there are no atoms, and nobody's own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rpmodels.carriers import Channels, Curves, Factor, NamedTensors, SiteMarginal
from rpmodels.families import Family, FiniteSupport, FullGaussian
from rpmodels.mixtures.atoms import AtomPolicy
from rpmodels.mixtures.channel_sums import log_sums, log_terms, slopes
from rpmodels.mixtures.generative import GenerativeMixture
from rpmodels.mixtures.mixture import Approximation, AtomMixture, Mixture
from rpmodels.mixtures.quadrature import hermite
from rpmodels.mixtures.reduce import PAIR_BUDGET

IN_TRAINING, OTHERWISE = 3, 9
"""Gauss–Hermite nodes of every projection (docs/results/populations.md)."""


@dataclass(frozen=True)
class PopulationMixture(Mixture[FullGaussian]):
    """F_j = ∏_c F_c over the channels of a population."""

    curves: Curves
    nodes: int = OTHERWISE

    @property
    def log_total(self) -> Float[Tensor, "S"]:
        """There are no atoms to count."""
        return torch.zeros_like(self.reference[:, 0])

    def finer(self) -> "PopulationMixture":
        """Twice the nodes along every projection."""
        return replace(self, nodes=2 * self.nodes)

    def at_sites(self, sites: int, reference: Float[Tensor, "#T D"]) -> "PopulationMixture":
        """The same for every site, relative to what is known there; one reference for all is that of training."""
        return self if self.shared else replace(self, reference=reference)

    def with_own(self, own: Factor, reference: Float[Tensor, "#T D"]) -> "PopulationMixture":
        """What is seen is among the values already."""
        return self.at_sites(own.g.shape[1], reference)

    def summarised(self, approximation: Approximation) -> "PopulationMixture":
        """As it is."""
        return self

    # ---- along the projections ----------------------------------------------------------------

    def members(self) -> tuple[Float[Tensor, "S C A"], Float[Tensor, "S C A"], Float[Tensor, "C A"]]:
        """F_c as a mixture of normals: means and variances of u given every value, and the values' probabilities."""
        mean, tau = (each[..., None] for each in self._along)
        precision = tau + self.curves.b
        return (tau * mean + self.curves.a) / precision, 1.0 / precision, self.curves.log_p0.exp()

    def before(self) -> tuple[Float[Tensor, "S C"], Float[Tensor, "S C"]]:
        """Mean and variance of u under the reference."""
        mean, tau = self._along
        return mean, 1.0 / tau

    def distances(self) -> Float[Tensor, "C"]:
        """KL of the normal with the moments of F_c from the reference, averaged over sites."""
        mean, variance, share = self.members()
        centre, prior = self.before()
        first = (share * mean).sum(-1)
        second = (share * (variance + mean.square())).sum(-1)
        ratio = (second - first.square()).clamp_min(1e-12) / prior
        return 0.5 * (ratio + (first - centre).square() / prior - 1.0 - ratio.log()).mean(0)

    @cached_property
    def _along(self) -> tuple[Float[Tensor, "S C"], Float[Tensor, "S C"]]:
        """Mean and precision of u under the reference."""
        mean, spread = self.family.moments(self.reference)
        # Most priors are the same everywhere.
        if len(mean) > 1 and bool((self.reference == self.reference[:1]).all()):
            mean, spread = mean[:1], spread[:1]
        return self.curves.along(mean), 1.0 / self.curves.spread_along(spread)

    def _normaliser(
        self,
        a: Float[Tensor, "... C"],
        b: Float[Tensor, "... C"],
        mean: Float[Tensor, "... C"],
        tau: Float[Tensor, "... C"],
    ) -> Float[Tensor, "... C"]:
        """φ = log ∫ N(u; mean, 1/τ) exp(a u − ½ b u²) du."""
        precision = tau + b
        shifted = tau * mean + a
        return 0.5 * (shifted.square() / precision - tau * mean.square() + (tau / precision).log())

    @cached_property
    def _log_values(self) -> Float[Tensor, "S C A"]:
        """log p₀(x) − φ(x) of every value."""
        mean, tau = (each[:, None] for each in self._along)
        return self.curves.log_p0 - self._normaliser(self.curves.a.mT, self.curves.b.mT, mean, tau).mT

    def log_normaliser_of(self, factor: Factor) -> Float[Tensor, "N T"]:
        """Σ_c φ of what the channels show."""
        seen = _channels(factor)
        return torch.where(seen.present, self._normaliser(seen.a, seen.b, *self._along), 0.0).sum(-1)

    def surprise(self, factor: Factor, own_count: Float[Tensor, "N"]) -> Float[Tensor, "N T"]:
        """−Σ_c log p₀."""
        seen = _channels(factor)
        return -torch.where(seen.present, seen.log_p0, 0.0).sum(-1)

    def log_ratios(self, u: Float[Tensor, "N T Q C"]) -> Float[Tensor, "N T Q C"]:
        """log F_c(u)/r(u) of every channel."""
        return self._in_blocks(log_sums, u)

    def _in_blocks(
        self, function: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor], u: Float[Tensor, "N T Q C"]
    ) -> Float[Tensor, "N T Q C"]:
        """A sum over the values, block by block where there is much of it."""
        size = max(1, PAIR_BUDGET // max(1, u[0].numel() * self.curves.a.shape[1]))
        inputs = (self.curves.a, self.curves.b, self._log_values)
        if size >= len(u):
            return function(u, *inputs)
        parts = [checkpoint(function, each, *inputs, use_reentrant=False) for each in torch.split(u, size)]
        return torch.cat(parts)

    def expected_log(
        self, factor: Factor, q: SiteMarginal, approximation: Approximation, local: NamedTensors
    ) -> Float[Tensor, "N T"]:
        """Σ_c ⟨log F_c/r⟩ of the channels that are present, by Gauss–Hermite along every projection."""
        return torch.where(_channels(factor).present, self.expected_logs(q), 0.0).sum(-1)

    def expected_logs(self, q: SiteMarginal) -> Float[Tensor, "N T C"]:
        """⟨log F_c/r⟩ of every channel."""
        mean, sd = self.seen_along(q)
        points, weights = hermite(self.nodes, 1, mean)
        return (self.log_ratios(mean[:, :, None] + sd[:, :, None] * points) * weights[:, None]).sum(2)

    def refined(self, factor: Factor, q: SiteMarginal) -> Factor:
        """Sites of f_c/F_c instead of f_c: with L = log F_c/r, b ← b + ⟨L''⟩ and a ← a − ⟨L'⟩ + ⟨L''⟩⟨u⟩ under q.

        Where b would be negative it is zero, with the same slope at ⟨u⟩: there always is a posterior.
        """
        seen, (mean, sd) = _channels(factor), self.seen_along(q)
        points, weights = hermite(self.nodes, 1, mean)
        slope = self._in_blocks(slopes, mean[:, :, None] + sd[:, :, None] * points)
        first = (slope * weights[:, None]).sum(2)
        second = (slope * (weights[:, None] * points)).sum(2) / sd  # by parts
        b = (seen.b + second).clamp_min(0.0)
        a = seen.a - first + (b - seen.b) * mean
        there = seen.present
        return replace(factor, g=self.curves.potential(torch.where(there, a, 0.0), torch.where(there, b, 0.0)))

    def seen_along(self, q: SiteMarginal) -> tuple[Float[Tensor, "N T C"], Float[Tensor, "N T C"]]:
        """Mean and sd of u under q."""
        mean, spread = self.family.of_mean_parameter(q.mu)
        variance = self.curves.spread_along(spread)
        return self.curves.along(mean), variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()

    def log_weight(self, factor: Factor, t: Float[Tensor, "N T Q D"]) -> Float[Tensor, "N T Q"]:
        """Σ_c log f_c/F_c at given statistics t(z), whose first K numbers are z."""
        seen = _channels(factor)
        u = self.curves.along(t[..., : self.family.latents])
        log_f = seen.a[:, :, None] * u - 0.5 * seen.b[:, :, None] * u.square()
        log_f = log_f - self._normaliser(seen.a, seen.b, *self._along)[:, :, None]
        return torch.where(seen.present[:, :, None], log_f - self.log_ratios(u), 0.0).sum(-1)

    def log_probabilities(self, u: Float[Tensor, "N T Q C"]) -> Float[Tensor, "N T Q C A"]:
        """log p(x_c | u) = log p₀ f_c/F_c of every value of every channel (eq 1–2)."""
        return torch.log_softmax(log_terms(u, self.curves.a, self.curves.b, self._log_values), -1)


def collected(
    policy: AtomPolicy,
    family: Family,
    reference: Float[Tensor, "#S D"],
    factor: Factor,
    weights: Float[Tensor, "N"],
    curves: Curves | None,
) -> Mixture:
    """F_j over these observations, or that of the curves of a population, which has it from its p₀."""
    if factor.log_p0 is not None:
        return generative(family, reference, policy.shared)
    if curves is None:
        return policy.collect(family, reference, factor, weights)
    assert isinstance(family, FullGaussian)
    return PopulationMixture(family, reference, policy.shared, curves)


def restored(atoms: AtomMixture, curves: Curves | None, is_generative: bool) -> Mixture:
    """The mixture of a fitted model: the atoms that were kept, or of a population that of its curves."""
    if is_generative:
        return generative(atoms.family, atoms.reference, atoms.shared)
    if curves is None:
        return atoms
    assert isinstance(atoms.family, FullGaussian)
    return PopulationMixture(atoms.family, atoms.reference, atoms.shared, curves)


def in_a_step(
    policy: AtomPolicy,
    family: Family,
    reference: Float[Tensor, "#S D"],
    atoms: Factor,
    weights: Float[Tensor, "N"],
    own: Factor,
) -> Mixture:
    """The same as a training step sees it: with fewer atoms where a policy draws some, by fewer nodes."""
    if own.log_p0 is not None:
        return generative(family, reference, policy.shared)
    if own.channels is None:
        return policy.for_a_step(family, reference, atoms, weights, own)
    assert isinstance(family, FullGaussian)
    return PopulationMixture(family, reference, policy.shared, own.channels.curves, IN_TRAINING)


def generative(family: Family, reference: Float[Tensor, "#S D"], shared: bool) -> GenerativeMixture:
    """Of a factor that says p(x|z) itself."""
    assert isinstance(family, FiniteSupport)
    return GenerativeMixture(family, reference, shared)


def _channels(factor: Factor) -> Channels:
    assert factor.channels is not None
    return factor.channels
