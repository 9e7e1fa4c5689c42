"""Parameters that belong to single training observations, where an E-step or an approximation wants some."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxtyping import Int
from torch import Tensor, nn

from rpmodels.carriers import NamedTensors


@dataclass(frozen=True)
class LocalParameters:
    """Parameters that belong to single observations (free potentials, free auxiliaries): whose they are, by name."""

    e_step: NamedTensors = field(default_factory=dict)
    factors: Mapping[str, NamedTensors] = field(default_factory=dict)

    def of(self, factor: str) -> NamedTensors:
        """Those of one factor's ⟨log F⟩."""
        return self.factors.get(factor, {})


class LocalTable(nn.Module):
    """The local parameters of all training observations, one row each; new data have none.

    Rows may be as long as the longest trial; a batch of shorter ones gets them cut to its sites.
    """

    def __init__(self, start: LocalParameters | None = None) -> None:
        super().__init__()
        given = start or LocalParameters()
        own = [((None, name), tensor) for name, tensor in given.e_step.items()]
        theirs = [((factor, name), each) for factor, named in given.factors.items() for name, each in named.items()]
        self._keys: tuple[tuple[str | None, str], ...] = tuple(key for key, _ in (*own, *theirs))
        self._columns = nn.ParameterList([nn.Parameter(each.detach().clone()) for _, each in (*own, *theirs)])

    def take(self, index: Int[Tensor, "N"]) -> LocalParameters:
        """The parameters of these observations."""
        e_step: dict[str, Tensor] = {}
        factors: dict[str, dict[str, Tensor]] = {}
        for (factor, name), column in zip(self._keys, self._columns, strict=True):
            owner = e_step if factor is None else factors.setdefault(factor, {})
            owner[name] = column[index]
        return LocalParameters(e_step, factors)

    def subset(self, index: Int[Tensor, "n"]) -> "LocalTable":
        """A table of some of the observations."""
        return LocalTable(self.take(index.to(self._columns[0].device) if self._keys else index))

    def fits(self, observations: int) -> bool:
        """Whether these are the parameters of so many observations (or there are none at all)."""
        return all(len(each) == observations for each in self._columns)
