"""How a fit is computed when data or networks are large: one block of settings for every estimator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from rpmodels import checks, errors
from rpmodels.mixtures import ExtraAtoms, FreshAtoms, NoExtraAtoms, RememberedAtoms
from rpmodels.observations import Observations
from rpmodels.recognition import Compiled, Computing, Mixed, Plain

EXTRA: dict[str, Callable[[int], ExtraAtoms]] = {
    "own": lambda _: NoExtraAtoms(),
    "remembered": RememberedAtoms,
    "fresh": FreshAtoms,
}
AUTO = "auto"
FEW, MANY = 100, 250
"""Atoms of a batch from which on extra ones pay, and from which on they are not worth their cost."""
PRECISIONS = ("full", "bfloat16")


@dataclass(frozen=True)
class Engine:
    """What `engine={…}` of an estimator may hold.

    Args:
        atoms: whose atoms F_j has in a training step: "own" (the batch's), "remembered" (and potentials from earlier
            steps), "fresh" (and further observations, recognised without gradients); "auto" is fresh for batches of
            100 to 249 observations without time, else own. What comes out of a fit always has the atoms of all data
        lent: how many observations lend theirs
        precision: of the networks: "full", or "bfloat16" for their products; everything after them is in full
        compile: whether networks are compiled by torch.compile
        workers: processes that read batches ahead of time

    """

    atoms: str = AUTO
    lent: int = 1000
    precision: str = "full"
    compile: bool = False
    workers: int = 0

    def __post_init__(self) -> None:
        if self.atoms not in (AUTO, *EXTRA):
            raise errors.bad_choice("engine: atoms", (AUTO, *EXTRA), self.atoms)
        if self.precision not in PRECISIONS:
            raise errors.bad_choice("engine: precision", PRECISIONS, self.precision)
        checks.integer("engine: lent", self.lent, 1)
        checks.integer("engine: workers", self.workers, 0)

    @staticmethod
    def of(given: Any) -> "Engine":
        """From what the user gave, or all defaults."""
        if not isinstance(given, Mapping | None):
            raise errors.bad_value("engine", "a dict of settings, or None", repr(given))
        known = [field.name for field in fields(Engine)]
        for name in given or {}:
            if name not in known:
                raise errors.bad_choice("a setting of engine", known, name)
        return Engine(**(given or {}))

    def extra_atoms(self, batch_size: int | None, observations: Observations, empirical: bool) -> ExtraAtoms:
        """Atoms beside those of a step of so many observations; there are none where p₀ is not `empirical`."""
        if self.atoms != AUTO:
            return EXTRA[self.atoms](self.lent)
        some = batch_size is not None and FEW <= batch_size < min(MANY, len(observations))
        return FreshAtoms(self.lent) if some and empirical and observations.n_sites == 1 else NoExtraAtoms()

    def computing(self) -> Computing:
        """How networks are called."""
        inner = Compiled() if self.compile else Plain()
        return Mixed(inner) if self.precision == "bfloat16" else inner
