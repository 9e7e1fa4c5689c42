"""Probability vectors as a prior holds them: fixed, learned by EM, or under a Dirichlet (variational Bayes).

Rows of a table are separate distributions, so an initial distribution is one row and a transition matrix K.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

Part = TypeVar("Part", bound=nn.Module)


class Simplex(nn.Module, ABC):
    """R distributions over K values."""

    @abstractmethod
    def log_weights(self) -> Float[Tensor, "R K"]:
        """log π, or ⟨log π⟩ under variational Bayes."""

    @abstractmethod
    def probabilities(self) -> Float[Tensor, "R K"]:
        """π, or ⟨π⟩."""

    @abstractmethod
    def update(self, counts: Float[Tensor, "R K"], fraction: float) -> None:
        """Closed-form M-step from expected counts of a batch that is this fraction of all data."""

    @contextmanager
    def by_gradient(self) -> Iterator[None]:
        """Inside, learned probabilities are a parameter (their logarithms); others have nothing to learn so."""
        yield

    @abstractmethod
    def restart(self, pi: Float[Tensor, "R K"]) -> None:
        """Learn anew from these probabilities on; what is fixed stays."""

    @abstractmethod
    def kl(self) -> Float[Tensor, ""]:
        """KL(q(π)‖p(π)); zero for point estimates."""

    log_probability_floor = -30.0
    """Where learned probabilities stop shrinking: a state at e⁻³⁰ is dead, at 0 it would be NaN."""


class FixedSimplex(Simplex):
    """Known probabilities."""

    log_pi: Tensor

    def __init__(self, pi: Float[Tensor, "R K"]) -> None:
        super().__init__()
        self.register_buffer("log_pi", _safe_log(pi))

    @property
    def pi(self) -> Float[Tensor, "R K"]:
        """π."""
        return self.log_pi.exp()

    def log_weights(self) -> Float[Tensor, "R K"]:
        """log π."""
        return self.log_pi

    def probabilities(self) -> Float[Tensor, "R K"]:
        """π."""
        return self.pi

    def update(self, counts: Float[Tensor, "R K"], fraction: float) -> None:
        """Nothing to learn."""

    def restart(self, pi: Float[Tensor, "R K"]) -> None:
        """Nothing to learn."""

    def kl(self) -> Float[Tensor, ""]:
        """Zero."""
        return self.log_pi.new_zeros(())


class LearnedSimplex(Simplex):
    """Maximum-likelihood probabilities: the M-step is the normalised expected count."""

    log_pi: Tensor
    count: Tensor

    def __init__(self, pi: Float[Tensor, "R K"]) -> None:
        super().__init__()
        self.register_buffer("log_pi", _safe_log(pi))
        self.register_buffer("count", torch.zeros_like(pi))

    @property
    def pi(self) -> Float[Tensor, "R K"]:
        """π."""
        return self.log_pi.exp()

    def log_weights(self) -> Float[Tensor, "R K"]:
        """log π."""
        logits = self._parameters.get("logits")
        return self.log_pi if logits is None else torch.log_softmax(logits, -1)

    def probabilities(self) -> Float[Tensor, "R K"]:
        """π."""
        return self.pi

    def update(self, counts: Float[Tensor, "R K"], fraction: float) -> None:
        """Running counts c ← (1 − fraction) c + counts, π = c/Σc; the whole EM update when the batch is the data.

        Counts, not proportions, are averaged: batches of short and of long trials then weigh as they should.
        """
        if not bool(self.count.any()):  # as if all the data had so far agreed with where π starts
            self.count.copy_(self.probabilities() * counts.sum(-1, keepdim=True) / fraction)
        self.count.mul_(1 - fraction).add_(counts)
        total = self.count.sum(-1, keepdim=True)
        updated = self.count / total
        if not bool((total > 0).all()):
            updated = torch.where(total > 0, updated, self.probabilities())
        self.log_pi.copy_(_safe_log(updated))

    def restart(self, pi: Float[Tensor, "R K"]) -> None:
        """π, and nothing counted."""
        self.log_pi.copy_(_safe_log(pi))
        self.count.zero_()

    @contextmanager
    def by_gradient(self) -> Iterator[None]:
        """log π up to a constant in every row; the counts follow once it is found."""
        total = self.count.sum(-1, keepdim=True)
        self.logits = nn.Parameter(self.log_pi.detach().clone())
        try:
            yield
        finally:
            self.log_pi.copy_(_safe_log(torch.softmax(self.logits.detach(), -1)))
            self.count.copy_(self.pi * total)
            del self.logits

    def kl(self) -> Float[Tensor, ""]:
        """Zero: a point estimate."""
        return self.log_pi.new_zeros(())


class DirichletSimplex(Simplex):
    """π ~ Dirichlet(a), with q(π) = Dirichlet(â) by variational Bayes."""

    prior_count: Tensor
    count: Tensor

    def __init__(self, prior_count: Float[Tensor, "R K"]) -> None:
        super().__init__()
        self.register_buffer("prior_count", prior_count)
        self.register_buffer("count", prior_count.clone())

    def log_weights(self) -> Float[Tensor, "R K"]:
        """⟨log π⟩ = Ψ(â_k) − Ψ(Σ â)."""
        return torch.digamma(self.count) - torch.digamma(self.count.sum(-1, keepdim=True))

    def probabilities(self) -> Float[Tensor, "R K"]:
        """⟨π⟩."""
        return self.count / self.count.sum(-1, keepdim=True)

    def update(self, counts: Float[Tensor, "R K"], fraction: float) -> None:
        """â ← (1 − fraction) â + fraction (a + counts/fraction): stochastic variational inference."""
        self.count.copy_((1 - fraction) * self.count + fraction * (self.prior_count + counts / fraction))

    def restart(self, pi: Float[Tensor, "R K"]) -> None:
        """â is the prior's and as many counts as there are values, shared out by π."""
        self.count.copy_(self.prior_count + pi.shape[-1] * pi)

    def kl(self) -> Float[Tensor, ""]:
        """KL(Dirichlet(â)‖Dirichlet(a))."""
        posterior = torch.distributions.Dirichlet(self.count)
        return torch.distributions.kl_divergence(posterior, torch.distributions.Dirichlet(self.prior_count)).sum()


def _safe_log(probabilities: Float[Tensor, "R K"]) -> Float[Tensor, "R K"]:
    logs = probabilities.log().clamp_min(Simplex.log_probability_floor)
    return torch.log_softmax(logs, -1)


def freed(part: Part) -> Part:
    """A copy in which every table is a point estimate, learned from what it is now on; nothing else is different."""
    same = copy.deepcopy(part)
    for module in list(same.modules()):
        for name, each in list(module.named_children()):
            if isinstance(each, FixedSimplex | LearnedSimplex | DirichletSimplex):
                setattr(module, name, LearnedSimplex(each.probabilities().detach().clone()))
    return same
