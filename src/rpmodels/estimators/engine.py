"""How a fit is computed: where, in which precision, and what helps when data or networks are large."""

from collections.abc import Callable
from typing import Any

import torch

from rpmodels import errors
from rpmodels.checks import Flag, Integer, Rule, Same, Word
from rpmodels.estimators.arguments import AUTO, Group, argument
from rpmodels.learning import RULES, device_of
from rpmodels.mixtures import ExtraAtoms, FreshAtoms, NoExtraAtoms, RememberedAtoms
from rpmodels.observations import Observations
from rpmodels.recognition import Compiled, Computing, Mixed, Plain

EXTRA: dict[str, Callable[[int], ExtraAtoms]] = {
    "own": lambda _: NoExtraAtoms(),
    "remembered": RememberedAtoms,
    "fresh": FreshAtoms,
}
FEW, MANY = 100, 250
"""Atoms of a batch from which on extra ones pay, and from which on they are not worth their cost."""
PRECISIONS = ("full", "bfloat16")


class Device(Rule):
    """A place to compute on that is there."""

    words = ("'auto'", "'cpu'", "another device of this machine")

    def fits(self, value: Any) -> bool:
        """Tried out."""
        if not isinstance(value, str | torch.device):
            return False
        try:
            device_of(value)
        except errors.RPModelsError:
            return False
        return True


class Engine(Group):
    """Where and how a fit is computed.

    `atoms` are those that F_j has in a training step: "own" (the batch's), "remembered" (and potentials from earlier
    steps), "fresh" (and further observations, recognised without gradients); "auto" is fresh for batches of 100 to 249
    observations without time, else own. What comes out of a fit always has the atoms of all data.
    """

    device: str | torch.device = argument(Device(), "auto is CUDA where there is one, else the CPU", default=AUTO)
    dtype: str | torch.dtype = argument(
        Word("float32", "float64") | Same(torch.float32, torch.float64), "of everything but times", default="float32"
    )
    atoms: str = argument(Word(AUTO, *EXTRA), "whose atoms F_j has in a training step, see above", default=AUTO)
    extra: int = argument(Integer(1), "of how many further observations a step has the atoms", default=1000)
    precision: str = argument(
        Word(*PRECISIONS), "of products in the networks; everything after them is in full", default="full"
    )
    compile: bool = argument(Flag(), "whether networks are compiled by torch.compile", default=False)
    workers: int = argument(RULES["workers"], "processes that read batches ahead of time", default=0)

    def extra_atoms(self, batch_size: int | None, observations: Observations, empirical: bool) -> ExtraAtoms:
        """Atoms beside those of a step of so many observations; there are none where p₀ is not `empirical`."""
        if self.atoms != AUTO:
            return EXTRA[self.atoms](self.extra)
        some = batch_size is not None and FEW <= batch_size < min(MANY, len(observations))
        return FreshAtoms(self.extra) if some and empirical and observations.n_sites == 1 else NoExtraAtoms()

    def computing(self) -> Computing:
        """How networks are called."""
        inner = Compiled() if self.compile else Plain()
        return Mixed(inner) if self.precision == "bfloat16" else inner
