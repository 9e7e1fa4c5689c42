"""Several discrete latents with names: p(z) = ∏_a p(z_a | parents of a) ∏_c ψ_c(z_c)/Z. Conditioning calibrates a tree.

What a factor says of some of the latents, log f_j − log F_j (A14), is a table on their joint states, and so is
log p(z_a | parents): the posterior is a Markov random field with the tables of both, and its log-partition log W.
"""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rpmodels import checks, errors
from rpmodels.carriers import Sites
from rpmodels.families.joint_states import LARGEST, JointStates
from rpmodels.priors.graph_posterior import GraphPosterior
from rpmodels.priors.graph_tables import Latents, LogTable, Specification, specified, started
from rpmodels.priors.prior import HasLogDensity, Posterior
from rpmodels.priors.simplex import DirichletSimplex, FixedSimplex, LearnedSimplex, Simplex

COUPLED = 0.1
"""Standard deviation of log potentials where they begin."""


class DiscreteGraph(HasLogDensity[JointStates]):
    """Sites independent; at each of them several latents, every one with a table given its parents.

    Tables are fixed, learned in closed form, or under Dirichlets (variational Bayes). Factors are relative to the
    uniform distribution, so that tables that are learned do not drag them along.

    Latents of a clique have no parents and a uniform table: p of all of them is ∏_c ψ_c/Z, the potentials ψ_c learned
    by gradient. Z is a sum over these latents alone, so it leaves the tables of others, who may be their children, as
    they are.

    Args:
        names: of the latents
        states: how many each has
        parents: of every latent, by their places
        tables: p(z_a | parents), a row for every joint state of the parents, the last parent's fastest
        scopes: sets of latents that factors speak of; those of tables and parts of them are known
        largest: joint states that a clique of the junction tree may have
        cliques: sets of latents with a potential on their joint states

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
        cliques: Sequence[Sequence[int]] = (),
    ) -> None:
        super().__init__()
        self.names, self.states = list(names), [int(each) for each in states]
        self.parents = [[int(a) for a in each] for each in parents]
        self.tables = nn.ModuleList(tables)
        self.scopes = [sorted(int(a) for a in each) for each in scopes]
        self.largest = largest
        self.cliques = [sorted(int(a) for a in each) for each in cliques]
        self.log_potentials = nn.ParameterList(
            COUPLED * torch.randn(math.prod(self.states[a] for a in each)) for each in self.cliques
        )
        self._places = [LogTable(a, tuple(each), tuple(self.states)) for a, each in enumerate(self.parents)]
        self._family = self._made()
        self.register_buffer("_reference", torch.zeros(1, self._family.natural_size))

    def _made(self) -> JointStates:
        spoken = [*(each.scope for each in self._places), *(tuple(each) for each in (*self.cliques, *self.scopes))]
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
        cliques: Sequence[Sequence[str]] = (),
    ) -> "DiscreteGraph":
        """Tables by maximum likelihood, but for those that are known; potentials by gradient.

        Roots start uniform, others at random: equal rows know no parents. So do potentials.
        """
        what = specified(states, parents, scopes, cliques)
        given = what.rows(known or {}) | what.of_cliques()
        tables = [
            FixedSimplex(given[name]) if name in given else LearnedSimplex(started(*shape))
            for name, shape in zip(what.names, what.shapes, strict=True)
        ]
        return DiscreteGraph(what.names, what.states, what.parents, tables, what.scopes, largest, what.cliques)

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
        cliques: Sequence[Sequence[str]] = (),
    ) -> "DiscreteGraph":
        """Every row ~ Dirichlet(concentration, …), learned by variational Bayes; potentials have no prior."""
        what = specified(states, parents, scopes, cliques)
        checks.number("the Dirichlet concentration", concentration, above=0.0)
        uniform, tables = what.of_cliques(), list[Simplex]()
        for name, (rows, size) in zip(what.names, what.shapes, strict=True):
            made = DirichletSimplex(torch.full((rows, size), float(concentration), dtype=torch.float64))
            made.restart(started(rows, size))
            tables.append(FixedSimplex(uniform[name]) if name in uniform else made)
        return DiscreteGraph(what.names, what.states, what.parents, tables, what.scopes, largest, what.cliques)

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
        """Learned tables and potentials anew, as `learned` starts them."""
        for each in cast(Sequence[Simplex], self.tables):
            each.restart(started(*each.probabilities().shape).to(each.probabilities()))
        with torch.no_grad():
            for psi in self.log_potentials:
                psi.copy_(COUPLED * torch.randn(psi.shape))

    def reference(self, sites: Sites, shared: bool) -> Float[Tensor, "S D"]:
        """Uniform."""
        return self._reference

    def _eta(self, logs: Sequence[Tensor]) -> Float[Tensor, "1 D"]:
        """Σ_a log p(z_a | parents) + Σ_c log ψ_c − log Z as natural parameters."""
        eta = self._joined(
            [(place.scope, place.as_scope(each)) for place, each in zip(self._places, logs, strict=True)]
        )
        if not self.cliques:
            return eta
        psi = self._joined([(tuple(each), psi) for each, psi in zip(self.cliques, self.log_potentials, strict=True)])
        # Beside uniform tables, which latents of cliques have; so Z is a mean over the configurations, not their sum.
        log_z = self.family.log_normaliser(psi) - sum(math.log(size) for size in self.states)
        # A constant, on the joint states of one scope that all configurations have.
        place = self.family.places[self.family.scopes.index(tuple(self.cliques[0]))]
        once = nn.functional.pad(
            log_z[:, None].expand(-1, place.stop - place.start), (place.start, psi.shape[-1] - place.stop)
        )
        return eta + psi - once

    def _joined(self, parts: Sequence[tuple[tuple[int, ...], Tensor]]) -> Float[Tensor, "1 D"]:
        """Tables of scopes as natural parameters."""
        blocks: dict[tuple[int, ...], Tensor] = {}
        for scope, table in parts:
            blocks[scope] = blocks[scope] + table if scope in blocks else table
        zeros = self._reference[0]
        placed = zip(self.family.scopes, self.family.places, strict=True)
        return torch.cat([blocks[scope] if scope in blocks else zeros[place] for scope, place in placed])[None]

    def log_potential(self, latents: Sequence[str]) -> Float[Tensor, "..."]:
        """log ψ_c, an axis for every latent in the order given; its mean is zero."""
        asked = [self.family.index("the latent", each) for each in latents]
        if sorted(asked) not in self.cliques:
            known = [str(tuple(self.names[a] for a in each)) for each in self.cliques]
            raise errors.bad_choice("the clique", known, tuple(latents))
        psi: Tensor = self.log_potentials[self.cliques.index(sorted(asked))].detach()
        table = (psi - psi.mean()).reshape([self.states[a] for a in sorted(asked)])
        return table.permute([sorted(asked).index(a) for a in asked])

    def _simplex(self, a: int) -> Simplex:
        return cast(Simplex, self.tables[a])

    def condition(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> "GraphPosterior":
        """q(z) ∝ ∏_a p(z_a | parents) exp(potentials) at every site."""
        eta = self._eta([self._simplex(a).log_weights() for a in range(len(self.tables))])
        return GraphPosterior(self.family, eta, potentials, sites)

    def freed(self) -> "DiscreteGraph":
        """All tables but those of latents in cliques, which stay uniform beside the potentials."""
        same = super().freed()
        for a in {a for each in self.cliques for a in each}:
            same.tables[a] = copy.deepcopy(self.tables[a])
        return same

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
