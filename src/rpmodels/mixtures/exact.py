"""⟨log F_j⟩ by summing over the states: discrete latents need no approximation."""

from jaxtyping import Float
from torch import Tensor

from rpmodels import errors
from rpmodels.carriers import NamedTensors
from rpmodels.families import Family, FiniteSupport
from rpmodels.mixtures.approximation import ExpectedLogMixture, Kind
from rpmodels.mixtures.mixture import AtomMixture
from rpmodels.mixtures.table import TableMixture, tabulate


class Exact(ExpectedLogMixture[TableMixture]):
    """Σ_k q(k) log F_j(k)/r(k), for families of finite support."""

    @property
    def kind(self) -> Kind:
        """Exact."""
        return Kind.EXACT

    @property
    def numbers_per_pair(self) -> int:
        """None: sites read a table."""
        return 0

    def check(self, family: Family) -> None:
        """The latent must take finitely many values."""
        if not isinstance(family, FiniteSupport):
            raise errors.needs_finite_support("the exact ⟨log F⟩", type(family).__name__)

    def summarise(self, atoms: AtomMixture[FiniteSupport]) -> TableMixture:
        """A table of K numbers."""
        return tabulate(atoms)

    def __call__(
        self, eta_q: Float[Tensor, "N T D"], mixture: TableMixture, local: NamedTensors
    ) -> Float[Tensor, "N T"]:
        """Σ_k q(k) log F_j(k)/r(k)."""
        probabilities = mixture.family.log_probabilities(eta_q).exp()
        return (probabilities * mixture.log_ratio()).sum(-1)
