"""Several discrete latents with names: p(z) = ∏_a p(z_a | parents of a). Conditioning is a junction tree's calibration.

What a factor says of some of the latents, log f_j − log F_j (A14), is a table on their joint states, and so is
log p(z_a | parents): the posterior is a Markov random field with the tables of both, and its log-partition log W.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rpmodels.carriers import SiteMarginal, Sites, Targets
from rpmodels.families.joint_states import LARGEST, JointStates, ScopeTargets
from rpmodels.priors.graph_tables import Latents, LogTable, Specification, specified, started
from rpmodels.priors.prior import HasLogDensity, Posterior
from rpmodels.priors.simplex import DirichletSimplex, FixedSimplex, LearnedSimplex, Simplex


class DiscreteGraph(HasLogDensity[JointStates]):
    """Sites independent; at each of them several latents, every one with a table given its parents.

    Tables are fixed, learned in closed form, or under Dirichlets (variational Bayes). Factors are relative to the
    uniform distribution, so that tables that are learned do not drag them along.

    Args:
        names: of the latents
        states: how many each has
        parents: of every latent, by their places
        tables: p(z_a | parents), a row for every joint state of the parents, the last parent's fastest
        scopes: sets of latents that factors speak of; those of tables and parts of them are known
        largest: joint states that a clique of the junction tree may have

    """

    _reference: Tensor

    def __init__(
        self,
        names: Sequence[str],
        states: Sequence[int],
        parents: Sequence[Sequence[int]],
        tables: Sequence[Simplex],
        scopes: Sequence[Sequence[int]] = (),
        largest: int = LARGEST,
    ) -> None:
        super().__init__()
        self.names, self.states = list(names), [int(each) for each in states]
        self.parents = [[int(a) for a in each] for each in parents]
        self.tables = nn.ModuleList(tables)
        self.scopes = [sorted(int(a) for a in each) for each in scopes]
        self.largest = largest
        self._places = [LogTable(a, tuple(each), tuple(self.states)) for a, each in enumerate(self.parents)]
        self._family = self._made()
        self.register_buffer("_reference", torch.zeros(1, self._family.natural_size))

    def _made(self) -> JointStates:
        spoken = [*(each.scope for each in self._places), *(tuple(each) for each in self.scopes)]
        family = JointStates(tuple(self.names), tuple(self.states), tuple(dict.fromkeys(spoken)), self.largest)
        _ = family.tree  # now, so that what is too wide is refused before any work
        return family

    # ---- ways to make one -------------------------------------------------------------------

    @staticmethod
    def learned(
        states: Latents,
        parents: Specification | None = None,
        scopes: Sequence[Sequence[str]] = (),
        largest: int = LARGEST,
        known: Mapping[str, Float[Tensor, "..."]] | None = None,
    ) -> "DiscreteGraph":
        """Tables by maximum likelihood, but for those that are known.

        Roots start uniform, others at random: equal rows know no parents.
        """
        what = specified(states, parents, scopes)
        given = what.rows(known or {})
        tables = [
            FixedSimplex(given[name]) if name in given else LearnedSimplex(started(*shape))
            for name, shape in zip(what.names, what.shapes, strict=True)
        ]
        return DiscreteGraph(what.names, what.states, what.parents, tables, what.scopes, largest)

    @staticmethod
    def fixed(
        states: Latents,
        parents: Specification | None,
        tables: Mapping[str, Float[Tensor, "..."]],
        scopes: Sequence[Sequence[str]] = (),
        largest: int = LARGEST,
    ) -> "DiscreteGraph":
        """Known tables by latent: an axis for every parent and one of its own."""
        missing = {name: torch.zeros(0) for name in states if name not in tables}
        return DiscreteGraph.learned(states, parents, scopes, largest, {**tables, **missing})

    @staticmethod
    def dirichlet(
        states: Latents,
        parents: Specification | None = None,
        concentration: float = 1.0,
        scopes: Sequence[Sequence[str]] = (),
        largest: int = LARGEST,
    ) -> "DiscreteGraph":
        """Every row ~ Dirichlet(concentration, …), learned by variational Bayes."""
        what = specified(states, parents, scopes, concentration)
        tables = []
        for rows, size in what.shapes:
            made = DirichletSimplex(torch.full((rows, size), float(concentration), dtype=torch.float64))
            made.restart(started(rows, size))
            tables.append(made)
        return DiscreteGraph(what.names, what.states, what.parents, tables, what.scopes, largest)

    # ---- the contract -----------------------------------------------------------------------

    @property
    def family(self) -> JointStates:
        """All latents, with every scope that a table or a factor speaks of."""
        return self._family

    def table(self, latent: str) -> Float[Tensor, "..."]:
        """p(z_a | parents), an axis for every parent and one of its own; the posterior mean under variational Bayes."""
        a = self.family.index("the latent", latent)
        return self._places[a].as_parents(self._simplex(a).probabilities())

    @torch.no_grad()
    def marginals(self) -> dict[str, Float[Tensor, "K"]]:
        """p(z_a) of every latent."""
        before = GraphPosterior(self.family, self._mean_eta(), self._reference[None], Sites.single(1))
        return {name: before.joint([name])[0, 0] for name in self.names}

    def redraw(self) -> None:
        """Learned tables anew, as `learned` starts them."""
        for each in cast(Sequence[Simplex], self.tables):
            each.restart(started(*each.probabilities().shape).to(each.probabilities()))

    def reference(self, sites: Sites, shared: bool) -> Float[Tensor, "S D"]:
        """Uniform."""
        return self._reference

    def _eta(self, logs: Sequence[Tensor]) -> Float[Tensor, "1 D"]:
        """Σ_a log p(z_a | parents) as natural parameters."""
        blocks: dict[tuple[int, ...], Tensor] = {}
        for place, each in zip(self._places, logs, strict=True):
            blocks[place.scope] = place.as_scope(each)
        family = self.family
        nothing = [logs[0].new_zeros(size) for size in family.sizes]
        return torch.cat([blocks.get(scope, zeros) for scope, zeros in zip(family.scopes, nothing, strict=True)])[None]

    def _simplex(self, a: int) -> Simplex:
        return cast(Simplex, self.tables[a])

    def condition(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> "GraphPosterior":
        """q(z) ∝ ∏_a p(z_a | parents) exp(potentials) at every site."""
        eta = self._eta([self._simplex(a).log_weights() for a in range(len(self.tables))])
        return GraphPosterior(self.family, eta, potentials, sites)

    @property
    def couples_sites(self) -> bool:
        """Sites are independent."""
        return False

    def _mean_eta(self) -> Float[Tensor, "1 D"]:
        return self._eta([self._simplex(a).probabilities().log() for a in range(len(self.tables))])

    def sample(self, sites: Sites, generator: torch.Generator) -> Int[Tensor, "N T A"]:
        """Configurations by the (mean) tables."""
        return self.family.sample(self._mean_eta().expand(*sites.exists.shape, -1), generator)

    def log_density(self, z: Int[Tensor, "*draws N T A"], sites: Sites) -> Float[Tensor, "*draws N"]:
        """Σ_t Σ_a log p(z_ta | parents)."""
        eta = self._mean_eta()[0]
        said = (self.family.statistic(z).to(eta.dtype) * eta).sum(-1)
        return torch.where(sites.exists, said, 0.0).sum(-1)

    def sums(self, posterior: Posterior, weights: Float[Tensor, "N"]) -> dict[str, Tensor]:
        """Expected counts of every table, over the sites that exist."""
        assert isinstance(posterior, GraphPosterior)
        counted = weights[:, None] * posterior.sites.exists
        total = torch.einsum("nt,ntd->d", counted, posterior.mu)
        parts = dict(zip(self.family.scopes, torch.split(total, list(self.family.sizes)), strict=True))
        return {f"table {a}": place.as_rows(parts[place.scope]) for a, place in enumerate(self._places)}

    def update(self, sums: Mapping[str, Tensor], fraction: float) -> None:
        """Tables from expected counts."""
        for a in range(len(self.tables)):
            self._simplex(a).update(sums[f"table {a}"], fraction)

    @contextmanager
    def by_gradient(self) -> Iterator[None]:
        """All tables."""
        with ExitStack() as stack:
            for a in range(len(self.tables)):
                stack.enter_context(self._simplex(a).by_gradient())
            yield

    def parameter_kl(self) -> Float[Tensor, ""]:
        """KL(q(tables)‖p(tables))."""
        return torch.stack([self._simplex(a).kl() for a in range(len(self.tables))]).sum()


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
