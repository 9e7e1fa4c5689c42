"""Latents on the page of a model: one observation, all of them by condition, and in space where there are three."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from rpmodels import plots
from rpmodels.estimators import RPMEstimator
from rpmodels.plots.averages import average
from rpmodels.plots.canvas import ink
from rpmodels.plots.conditions import GROUPS, Conditions, read_conditions
from rpmodels.plots.found import Found, found_latents
from rpmodels.report import widgets
from rpmodels.report.drawing import drawn

SHOWN = 3
"""Latents, at most, that are drawn against time."""
TRIALS = 20
"""Of a condition, at most, in space."""
TIMES = 80
"""Of a path there, at most."""


def conditions_of(model: RPMEstimator, X: Any, conditions: Any) -> Any:
    """Those that were given, else a factor of labels that has one for every trial and few of them."""
    if conditions is not None or not isinstance(X, Mapping):
        return conditions
    for name, spec in model.model_.specs.items():
        values = X.get(name)
        if spec.is_label and values is not None and not any(np.ndim(each) for each in values):
            kinds = {each for each in np.asarray(values, object).tolist() if each is not None and each == each}  # noqa: PLR0124
            if 1 < len(kinds) <= GROUPS:
                return values
    return None


def latents_section(model: RPMEstimator, X: Any, conditions: Any, options: Mapping[str, Any]) -> list[str]:
    """All observations, something to turn, then one of them."""
    shown = model.latents(X, **options)
    found = found_latents("model_page", shown, None, None, {})
    groups = read_conditions(conditions, len(found), X)
    named = {"X": X, "conditions": conditions} if conditions is not None else {}
    by = partial(plots.latents, shown, **named)
    parts = [drawn(partial(by, dimensions=each), text) for each, text in _views(found, conditions is not None)]
    if found.shares and found.times is not None:
        text = "The most probable state of every trial" + ", trials by condition" * (conditions is not None)
        parts.append(drawn(lambda: plots.states(shown, **named), text))
    if len(found.names) > 2 and not found.shares and groups.scale is None:
        parts.append(_in_space(found, groups))
    alt = "Recognition factors of the first observation, and the posterior from all of them"
    parts.append(drawn(lambda: plots.factors_and_posterior(model, X, **options), alt))
    if found.spread is not None and found.times is not None:
        alt = "Posterior means of the first trial over time, with bands of two standard deviations"
        parts.append(drawn(lambda: plots.trajectories(shown), alt))
    return parts


def _views(found: Found, several: bool) -> list[tuple[Any, str]]:
    """Which dimensions are drawn, and what that shows."""
    what = "by condition" if several else "of all trials"
    if found.shares:
        return [(None, f"Probabilities {what}, with bands of ± standard error")]
    pairs: list[tuple[Any, str]] = []
    if found.times is not None:
        alt = "{} {}: trials, and averages ± standard error"
        pairs += [(k, alt.format(name.capitalize(), what)) for k, name in enumerate(found.names[:SHOWN])]
    if len(found.names) > 1:
        pairs.append(((0, 1), f"{found.names[0].capitalize()} against {found.names[1]}, {what}"))
    return pairs


def _in_space(found: Found, groups: Conditions) -> str:
    """The first three latents: trials (some of them, where there are many) and averages."""
    paths = []
    for number, members in enumerate(groups.members):
        few = _thinned(members, TRIALS)
        paths += [widgets.SpacePath(number, _thinned(found.values[n][:, :3], TIMES), False) for n in few]
        if len(members):
            middle = average(found, members, "none").mean[:, :3]
            paths.append(widgets.SpacePath(number, _thinned(middle[np.isfinite(middle).all(1)], TIMES), True))
    names = ["all trials" if name == "" else str(name) for name in groups.names]
    colours = [ink(number) for number in range(len(names))]
    alt = f"{', '.join(found.names[:2])} and {found.names[2]} in space; drag it, or move the sliders, to turn it"
    return widgets.space(alt, found.names[:3], list(zip(names, colours, strict=True)), paths)


def _thinned(rows: Any, most: int) -> Any:
    """Not more than anybody could see, evenly."""
    return rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(int)] if len(rows) else rows
