"""A series as it arrives: as many rows as a trial of the fit has are one, and are asked what trials are asked."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from rpmodels.profile.asking import CHANCE, off_average
from rpmodels.profile.departure import Departure
from rpmodels.profile.emptiness import NATS
from rpmodels.profile.profile import Asked, Profile
from rpmodels.profile.shown import Shown, shown_rows
from rpmodels.profile.statistics import Beyond, Mean, Missing, Still
from rpmodels.profile.trials import nothing_words

ASKED = (Mean, Beyond, Missing, Still)
"""What makes sense of a row, whatever was before it."""
MEMORIES = (8, 32)
"""So many trials' worths of rows are averaged, whenever these have come anew; whether there is nothing, one by one."""


class Watch:
    """The memory of one series.

    A stream has no end, and nobody wants an alarm for every thousand questions: the k-th time of asking has
    1 / k(k + 1) of the chance of an alarm, all of which add up to one.
    """

    def __init__(self, profile: Profile, share: float = 1.0) -> None:
        """`share`: of the chance of an alarm, where several series are watched."""
        self._profile, self._share = profile, share
        self.length = profile.sites_of_a_part
        sizes = {name: len(each.scale.offset) for name, each in profile.factors.items()}
        self._rows = {name: np.full((self.length, size), np.nan) for name, size in sizes.items()}
        self._seen = {name: np.zeros(size, bool) for name, size in sizes.items()}
        self._filled = self._times_asked = self._trials = 0
        self._past: list[list[Asked]] = []
        self._known: dict[int, set[tuple[str, str | None]]] = {}

    def add(self, row: Mapping[str, Float[np.ndarray, "C"]]) -> list[Departure]:
        """The next row, NaN where something is missing; what does not belong, each once for as long as it does not."""
        for name, rows in self._rows.items():
            rows[self._filled] = row.get(name, np.nan)
            self._seen[name] |= ~np.isnan(rows[self._filled])
        self._filled = (self._filled + 1) % self.length
        return [] if self._filled else self._full()

    def _full(self) -> list[Departure]:
        """One more trial is there."""
        scales = {name: each.scale for name, each in self._profile.factors.items()}
        shown = {name: shown_rows(rows, scales[name], self._seen[name]) for name, rows in self._rows.items()}
        self._past.append([each for each in self._profile.values(shown) if type(each[1]) in ASKED])
        del self._past[: -MEMORIES[-1]]
        self._trials += 1
        found = self._news(1, self._of_emptiness(shown))
        for memory in MEMORIES:
            if self._trials % memory == 0:
                found += self._news(memory, self._of_averages(memory, shown))
        return found

    def _of_emptiness(self, shown: Mapping[str, Shown]) -> list[Departure]:
        """Factors that show nothing in the last trial, asked as often as there were trials."""
        found, nats = [], NATS + math.log(self._trials * (self._trials + 1) / self._share)
        for name, each in shown.items():
            if self._profile.factors[name].emptiness.empty(each, nats).any():
                text = f"factor '{name}' shows nothing at all: {nothing_words(each)}."
                found.append(Departure("empty times", text, name, z=math.inf))
        return self._told_of(1, found)

    def _of_averages(self, memory: int, shown: Mapping[str, Shown]) -> list[Departure]:
        """What is off in the last so many trials."""
        self._times_asked += 1
        alarm = CHANCE * self._share / (self._times_asked * (self._times_asked + 1))
        parts = zip(*self._past[-memory:], strict=True)
        asked = [(each[0][0], each[0][1], np.concatenate([part[2] for part in each]), each[0][3]) for each in parts]
        return self._told_of(memory, off_average(asked, shown, alarm, in_order=True))

    def _told_of(self, memory: int, found: list[Departure]) -> list[Departure]:
        return [replace(each, text=f"in the last {memory * self.length} rows {each.text}") for each in found]

    def _news(self, memory: int, found: list[Departure]) -> list[Departure]:
        """Without what was said before, and has not been right again since."""
        known = set().union(*self._known.values())
        self._known[memory] = {(each.name, each.factor) for each in found}
        return [each for each in found if (each.name, each.factor) not in known]
