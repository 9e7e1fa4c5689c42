"""What is known of a graph of discrete latents given potentials: marginals, joint states, configurations, draws."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rpmodels.carriers import SiteMarginal, Sites, Targets
from rpmodels.families.joint_states import JointStates, ScopeTargets
from rpmodels.priors.prior import Posterior


@dataclass(frozen=True)
class GraphPosterior(Posterior):
    """q(z) of every site of a batch."""

    family: JointStates
    eta_0: Float[Tensor, "1 D"]
    potentials: Float[Tensor, "N T D"]
    sites: Sites
    at_maximum: bool = False
    """Whether F is stationary in q: then only the log-partition has a gradient."""

    def stationary(self) -> "GraphPosterior":
        """Marginals without gradients: those of the messages are most of the work."""
        return replace(self, at_maximum=True)

    @cached_property
    def eta(self) -> Float[Tensor, "N T D"]:
        """log tables + potentials."""
        return self.eta_0 + self.potentials

    @cached_property
    def _calibrated(self) -> tuple[Float[Tensor, "N T D"], Float[Tensor, "N T D"], Float[Tensor, "N T"]]:
        """log q and q of the joint states of every scope, and the log-partition."""
        eta = self.eta
        if not self.at_maximum:
            logs, value = self.family.calibrated(eta)
            return logs, logs.exp(), value
        with torch.no_grad():
            logs, value = self.family.calibrated(eta)
            mu = logs.exp()
        return logs, mu, self.family.log_partition_of(eta, mu, value)

    @property
    def log_marginals(self) -> Float[Tensor, "N T D"]:
        """log q of the joint states of every scope."""
        return self._calibrated[0]

    @property
    def mu(self) -> Float[Tensor, "N T D"]:
        """q of the joint states of every scope."""
        return self._calibrated[1]

    def marginal(self, targets: Targets) -> SiteMarginal:
        """Read off what was calibrated once."""
        assert isinstance(targets, ScopeTargets)
        return SiteMarginal(lambda: targets.log_marginal(self.log_marginals), lambda: targets.mean(self.mu))

    def _summed(self, values: Float[Tensor, "N T"]) -> Float[Tensor, "N"]:
        return torch.where(self.sites.exists, values, 0.0).sum(-1)

    @cached_property
    def log_partition(self) -> Float[Tensor, "N"]:
        """log Σ_z p(z) exp(potentials): with the exact potentials, log W (eq 4)."""
        return self._summed(self._calibrated[2])

    @cached_property
    def kl(self) -> Float[Tensor, "N"]:
        """Σ_t potentials·μ_q − log partition."""
        return self._summed((self.potentials * self.mu).sum(-1)) - self.log_partition

    def most_probable(self) -> Int[Tensor, "N T A"]:
        """The configuration of the highest probability at every site."""
        return self.family.most_probable(self.eta)

    @torch.no_grad()
    def joint(self, latents: Sequence[str]) -> Float[Tensor, "..."]:
        """q of the joint states of any latents: N, T, then an axis for each."""
        indices = [self.family.index("the latent", each) for each in latents]
        wider = self.family.with_scope(indices)
        eta = nn.functional.pad(self.eta, (0, wider.natural_size - self.family.natural_size))
        _, targets = wider.targets(indices)
        found = targets.mean(wider.mean(eta))
        return found.reshape(*self.eta.shape[:-1], *(self.family.states[a] for a in indices))

    def draw(self, generator: torch.Generator) -> tuple[Int[Tensor, "N T A"], Float[Tensor, "N"]]:
        """Every site by itself; log p/q = log partition − potentials·t(z)."""
        z = self.family.sample(self.eta, generator)
        t = self.family.statistic(z).to(self.eta.dtype)
        return z, self.log_partition - self._summed((self.potentials * t).sum(-1))
