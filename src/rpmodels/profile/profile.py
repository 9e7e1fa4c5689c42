"""What a fit saw, in a few numbers a channel."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rpmodels.profile.departure import Departure
from rpmodels.profile.emptiness import Emptiness
from rpmodels.profile.shown import Array, Scale, Shown
from rpmodels.profile.sketch import Sketch
from rpmodels.profile.statistics import STATISTICS, Statistic
from rpmodels.profile.wiring import Wiring

Asked = tuple[str, Statistic, Array, Sketch]
"""Of a factor: a statistic, what it is of new data (N, P), and what it was of the fit."""


@dataclass(frozen=True)
class FactorProfile:
    """Of one factor."""

    scale: Scale
    sketches: Mapping[str, Sketch]
    """By the class of the statistic."""
    emptiness: Emptiness


@dataclass(frozen=True)
class Profile:
    """Of the data of a fit."""

    factors: Mapping[str, FactorProfile]
    wirings: tuple[Wiring, ...]
    told: Mapping[str, Sketch]
    n_sites: int
    step: float
    """Between neighbouring times, as a rule; 0 where there is one site."""
    piece: int | None = None
    """Sites of the pieces that few long trials were cut into."""
    own: tuple[Departure, ...] = field(default=())
    """Trials of the fit itself that do not belong."""

    @property
    def sites_of_a_part(self) -> int:
        """T of what counts as a trial here."""
        return self.n_sites if self.piece is None else self.piece

    def values(self, shown: Mapping[str, Shown]) -> Iterator[Asked]:
        """What all statistics are of data, beside those of the fit, where it knew them at the same places."""
        for name, each in shown.items():
            for statistic in STATISTICS:
                sketch = self.factors[name].sketches.get(type(statistic).__name__)
                if sketch is None or (statistic.places == "bin" and each.n_sites != self.sites_of_a_part):
                    continue
                values = statistic.of(each)
                if values.shape[1] == len(sketch.mean):
                    yield name, statistic, values, sketch
