"""Several discrete latents along time as one Markov chain of joint states: chains side by side, or a state and its age.

Factors may speak of any of them (`targets`). Exact, with transitions among all joint states: small ones only.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rpmodels import checks
from rpmodels.carriers import Sites
from rpmodels.families import JointStates
from rpmodels.priors.filters import HasFilter
from rpmodels.priors.markov_chain import ChainFilter, MarkovChainPrior, checked
from rpmodels.priors.markov_chain_posterior import MarkovChainPosterior
from rpmodels.priors.prior import HasLogDensity, Posterior
from rpmodels.priors.simplex import DirichletSimplex, FixedSimplex, LearnedSimplex, Simplex
from rpmodels.priors.structured import AgeSimplex, ProductSimplex, joint_size

LARGEST = 512
"""Joint states: a step between two sites is a matrix of this size squared, for every observation."""


class JointChain(HasLogDensity[JointStates], HasFilter[JointStates]):
    """The joint states of some latents as one chain.

    Args:
        names: of the latents
        states: how many each has
        chain: over their joint states, the last latent's fastest

    """

    def __init__(self, names: Sequence[str], states: Sequence[int], chain: MarkovChainPrior) -> None:
        super().__init__()
        self.names, self.states, self.chain = list(names), [int(each) for each in states], chain

    @staticmethod
    def factorial(states: Mapping[str, int], largest: int = LARGEST) -> "JointChain":
        """Chains that move independently of each other, learned; each starts with a tendency to stay."""
        sizes = {name: checks.integer(f"states of the chain '{name}'", each, 2) for name, each in states.items()}
        joint_size(list(sizes.values()), largest, "chains")
        return JointChain.of({name: MarkovChainPrior.learned(k) for name, k in sizes.items()}, largest)

    @staticmethod
    def of(chains: Mapping[str, MarkovChainPrior], largest: int = LARGEST) -> "JointChain":
        """These chains, independent of each other."""
        sizes = [each.family.states for each in chains.values()]
        joint_size(sizes, largest, "chains")
        initial = ProductSimplex([each.initial for each in chains.values()])
        steps = ProductSimplex([each.transition for each in chains.values()])
        return JointChain(list(chains), sizes, MarkovChainPrior(initial, steps))

    @staticmethod
    def durations(
        n_states: int,
        longest: int,
        largest: int = LARGEST,
        concentration: float | None = None,
        jumps: Float[Tensor, "K K"] | None = None,
    ) -> "JointChain":
        """Semi-Markov: latents "state" and "age"; how long a state lasts is learned step by step up to `longest`.

        It begins with a hazard of 2/longest at every age, and at any age.

        Args:
            n_states: K
            longest: steps that durations are told apart up to
            largest: joint states that there may be
            concentration: of Dirichlets over hazards and jumps (variational Bayes); None for maximum likelihood
            jumps: known ones, where a state goes that ends; their diagonal is not looked at

        """
        count, ages = checks.integer("n_states", n_states, 2), checks.integer("longest", longest, 2)
        size = joint_size([count, ages], largest, "states and ages")
        leave = min(0.5, 2.0 / ages)
        hazards = torch.tensor([[1.0 - leave, leave]], dtype=torch.float64).repeat(size, 1)
        equal = torch.full((count, count - 1), 1.0 / (count - 1), dtype=torch.float64)
        initial = _begun(torch.full((1, size), 1.0 / size, dtype=torch.float64), concentration)
        others = ~torch.eye(count, dtype=torch.bool)
        known = None if jumps is None else FixedSimplex(checked(jumps[others].reshape(count, count - 1), "jump"))
        steps = AgeSimplex(_begun(hazards, concentration), known or _begun(equal, concentration))
        return JointChain(["state", "age"], [count, ages], MarkovChainPrior(initial, steps))

    @property
    def family(self) -> JointStates:
        """One scope with all latents."""
        return JointStates(tuple(self.names), tuple(self.states), (tuple(range(len(self.names))),))

    def table(self, latent: str) -> Float[Tensor, "K K"]:
        """Transitions of one of several independent chains."""
        steps = self.chain.transition
        assert isinstance(steps, ProductSimplex)
        return cast(Simplex, steps.parts[self.family.index("the chain", latent)]).probabilities()

    def jumps(self) -> Float[Tensor, "K K"]:
        """Of states with an age, where each goes when it ends: zero on the diagonal."""
        steps = self.chain.transition
        assert isinstance(steps, AgeSimplex)
        rows = steps.jumps.probabilities()
        table = rows.new_zeros(len(rows), len(rows))
        table[~torch.eye(len(rows), dtype=torch.bool, device=rows.device)] = rows.flatten()
        return table

    def durations_of_states(self) -> Float[Tensor, "K D"]:
        """Of states with an age, p(each lasts 1, 2, …, longest or more steps)."""
        steps = self.chain.transition
        assert isinstance(steps, AgeSimplex)
        return steps.durations()

    def reference(self, sites: Sites, shared: bool) -> Float[Tensor, "S D"]:
        """Uniform."""
        return self.chain.reference(sites, shared)

    def condition(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> "JointChainPosterior":
        """Messages in both directions, over joint states."""
        return JointChainPosterior(self.family, self.chain.condition(potentials, sites))

    def filtering(self) -> ChainFilter:
        """Of the chain: probabilities of joint states."""
        return self.chain.filtering()

    def predict(self, probabilities: Float[Tensor, "N K"], steps: int) -> Float[Tensor, "N steps K"]:
        """Of the chain: joint states in the steps to come."""
        return self.chain.predict(probabilities, steps)

    @property
    def couples_sites(self) -> bool:
        """Neighbours teach each other."""
        return True

    def sample(self, sites: Sites, generator: torch.Generator) -> Int[Tensor, "N T A"]:
        """Configurations along time."""
        return apart(self.chain.sample(sites, generator), self.states)

    def log_density(self, z: Int[Tensor, "*draws N T A"], sites: Sites) -> Float[Tensor, "*draws N"]:
        """That of the joint states."""
        return self.chain.log_density(self.family.joint(z, range(len(self.states))), sites)

    def sums(self, posterior: Posterior, weights: Float[Tensor, "N"]) -> dict[str, Tensor]:
        """Of the chain."""
        assert isinstance(posterior, JointChainPosterior)
        return self.chain.sums(posterior.joint, weights)

    def update(self, sums: Mapping[str, Tensor], fraction: float) -> None:
        """Of the chain."""
        self.chain.update(sums, fraction)

    @contextmanager
    def by_gradient(self) -> Iterator[None]:
        """Of the chain."""
        with self.chain.by_gradient():
            yield

    def parameter_kl(self) -> Float[Tensor, ""]:
        """Of the chain."""
        return self.chain.parameter_kl()


@dataclass(frozen=True)
class JointChainPosterior(Posterior):
    """q of several latents along time, by that of their joint states."""

    family: JointStates
    joint: MarkovChainPosterior

    def stationary(self) -> "JointChainPosterior":
        """By messages without gradients."""
        return JointChainPosterior(self.family, self.joint.stationary())

    @property
    def eta(self) -> Float[Tensor, "N T D"]:
        """log q(z_t)."""
        return self.joint.eta

    @property
    def mu(self) -> Float[Tensor, "N T D"]:
        """q(z_t)."""
        return self.joint.mu

    @property
    def kl(self) -> Float[Tensor, "N"]:
        """That of the joint states."""
        return self.joint.kl

    @property
    def potentials(self) -> Float[Tensor, "N T D"]:
        """What was said of joint states."""
        return self.joint.potentials

    @property
    def filtered(self) -> Float[Tensor, "N T D"]:
        """p(z_t | what was seen until t), of joint states."""
        return self.joint.filtered

    @property
    def log_partition(self) -> Float[Tensor, "N"]:
        """With the exact potentials, log W (eq 4)."""
        return self.joint.log_partition

    def viterbi(self) -> Int[Tensor, "N T A"]:
        """The most probable sequence of configurations."""
        return apart(self.joint.viterbi(), self.family.states)

    def draw(self, generator: torch.Generator) -> tuple[Int[Tensor, "N T A"], Float[Tensor, "N"]]:
        """A joint draw, as configurations."""
        states, log_ratio = self.joint.draw(generator)
        return apart(states, self.family.states), log_ratio


def _begun(rows: Float[Tensor, "R K"], concentration: float | None) -> Simplex:
    """Learned from here on, by maximum likelihood or under Dirichlets."""
    if concentration is None:
        return LearnedSimplex(rows)
    made = DirichletSimplex(torch.full_like(rows, checks.number("the concentration", concentration, above=0.0)))
    made.restart(rows)
    return made


def apart(joint: Int[Tensor, "N T"], states: Sequence[int]) -> Int[Tensor, "N T A"]:
    """Joint states as the states of every latent."""
    found = []
    for size in reversed(states):
        found.append(joint % size)
        joint = joint // size
    return torch.stack(found[::-1], -1)
