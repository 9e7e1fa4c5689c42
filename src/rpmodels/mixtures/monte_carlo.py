"""⟨log F_j⟩ by reparametrised samples from q (paper, "Reparametrised Monte-Carlo")."""

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import checks, errors
from rpmodels.carriers import NamedTensors
from rpmodels.families import Family, Reparametrised
from rpmodels.mixtures.approximation import ExpectedLogMixture, Kind, OfAtoms
from rpmodels.mixtures.mixture import AtomMixture


class MonteCarlo(OfAtoms[Reparametrised]):
    """Unbiased, from `samples` draws per site.

    Args:
        samples: draws per site
        fresh: new noise at every call, from torch's generator (which the training loop seeds step by step);
            otherwise one set of noise, the same for every site, so that equal data give equal numbers
        seed: of the fixed noise

    """

    def __init__(self, samples: int = 20, *, fresh: bool = True, seed: int = 0) -> None:
        self.samples = checks.integer("samples", samples, 1)
        self.fresh = fresh
        self.seed = seed

    @property
    def kind(self) -> Kind:
        """An estimate."""
        return Kind.ESTIMATE

    @property
    def numbers_per_pair(self) -> int:
        """One for every draw."""
        return self.samples

    def check(self, family: Family) -> None:
        """Needs differentiable draws."""
        if not isinstance(family, Reparametrised):
            raise errors.needs_reparametrisation("Monte Carlo", type(family).__name__)

    def for_new_data(self) -> ExpectedLogMixture:
        """The same number of samples, with fixed noise."""
        return MonteCarlo(self.samples, fresh=False, seed=self.seed)

    def __call__(
        self, eta_q: Float[Tensor, "N T D"], mixture: AtomMixture[Reparametrised], local: NamedTensors
    ) -> Float[Tensor, "N T"]:
        """The mean of log F/r over the draws."""
        return self.draws(eta_q, mixture).mean(-1)

    def draws(self, eta_q: Float[Tensor, "N T D"], mixture: AtomMixture[Reparametrised]) -> Float[Tensor, "N T Q"]:
        """log F/r at every draw."""
        noise = self._noise(eta_q, mixture.family.noise_size())
        z = mixture.family.reparametrise(eta_q[:, :, None], noise)
        return mixture.log_ratio(mixture.family.statistic(z))

    def _noise(self, like: Float[Tensor, "N T D"], size: int) -> Float[Tensor, "n s Q E"]:
        if self.fresh:
            return torch.randn(*like.shape[:2], self.samples, size, dtype=like.dtype, device=like.device)
        generator = torch.Generator().manual_seed(self.seed)
        noise = torch.randn(1, 1, self.samples, size, generator=generator, dtype=torch.float64)
        return noise.to(like).expand(*like.shape[:2], -1, -1)
