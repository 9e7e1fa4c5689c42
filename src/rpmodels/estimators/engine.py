"""How a fit is computed when data or networks are large: one block of settings for every estimator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from rpmodels import checks, errors
from rpmodels.mixtures import FreshAtoms, Lender, OwnAtoms, RememberedAtoms
from rpmodels.recognition import Compiled, Computing, Mixed, Plain

LENDERS: dict[str, Callable[[int], Lender]] = {
    "own": lambda _: OwnAtoms(),
    "remembered": RememberedAtoms,
    "fresh": FreshAtoms,
}
PRECISIONS = ("full", "bfloat16")


@dataclass(frozen=True)
class Engine:
    """What `engine={…}` of an estimator may hold.

    Args:
        atoms: whose atoms F_j has in a training step: "own" (the batch's), "remembered" (and potentials from earlier
            steps), "fresh" (and further observations, recognised without gradients). What comes out of a fit always
            has the atoms of all data
        lent: how many observations lend theirs
        precision: of the networks: "full", or "bfloat16" for their products; everything after them is in full
        compile: whether networks are compiled by torch.compile
        workers: processes that read batches ahead of time

    """

    atoms: str = "own"
    lent: int = 1000
    precision: str = "full"
    compile: bool = False
    workers: int = 0

    def __post_init__(self) -> None:
        if self.atoms not in LENDERS:
            raise errors.bad_choice("engine: atoms", LENDERS, self.atoms)
        if self.precision not in PRECISIONS:
            raise errors.bad_choice("engine: precision", PRECISIONS, self.precision)
        checks.integer("engine: lent", self.lent, 1)
        checks.integer("engine: workers", self.workers, 0)

    @staticmethod
    def of(given: Mapping[str, Any] | None) -> "Engine":
        """From what the user gave, or all defaults."""
        if not isinstance(given, Mapping | None):
            raise errors.bad_value("engine", "a dict of settings, or None", repr(given))
        known = [field.name for field in fields(Engine)]
        for name in given or {}:
            if name not in known:
                raise errors.bad_choice("a setting of engine", known, name)
        return Engine(**(given or {}))

    def lender(self) -> Lender:
        """Whose atoms a step has."""
        return LENDERS[self.atoms](self.lent)

    def computing(self) -> Computing:
        """How networks are called."""
        inner = Compiled() if self.compile else Plain()
        return Mixed(inner) if self.precision == "bfloat16" else inner
