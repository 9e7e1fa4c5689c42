"""What verbs and streams do where data do not belong to those of the fit."""

import warnings
from collections.abc import Mapping
from typing import Any

from rpmodels import errors
from rpmodels.fitted import FittedRPM
from rpmodels.observations import Observations, Row
from rpmodels.profile import Profile, Watch, departures, raw_of

CHOICES = ("'warn'", "'raise'", "None")


def heed(model: FittedRPM, observations: Observations, on_drift: Any) -> None:
    """Compare data with those of the fit, and warn or refuse.

    Only at what the data show, not at what the model says of them, which takes longer (`evaluation.diagnose`).
    """
    said = [each.text for each in departures(_profile_for(model, on_drift), observations)]
    _say(said, on_drift, stacklevel=5)


class Heeding:
    """The same of some series as they arrive, by a memory of the last rows of each."""

    def __init__(self, model: FittedRPM, n_series: int, on_drift: Any) -> None:
        profile = _profile_for(model, on_drift)
        self._specs, self._on_drift = model.specs, on_drift
        self._forms = {name: each.scale.form for name, each in profile.factors.items()}
        self._watches = [Watch(profile, 1.0 / n_series) for _ in range(n_series)]

    def __call__(self, rows: Mapping[str, Row]) -> None:
        """At the next time; a factor that shows nothing there need not be named."""
        raw = {
            name: raw_of(self._specs[name], *rows[name], form)[:, 0]
            for name, form in self._forms.items()
            if name in rows
        }
        said = []
        for number, watch in enumerate(self._watches):
            found = watch.add({name: each[number] for name, each in raw.items()})
            one = f"series {number}, " if len(self._watches) > 1 else ""
            said += [one + each.text for each in found]
        _say(said, self._on_drift, stacklevel=5)


def _profile_for(model: FittedRPM, on_drift: Any) -> Profile:
    if on_drift not in ("warn", "raise"):
        raise errors.bad_choice("on_drift", CHOICES, on_drift)
    profile: Profile | None = model.profile
    if profile is None:
        raise errors.no_profile()
    return profile


def _say(said: list[str], on_drift: str, stacklevel: int) -> None:
    if said and on_drift == "raise":
        raise errors.drifted(said)
    if said:
        warnings.warn(errors.drifting(said), stacklevel=stacklevel)
