"""The second-order approximation (6–7), (A2–A8): log F_j expanded in t(z) around μ_q.

⟨log F/r⟩ ≈ log Σ_m w_m exp(g_m·μ_q − Φ(η₀+g_m) + Φ(η₀)) + ½ tr(V_q Cov_π(g)), with π the softmax of the
same terms (7). V_q is used through the family's root only, u·u′ = gᵀ V_q g′, so no K²×K² matrix is built:
the trace is Σ_m π_m ‖u_m‖² − ‖Σ_m π_m u_m‖².
"""

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import errors
from rpmodels.carriers import NamedTensors
from rpmodels.families import Family, HasStatisticCovariance
from rpmodels.mixtures.approximation import Kind, OfAtoms
from rpmodels.mixtures.mixture import AtomMixture


class SecondOrder(OfAtoms[HasStatisticCovariance]):
    """Right as q narrows; neither bound nor exact."""

    @property
    def kind(self) -> Kind:
        """An estimate: the free energy may exceed the likelihood."""
        return Kind.ESTIMATE

    def check(self, family: Family) -> None:
        """Needs V_q."""
        if not isinstance(family, HasStatisticCovariance):
            raise errors.needs_statistic_covariance("the second-order approximation", type(family).__name__)

    def __call__(
        self, eta_q: Float[Tensor, "N T D"], mixture: AtomMixture[HasStatisticCovariance], local: NamedTensors
    ) -> Float[Tensor, "N T"]:
        """(6) with r in place of the constants."""
        family = mixture.family
        mu_q = family.mean(eta_q)
        # A potential common to all atoms changes nothing; with their mean gone, float32 has little left to cancel.
        centre = _centre(mu_q.detach(), mixture.detached())[:, :, None]

        def pairs(g: Tensor, log_weight: Tensor) -> tuple[Tensor, Tensor]:
            u = family.covariance_root(eta_q[:, :, None], g - centre)
            return _terms(mu_q, g, log_weight), torch.cat([u, u.square().sum(-1, keepdim=True)], -1)

        first, averages = mixture.log_mean_and_averages(pairs, 2 * eta_q.numel())
        trace = averages[..., -1] - averages[..., :-1].square().sum(-1)
        return first + 0.5 * trace


def _terms(
    mu_q: Float[Tensor, "N T D"], g: Float[Tensor, "n s a D"], log_weight: Float[Tensor, "n s a"]
) -> Float[Tensor, "N T a"]:
    return (mu_q[:, :, None] @ g.mT)[:, :, 0] + log_weight


@torch.no_grad()
def _centre(mu_q: Float[Tensor, "N T D"], mixture: AtomMixture) -> Float[Tensor, "N T D"]:
    """Σ_m π_m g_m at every site."""
    _, centre = mixture.log_mean_and_averages(lambda g, weight: (_terms(mu_q, g, weight), g), mu_q.numel())
    return centre
