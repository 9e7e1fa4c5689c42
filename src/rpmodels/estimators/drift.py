"""What a verb does where data do not belong to those of the fit."""

import warnings
from typing import Any

from rpmodels import errors
from rpmodels.fitted import FittedRPM
from rpmodels.observations import Observations
from rpmodels.profile import departures

CHOICES = ("'warn'", "'raise'", "None")


def heed(model: FittedRPM, observations: Observations, on_drift: Any) -> None:
    """Compare data with those of the fit, and warn or refuse.

    Only at what the data show, not at what the model says of them, which takes longer (`evaluation.diagnose`).
    """
    if on_drift not in ("warn", "raise"):
        raise errors.bad_choice("on_drift", CHOICES, on_drift)
    if model.profile is None:
        raise errors.no_profile()
    said = [each.text for each in departures(model.profile, observations)]
    if said and on_drift == "raise":
        raise errors.drifted(said)
    if said:
        warnings.warn(errors.drifting(said), stacklevel=4)
