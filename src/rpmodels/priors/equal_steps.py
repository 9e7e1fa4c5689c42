"""Times at equal steps, which dynamics in discrete time ask for."""

import torch

from rpmodels import errors
from rpmodels.carriers import Sites

UNEVEN = 0.01
"""How far a step between two times may be from the trial's mean step, relative to it."""


def check_equal_steps(sites: Sites) -> None:
    """Refuse times that are not equally spaced within a trial, in whatever unit they are."""
    steps = torch.where(sites.exists[:, 1:] & sites.exists[:, :-1], sites.times.diff(dim=1), torch.nan)
    mean = steps.nanmean(1, keepdim=True)
    uneven = ((steps - mean).abs() > UNEVEN * mean).any(1) | (mean[:, 0] <= 0)
    if bool(uneven.any()):
        trial = int(uneven.nonzero()[0])
        known = steps[trial][~steps[trial].isnan()]
        got = f"steps between {known.min():g} and {known.max():g} in trial {trial} of the batch"
        expected = "equally spaced, increasing times in every trial (or choose a Gaussian-process prior)"
        raise errors.bad_value("times under linear dynamics", expected, got)
