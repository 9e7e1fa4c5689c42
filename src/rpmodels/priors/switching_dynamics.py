"""K latents whose linear dynamics switch: s a Markov chain, z_{t+1} = A_s z_t + b_s + w_t by the state s of time t + 1.

Sites give potentials of the latents, whatever was observed, so that q(Z) q(S) is found by exact block updates
(`switching_posterior`). A, b, Q and transitions are learned in closed form (`regimes`).
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import checks, errors, linalg
from rpmodels.carriers import Sites
from rpmodels.families import Family, Gaussian
from rpmodels.priors.driving import wide
from rpmodels.priors.equal_steps import check_equal_steps
from rpmodels.priors.filters import HasFilter, said
from rpmodels.priors.kalman import noise_like
from rpmodels.priors.markov_chain import MarkovChainPrior
from rpmodels.priors.prior import HasLogDensity, Posterior
from rpmodels.priors.regimes import Affine, Counted, Regimes, expected
from rpmodels.priors.switching_filter import SwitchingFilter, SwitchingState
from rpmodels.priors.switching_posterior import Switching, SwitchingPosterior, over_states

ROUNDS, TOL = 100, 1e-13
"""Of block updates at most, and the share of its nats that a trial must gain in one for another to follow."""


class SwitchingDynamicsPrior(HasLogDensity[Gaussian], HasFilter[Gaussian]):
    """z_1 ~ N(0, I), z_{t+1} = A_s z_t + b_s + w_t, for times that are equally spaced.

    Factors are relative to N(0, I) at every site. Latents that switch have no stationary distribution of a known form,
    and need none: the reference cancels between f_j and F_j. That z_1 is N(0, I) is all that says how large latents are
    and where they are zero. Everything is computed in double precision and rounded.

    Args:
        family: FullGaussian(K)
        chain: of the states
        memory: of the dynamics that learning starts with, and that a conjugate prior expects
        rotation: by how much (radians per step) these turn more in a state than in the one before it
        counts: how many steps of every state the conjugate prior is worth

    """

    def __init__(
        self,
        family: Family,
        chain: MarkovChainPrior,
        *,
        memory: float = 0.9,
        rotation: float = 0.1,
        counts: float = 0.1,
    ) -> None:
        super().__init__()
        if not isinstance(family, Gaussian):
            raise errors.not_gaussian("SwitchingDynamicsPrior", type(family).__name__)
        if family.groups != 1:
            expected_family = f"FullGaussian({family.latents}), as the posterior of linear dynamics correlates latents"
            raise errors.bad_value("family", expected_family, family)
        self._family, self.chain = family, chain
        self.memory = checks.number("memory", memory, least=0.0, below=0.9999)
        self.rotation = checks.number("rotation", rotation)
        self.counts = checks.number("counts", counts, above=0.0)
        self.regimes = Regimes(family.latents, self.n_states, self.memory, self.rotation, self.counts)

    @property
    def family(self) -> Gaussian:
        """A full Gaussian."""
        return self._family

    @property
    def latents(self) -> int:
        """K."""
        return self._family.latents

    @property
    def n_states(self) -> int:
        """M."""
        return self.chain.family.n_states

    @property
    def couples_sites(self) -> bool:
        """The sites of a trial teach each other."""
        return True

    def dynamics(self) -> Affine:
        """A, b and Q of every state, in double precision."""
        return self.regimes.learned()

    def numbers(self, trials: int, sites: int) -> int:
        """Blocks of the latents, and probabilities of states."""
        return trials * sites * 8 * (self.family.natural_size + self.n_states)

    def reference(self, sites: Sites, shared: bool) -> Float[Tensor, "S D"]:
        """N(0, I)."""
        eye = torch.eye(self.latents).to(self.chain.reference(sites, shared))
        natural: Tensor = self._family.natural(0.0 * eye[:1], self._family.spread(eye[None, None]))
        return natural

    def condition(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> SwitchingPosterior:
        """q(Z) q(S), the best product near what one state in the place of all would make of the latents."""
        check_equal_steps(sites)
        potentials = torch.where(sites.exists[..., None], potentials, 0.0)
        h, W = said(self._family, potentials)
        problem = Switching(self.dynamics().natural(), self.chain, h[..., 0, :], W[..., 0, :, :], sites)
        states = problem.settled(self.regimes.overall(), ROUNDS, TOL)
        return SwitchingPosterior(self._family, potentials, problem, states)

    def sample(self, sites: Sites, generator: torch.Generator) -> Float[Tensor, "N T K"]:
        """Joint draws over the sites of every trial."""
        check_equal_steps(sites)
        return self.draw(sites, generator)[0]

    def draw(self, sites: Sites, generator: torch.Generator) -> tuple[Float[Tensor, "N T K"], Tensor]:
        """The same, and the states (N, T)."""
        A, b, Q = self.dynamics()
        root = linalg.cholesky(Q, "the noise of a state")
        states = self.chain.sample(sites, generator)
        noise = noise_like(A.new_empty(*states.shape, self.latents), generator)
        z = [noise[:, 0]]
        for s, w in zip(states[:, 1:].unbind(1), noise[:, 1:].unbind(1), strict=True):
            z.append((A[s] @ z[-1][..., None] + root[s] @ w[..., None])[..., 0] + b[s])
        return torch.stack(z, 1).to(self.chain.reference(sites, True).dtype), states

    def log_density(self, z: Float[Tensor, "*draws N T K"], sites: Sites) -> Float[Tensor, "*draws N"]:
        """log N(z_1; 0, I) + log Σ_S p(S) ∏_t N(z_{t+1}; A_s z_t + b_s, Q_s)."""
        check_equal_steps(sites)
        theta = self.dynamics().natural()
        paths = wide(z).reshape(-1, *z.shape[-3:])
        later = torch.stack([over_states(theta, self.chain, each, sites) for each in paths])
        first = -0.5 * (paths[:, :, 0].square().sum(-1) + self.latents * linalg.LOG_2PI)
        return (first + later).reshape(z.shape[:-2]).to(z.dtype)

    # ---- learning ------------------------------------------------------------------------------

    def sums(self, posterior: Posterior, weights: Float[Tensor, "N"]) -> dict[str, Tensor]:
        """Expected counts of states and of their steps, and ⟨u⟩ of the latents by the state of a step."""
        assert isinstance(posterior, SwitchingPosterior)
        states = posterior.states
        counted = wide(weights)[:, None, None] * posterior.problem.there[..., None] * wide(states.mu[:, 1:])
        u = expected(posterior.of_latents).flatten(0, 1)
        seen = Counted.from_steps(counted.flatten(0, 1), u, self.latents)
        return {**seen._asdict(), **self.chain.sums(states, weights.to(states.potentials.dtype))}

    def update(self, sums: Mapping[str, Tensor], fraction: float) -> None:
        """A, b and Q of every state by regression on the latents there; transitions from their expected numbers."""
        self.regimes.update(sums, fraction)
        self.chain.update(sums, fraction)

    def parameter_kl(self) -> Float[Tensor, ""]:
        """Of the chain; dynamics are point estimates."""
        return self.chain.parameter_kl()

    # ---- as time goes by -----------------------------------------------------------------------

    def filtering(self) -> SwitchingFilter:
        """A normal for every state, step after step."""
        return SwitchingFilter(self._family, self.chain, self.dynamics())

    @torch.no_grad()
    def filter(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> SwitchingState:
        """Given the past and the present alone, at every site."""
        check_equal_steps(sites)
        known = torch.where(sites.exists[..., None], potentials, 0.0)
        stepping = self.filtering()
        state, found = stepping.begin(len(known)), []
        for now in known.unbind(1):
            state = stepping.heard(stepping.moved(state), now)
            found.append(SwitchingState(*state[:3]))
        return SwitchingState.stacked(found).to(potentials.dtype)

    @torch.no_grad()
    def predict(self, now: SwitchingState, steps: int) -> SwitchingState:
        """Forecasts 1 … `steps` steps after a time of which this is known."""
        stepping, found = self.filtering(), []
        state = stepping.continued(now)
        for _ in range(checks.integer("steps", steps, 1)):
            state = stepping.moved(state)
            found.append(SwitchingState(*state[:3]))
        return SwitchingState.stacked(found).to(now.means.dtype)
