"""Do data belong to those of the fit? Which trials, factors, channels and times do not."""

from typing import Any

from rpmodels.estimators import RPMEstimator, plain_data
from rpmodels.evaluation.findings import Finding
from rpmodels.profile import Overview, departures
from rpmodels.profile import overviews as overviews_of
from rpmodels.told import told_of

IN_THE_FIT = "in the fit"
"""The name of what does not belong in the data of the fit itself."""


def belonging(model: RPMEstimator, X: Any, **options: Any) -> list[Finding]:
    """Trials, factors, channels and times of data that do not belong to those of the fit, and trials of that itself."""
    X, options = plain_data(model, X, options)
    rpm = model.model_
    if rpm.profile is None:
        return []
    observations = model.apart(X, **options)
    found = departures(rpm.profile, observations, told_of(rpm, observations))
    own = [Finding(IN_THE_FIT, f"{each.name}: {each.text}", each) for each in rpm.profile.own]
    return [*(Finding(each.name, each.text, each) for each in found), *own]


def overviews(model: RPMEstimator, X: Any, **options: Any) -> list[Overview]:
    """Where channels and trials of these data are beside those of the fit, factor by factor: for `plots.belonging`."""
    X, options = plain_data(model, X, options)
    rpm = model.model_
    if rpm.profile is None:
        return []
    found = departures(rpm.profile, model.apart(X, **options))
    return overviews_of(rpm.profile, model.apart(X, **options), found)
