"""Φ and its gradient for very many small Gaussians: every number of all of them is an array of its own.

Tiny matrices by the hundred thousand take many times as long to factorise one by one. Latent after latent eliminated,
K of them are K³/6 multiplications of long arrays forwards and K³/3 more for the moments, whatever K is; all happens
in the arrays that are handed over.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import linalg


def arrays(latents: int) -> int:
    """How many arrays it takes: h, the lower triangle of Λ, and some beside them."""
    return latents + latents * (latents + 1) // 2 + max(1, latents - 1)


class Elimination:
    """exp(hᵀz − ½ zᵀΛz) of many Gaussians: Λ = LDLᵀ with ones on the diagonal of L, y = L⁻¹h.

    `first` and `lower[i][j]`, j ≤ i, are to be filled with h and Λ. They become y, D and L by `eliminate`, and m and
    S = Λ⁻¹ by `invert`.
    """

    def __init__(self, latents: int, places: Sequence[Float[Tensor, "*pairs"]]) -> None:
        rest = iter(places)
        self.first = [next(rest) for _ in range(latents)]
        self.lower = [[next(rest) for _ in range(i + 1)] for i in range(latents)]
        self._spare = list(rest)

    def eliminate(self) -> None:
        """From the first latent to the last."""
        y, lower, spare = self.first, self.lower, self._spare
        for k in range(len(y)):
            for i in reversed(range(k + 1, len(y))):  # rows above still need what Λ was
                share = torch.div(lower[i][k], lower[k][k], out=spare[0])
                y[i].addcmul_(share, y[k], value=-1.0)
                for j in range(k + 1, i + 1):
                    lower[i][j].addcmul_(share, lower[j][k], value=-1.0)
                lower[i][k], spare[0] = share, lower[i][k]

    def add_log_normaliser(self, terms: Float[Tensor, "*pairs"]) -> None:
        """terms += Σ_k ½ y²/D − ½ log D + ½ log 2π; what was eliminated is lost."""
        pivots = [row[-1] for row in self.lower]
        for y, pivot in zip(self.first, pivots, strict=True):
            terms.add_(y.square_().div_(pivot), alpha=0.5)
        for k in range(0, len(pivots), 2):  # one logarithm for two: of more the product might overflow
            both = pivots[k].mul_(pivots[k + 1]) if k + 1 < len(pivots) else pivots[k]
            terms.sub_(both.log_(), alpha=0.5)
        terms.add_(0.5 * len(pivots) * linalg.LOG_2PI)

    def invert(self) -> None:
        """m = L⁻ᵀD⁻¹y; S by columns, from the last: S_ij = −Σ_k S_ik L_kj and S_jj = 1/D_j − Σ_k L_kj S_kj, k > j."""
        m, S, spare = self.first, self.lower, self._spare
        for j in reversed(range(len(m))):
            m[j].mul_(S[j][j].reciprocal_())
            below = range(j + 1, len(m))
            for i in below:
                m[j].addcmul_(S[i][j], m[i], value=-1.0)
                column = torch.mul(S[i][j + 1], S[j + 1][j], out=spare[i - j - 1])
                for k in below[1:]:
                    column.addcmul_(S[max(i, k)][min(i, k)], S[k][j])
            for i in below:
                S[j][j].addcmul_(S[i][j], spare[i - j - 1])
            for i in below:
                S[i][j], spare[i - j - 1] = spare[i - j - 1].neg_(), S[i][j]
