"""Discrete latents along time: p(z_1) = π, p(z_{t+1} = j | z_t = i) = A_ij. Conditioning is forward–backward."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rpmodels import errors
from rpmodels.carriers import Sites
from rpmodels.families import Categorical
from rpmodels.priors.driving import wide
from rpmodels.priors.filters import Filter, Filtered, HasFilter, State
from rpmodels.priors.markov_chain_posterior import MarkovChainPosterior
from rpmodels.priors.prior import HasLogDensity, Posterior
from rpmodels.priors.simplex import DirichletSimplex, FixedSimplex, LearnedSimplex, Simplex
from rpmodels.priors.symmetry import Symmetry, of_states

STAY = 0.5
"""Extra probability of staying that learned transitions start with: at equal rows the sites would teach nothing."""


class MarkovChainPrior(HasLogDensity[Categorical], HasFilter[Categorical]):
    """K states; initial and transition probabilities each fixed, learned, or under Dirichlets (variational Bayes).

    Factors are relative to the uniform distribution: transitions that are learned in closed form must not drag
    the factors along.
    """

    _reference: Tensor

    def __init__(self, initial: Simplex, transition: Simplex) -> None:
        super().__init__()
        rows, states = transition.log_weights().shape
        if states < 2:
            raise errors.too_few_states(states)
        if rows != states or tuple(initial.log_weights().shape) != (1, states):
            raise errors.bad_value("the transition matrix", f"{states} rows of {states} states", f"{rows} rows")
        self.initial = initial
        self.transition = transition
        self.register_buffer("_reference", torch.zeros(1, states))

    @staticmethod
    def fixed(initial: Float[Tensor, "K"], transition: Float[Tensor, "R K"]) -> "MarkovChainPrior":
        """Known probabilities."""
        return MarkovChainPrior(FixedSimplex(checked(initial[None], "initial")), FixedSimplex(checked(transition)))

    @staticmethod
    def learned(n_states: int) -> "MarkovChainPrior":
        """Both by maximum likelihood, started uniform and with a tendency to stay."""
        return MarkovChainPrior(LearnedSimplex(_uniform(n_states)), LearnedSimplex(sticky(n_states)))

    @staticmethod
    def dirichlet(n_states: int, concentration: float) -> "MarkovChainPrior":
        """Every distribution ~ Dirichlet(concentration, …), learned by variational Bayes."""
        if not concentration > 0:
            raise errors.bad_value("the Dirichlet concentration", "a positive number", concentration)
        initial = DirichletSimplex(torch.full((1, n_states), float(concentration), dtype=torch.float64))
        transition = DirichletSimplex(torch.full((n_states, n_states), float(concentration), dtype=torch.float64))
        transition.count.copy_(concentration + n_states * sticky(n_states))  # off the symmetric point
        return MarkovChainPrior(initial, transition)

    @staticmethod
    def staying(n_states: int, steps: float) -> "MarkovChainPrior":
        """Rows of transitions under a Dirichlet that has seen one step to every state, and so many of staying."""
        seen = 1.0 + steps * torch.eye(n_states, dtype=torch.float64)
        return MarkovChainPrior(LearnedSimplex(_uniform(n_states)), DirichletSimplex(seen))

    @property
    def family(self) -> Categorical:
        """Categorical over K states."""
        return Categorical(int(self._reference.shape[-1]))

    @property
    def probabilities(self) -> Float[Tensor, "K"]:
        """π (its posterior mean under variational Bayes)."""
        return self.initial.probabilities()[0]

    @property
    def transitions(self) -> Float[Tensor, "K K"]:
        """A (its posterior mean under variational Bayes)."""
        return self.transition.probabilities()

    def reference(self, sites: Sites, shared: bool) -> Float[Tensor, "S D"]:
        """Uniform."""
        return self._reference

    def condition(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> MarkovChainPosterior:
        """q(Z) ∝ π(z_1) ∏ A(z_t, z_{t+1}) exp(Σ potentials): messages in both directions."""
        log_initial, log_transition = self.initial.log_weights()[0], self.transition.log_weights()
        return MarkovChainPosterior(self.family, potentials, sites, log_initial, log_transition)

    def filter(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> Float[Tensor, "N T K"]:
        """p(z_t | what was seen until t)."""
        return self.condition(potentials, sites).filtered

    def filtering(self) -> "ChainFilter":
        """Forward messages, step after step."""
        return ChainFilter(self)

    def predict(self, probabilities: Float[Tensor, "N K"], steps: int) -> Float[Tensor, "N steps K"]:
        """p(z_{t+1}), …, p(z_{t+steps}) from p(z_t)."""
        ahead = [probabilities]
        for _ in range(steps):
            ahead.append(ahead[-1] @ self.transitions)
        return torch.stack(ahead[1:], 1)

    @property
    def couples_sites(self) -> bool:
        """Neighbours teach each other."""
        return True

    def symmetry(self, times: Float[Tensor, "T"]) -> Symmetry:
        """States with the same transitions, to and fro."""
        return of_states([self.probabilities.detach(), self.transitions.detach()])

    def sample(self, sites: Sites, generator: torch.Generator) -> Int[Tensor, "N T"]:
        """Chains, by the (mean) probabilities."""
        log_start, log_steps = self.probabilities.log(), self.transitions.log()
        n, t = sites.exists.shape
        z = [self.family.sample(log_start.expand(n, -1), generator)]
        for _ in range(t - 1):
            z.append(self.family.sample(log_steps[z[-1]], generator))
        return torch.stack(z, 1)

    def log_density(self, z: Int[Tensor, "*draws N T"], sites: Sites) -> Float[Tensor, "*draws N"]:
        """log π(z_1) + Σ_t log A(z_t, z_{t+1})."""
        first = self.probabilities.log()[z[..., :1]]
        steps = self.transitions.log()[z[..., :-1], z[..., 1:]]
        return torch.where(sites.exists, torch.cat([first, steps], -1), 0.0).sum(-1)

    def sums(self, posterior: Posterior, weights: Float[Tensor, "N"]) -> dict[str, Tensor]:
        """Expected counts of first states and, where there is more than one site, of transitions."""
        assert isinstance(posterior, MarkovChainPosterior)
        exists = posterior.sites.exists
        first = weights * exists[:, 0]
        sums = {"initial": first[None] @ posterior.mu[:, 0]}
        if exists.shape[1] > 1:
            sums["transitions"] = posterior.messages.pairs(weights).to(posterior.potentials.dtype)
        return sums

    def update(self, sums: Mapping[str, Tensor], fraction: float) -> None:
        """π from the first sites, A from the expected numbers of transitions."""
        self.initial.update(sums["initial"], fraction)
        if "transitions" in sums:
            self.transition.update(sums["transitions"], fraction)

    @contextmanager
    def by_gradient(self) -> Iterator[None]:
        """π and A."""
        with self.initial.by_gradient(), self.transition.by_gradient():
            yield

    def parameter_kl(self) -> Float[Tensor, ""]:
        """KL(q(π, A)‖p(π, A))."""
        return self.initial.kl() + self.transition.kl()


class ChainFilter(Filter):
    """A Markov chain as time goes by: probabilities of its states, and whether it has begun."""

    names = ("probabilities", "begun")
    shown_names = ("probabilities",)
    initial: Tensor
    transition: Tensor

    @torch.no_grad()
    def __init__(self, prior: MarkovChainPrior) -> None:
        super().__init__()
        self.register_buffer("initial", wide(prior.initial.log_weights()).exp())
        self.register_buffer("transition", wide(prior.transition.log_weights()).exp())

    def begin(self, n: int) -> State:
        """Not begun."""
        return self.initial.repeat(n, 1), torch.zeros(n, 1, dtype=torch.bool, device=self.initial.device)

    def moved(self, state: State, *along: Tensor) -> State:
        """p A; the first time has π."""
        probabilities, begun = state
        return torch.where(begun, probabilities @ self.transition, self.initial), torch.ones_like(begun)

    def heard(self, state: State, potential: Float[Tensor, "N D"]) -> State:
        """Times what is said of every state, scaled to sum to one."""
        probabilities, begun = state
        weights = probabilities * (wide(potential) - wide(potential).amax(-1, keepdim=True)).exp()
        return weights / weights.sum(-1, keepdim=True), begun

    def filtered(self, state: State, dtype: torch.dtype) -> Filtered:
        """By its probabilities."""
        mu = state[0][:, None].to(dtype)
        return Filtered(lambda: mu.clamp_min(torch.finfo(dtype).tiny).log(), lambda: mu)

    def shown(self, state: State) -> State:
        """Probabilities."""
        return state[:1]


def sticky(n_states: int, stay: float = STAY) -> Float[Tensor, "K K"]:
    """Equal transitions, and some extra probability of staying."""
    return (1.0 - stay) * _uniform(n_states).expand(n_states, -1) + stay * torch.eye(n_states, dtype=torch.float64)


def _uniform(n_states: int) -> Float[Tensor, "1 K"]:
    if n_states < 2:
        raise errors.too_few_states(n_states)
    return torch.full((1, n_states), 1.0 / n_states, dtype=torch.float64)


def checked(rows: Float[Tensor, "R K"], what: str = "transition") -> Float[Tensor, "R K"]:
    """Rows that are distributions; zeros are allowed."""
    sums = rows.double().sum(-1, keepdim=True)
    if not bool((rows >= 0).all()) or bool(((sums - 1.0).abs() > 1e-3).any()):
        got = f"{rows.tolist()}"
        raise errors.bad_value(f"the {what} probabilities", "numbers ≥ 0, every row with sum 1", got)
    return rows.double() / sums


def stationary(transition: Float[Tensor, "K K"]) -> Float[Tensor, "K"]:
    """Where a chain is after a long time, averaged over its phases: πA = π."""
    rows = checked(transition)
    lazy = 0.5 * (rows + torch.eye(len(rows), dtype=rows.dtype))
    after: Tensor = torch.linalg.matrix_power(lazy, 2**20)
    return after.mean(0)
