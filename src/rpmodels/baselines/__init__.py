"""What RPMs are compared with: linear GPFA, which evaluation fits too, and the paper's baselines when asked for."""

from typing import TYPE_CHECKING

from rpmodels import lazy
from rpmodels.linear import GPFA

if TYPE_CHECKING:
    from rpmodels.paper.baselines import (
        VQVAE,
        DeepCCA,
        GumbelVAE,
        GumbelVQVAE,
        InfoNCE,
        SparseGPVAE,
        SupervisedNetwork,
    )

__all__ = ["GPFA", "VQVAE", "DeepCCA", "GumbelVAE", "GumbelVQVAE", "InfoNCE", "SparseGPVAE", "SupervisedNetwork"]

# The paper's baselines stand above this room, and imports go one way.
_PAPER = [name for name in __all__ if name != "GPFA"]
__getattr__, __dir__ = lazy.attributes(__name__, names={"rpmodels.paper.baselines": _PAPER})
