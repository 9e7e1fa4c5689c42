"""What a fitted model keeps of F_j: natural parameters of atoms and what they weigh."""

from torch import Tensor, nn

from rpmodels.carriers import Curves
from rpmodels.mixtures.mixture import AtomMixture, Mixture
from rpmodels.mixtures.population import restored


class StoredAtoms(nn.Module):
    """The atoms of one F_j, with the reference they are relative to; a population has its reference alone."""

    reference: Tensor
    g: Tensor
    log_count: Tensor

    def __init__(self, mixture: Mixture) -> None:
        super().__init__()
        self.family = mixture.family
        nothing = mixture.reference[:, None][:, :0]
        g, log_count = (
            (mixture.g, mixture.log_count) if isinstance(mixture, AtomMixture) else (nothing, nothing[..., 0])
        )
        # Contiguous: from a file they come so, and sums in another order would round otherwise.
        self.register_buffer("reference", mixture.reference.detach().contiguous())
        self.register_buffer("g", g.detach().contiguous())
        self.register_buffer("log_count", log_count.detach().contiguous())

    def mixture(self, shared: bool, drawn: bool, curves: Curves | None, is_generative: bool) -> Mixture:
        """F_j again."""
        atoms = AtomMixture(self.family, self.reference, shared, self.g, self.log_count, drawn=drawn)
        return restored(atoms, curves, is_generative)
