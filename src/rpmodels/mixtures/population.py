"""F_c of the channels of a population: a mixture over the values of every channel, along its projection of the latents.

F_c/r (u) = Σ_x p₀(x) exp(a_c(x) u − ½ b_c(x) u² − φ_c(x)), φ what normalises each of them under the reference. It is
a function of one number, u = w·z, so that ⟨log F_c⟩ is an integral over one dimension whatever K is. The values are
those that p₀ has, seen ones among them: there are no atoms, and nobody's own.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from rpmodels.carriers import Channels, Curves, Factor, NamedTensors, SiteMarginal
from rpmodels.families import Family, FullGaussian
from rpmodels.mixtures.atoms import AtomPolicy
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
        """log F_c(u)/r(u) of every channel, block by block where there is much of it."""
        size = max(1, PAIR_BUDGET // max(1, u[0].numel() * self.curves.a.shape[1]))
        inputs = (self.curves.a, self.curves.b, self._log_values)
        if size >= len(u):
            return _log_ratios(u, *inputs)
        parts = [checkpoint(_log_ratios, each, *inputs, use_reentrant=False) for each in torch.split(u, size)]
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
        u = mean[:, :, None] + sd[:, :, None] * points
        return (self.log_ratios(u) * weights[:, None]).sum(2)

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
        return torch.log_softmax(_log_terms(u, self.curves.a, self.curves.b, self._log_values), -1)


def collected(
    policy: AtomPolicy,
    family: Family,
    reference: Float[Tensor, "#S D"],
    factor: Factor,
    weights: Float[Tensor, "N"],
    curves: Curves | None,
) -> Mixture:
    """F_j over these observations, or that of the curves of a population, which has it from its p₀."""
    if curves is None:
        return policy.collect(family, reference, factor, weights)
    assert isinstance(family, FullGaussian)
    return PopulationMixture(family, reference, policy.shared, curves)


def restored(atoms: AtomMixture, curves: Curves | None) -> Mixture:
    """The mixture of a fitted model: the atoms that were kept, or of a population that of its curves."""
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
    if own.channels is None:
        return policy.for_a_step(family, reference, atoms, weights, own)
    assert isinstance(family, FullGaussian)
    return PopulationMixture(family, reference, policy.shared, own.channels.curves, IN_TRAINING)


def _channels(factor: Factor) -> Channels:
    assert factor.channels is not None
    return factor.channels


def _log_terms(
    u: Float[Tensor, "N T Q C"], a: Float[Tensor, "C A"], b: Float[Tensor, "C A"], log_values: Float[Tensor, "S C A"]
) -> Float[Tensor, "N T Q C A"]:
    wide = u[..., None]
    return torch.addcmul(log_values[:, None], wide, a - 0.5 * b * wide)


def _log_ratios(
    u: Float[Tensor, "N T Q C"], a: Float[Tensor, "C A"], b: Float[Tensor, "C A"], log_values: Float[Tensor, "S C A"]
) -> Float[Tensor, "N T Q C"]:
    total: Tensor = _LogSumOfValues.apply(u, a, b, log_values)  # type: ignore[no-untyped-call]
    return total


class _LogSumOfValues(torch.autograd.Function):
    """logsumexp of `_log_terms` over the values, one value after the other.

    Values are few: a sum along a short last axis takes four times as long, forward and backward.
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, a: Tensor, b: Tensor, log_values: Tensor) -> Tensor:
        bent = -0.5 * b
        terms = [
            torch.addcmul(log_values[:, None, :, i], u, torch.addcmul(a[:, i], u, bent[:, i]))
            for i in range(a.shape[1])
        ]
        highest = terms[0].clone()
        for each in terms[1:]:
            torch.maximum(highest, each, out=highest)
        total = torch.zeros_like(u)
        for each in terms:
            total += each.sub_(highest).exp_()
        ctx.save_for_backward(u, a, b, total, *terms)
        ctx.n_references = log_values.shape[0]
        return highest.add_(total.log())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        u, a, b, total, *terms = ctx.saved_tensors
        weight = grads[0] / total
        by_u, by_a, by_b = torch.zeros_like(u), torch.empty_like(a), torch.empty_like(b)
        by_value = a.new_empty(ctx.n_references, *a.shape)
        for i, term in enumerate(terms):
            share = weight * term
            seen = share * u
            by_value[..., i] = share.sum((0, 2)).sum_to_size(ctx.n_references, len(a))
            by_a[:, i] = seen.sum((0, 1, 2))
            by_b[:, i] = -0.5 * (seen * u).sum((0, 1, 2))
            by_u += share * a[:, i] - seen * b[:, i]
        return by_u, by_a, by_b, by_value
