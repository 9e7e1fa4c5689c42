"""The page of a fitted model: how it learnt, what it found, and whether that can be trusted."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from rpmodels import plots
from rpmodels.errors import RPModelsError
from rpmodels.estimators import RPMEstimator, plain_data
from rpmodels.evaluation import between_factors, diagnose, overviews, shuffle_test
from rpmodels.evaluation.folds import n_trials, subset
from rpmodels.plots.fitted import populations
from rpmodels.report import html
from rpmodels.report.citing import bibtex
from rpmodels.report.contributions import contributions
from rpmodels.report.drawing import drawn
from rpmodels.report.latents_section import conditions_of, latents_section
from rpmodels.versions import versions

LOOKED_AT = 200
"""Observations that are shuffled: enough for a p-value, few enough to wait for."""
SHUFFLES = 39
FACTORS = 6
"""Mixtures that are drawn."""


def model_page(
    model: RPMEstimator,
    X: Any,
    title: str,
    *,
    conditions: Any = None,
    notes: Mapping[str, object] | None = None,
    **options: Any,
) -> str:
    """A page of `model` on data X.

    Args:
        model: fitted
        X: data, as `score` takes them
        title: of the page
        conditions: as in `plots.latents`; default the labels of a factor, where it has few for every trial
        notes: further facts for its head
        options: as in `score` (times, inputs, presence)

    """
    X, options = plain_data(model, X, options)
    new = model.score(X, **options)
    facts = {
        "model": type(model).__name__,
        "factors": ", ".join(model.model_.names),
        "observations": n_trials(X),
        "score here": f"{float(new):.4g} nats",
        "its ceiling": f"{new.ceiling:.4g} nats",
        "score of the fit": f"{float(model.score_):.4g} nats",
        **(notes or {}),
    }
    groups = conditions_of(model, X, conditions)
    return html.document(
        title,
        html.paragraph(in_a_sentence(model)) + html.facts(facts),
        html.section("What to know", *_sentences(model, X, options)),
        html.section("Latents", *latents_section(model, X, groups, options)),
        html.section("What each factor contributes", *contributions(model, X, options), *_tuning(model)),
        html.section("Do these data belong to those of the fit?", *_belonging(model, X, options)),
        html.section("Does it fit?", *_fit(model), *_calibration(model, X, options)),
        html.section("Do the factors share anything?", _shuffles(model, X, options)),
        html.section("Learning", *_learning(model)),
        html.section("How to cite", html.code(bibtex())),
        html.section("Parameters and versions", html.code(_record(model), "All of them")),
    )


def in_a_sentence(model: RPMEstimator) -> str:
    """What the model is, what it speaks of, and how much it learnt from."""
    about = model.description
    counted = about.latent.counted
    sizes = model.get_params(deep=False).get(about.size) if about.size else None
    many = f"{sizes} {counted if sizes != 1 else counted[:-1]}" if isinstance(sizes, int) else f"{counted}"
    factors = [_factor(name, spec) for name, spec in model.model_.specs.items()]
    listed = factors[0] if len(factors) == 1 else f"{', '.join(factors[:-1])} and {factors[-1]}"
    over = " over time" if about.in_time else ""
    what = "trials" if about.in_trials else "observations"
    number = f"{float(model.model_.n_observations):g}"
    arrived = "had converged" if model.converged_ else "had not converged"
    return (
        f"{type(model).__name__}: {many}{over} behind {listed}, from {number} {what}. "
        f"The fit {arrived} after {model.n_iter_} steps."
    )


def _factor(name: str, spec: Any) -> str:
    if spec.is_label:
        return f"{name} ({len(spec.vocabulary)} labels)"
    shape = " × ".join(map(str, spec.event_shape))
    return f"{name} ({shape or '1'} {'number' if shape in ('', '1') else 'numbers'})"


def _sentences(model: RPMEstimator, X: Any, options: Mapping[str, Any]) -> list[str]:
    found = diagnose(model, X, **options)
    nothing = (
        "Nothing amiss: no dead latent, silent factor, misfit, score at a limit, and no trial, factor, channel or time "
        "that does not belong."
    )
    said = [f"{each.name}: {each.text}" for each in found.findings] or [nothing]
    return [html.paragraph(text) for text in (*said, *(f"To know: {each.name}: {each.text}" for each in found.notes))]


def _belonging(model: RPMEstimator, X: Any, options: Mapping[str, Any]) -> list[str]:
    """Channels and trials of every factor beside those of the fit, the odd ones highlighted."""
    found = sorted(overviews(model, X, **options), key=lambda each: not (each.channels or each.trials))
    if not found:
        return [html.paragraph("This model has no profile of the data of its fit: its file is older.")]
    alt = "{} of factor {} beside those of the fit; what does not belong is red and has its number"
    return [
        drawn(partial(plots.belonging, each, of), alt.format(of.capitalize(), each.factor))
        for each in found[:FACTORS]
        for of in ("channels", "trials")
    ]


def _learning(model: RPMEstimator) -> list[str]:
    parts = [drawn(lambda: plots.learning_curve(model), "Free energy and its terms against the step")]
    if sum(bool(np.isfinite(each.free_energies).any()) for each in model.restarts_) > 1:
        parts.append(drawn(lambda: plots.restarts(model), "Free energies of all starts where they were compared"))
    return [*parts, drawn(lambda: plots.score_ceiling(model), "The score as a bar up to its ceiling")]


def _tuning(model: RPMEstimator) -> list[str]:
    alt = "What those channels of factor {} are expected to show that say most, each along its own projection"
    return [drawn(partial(plots.tuning, model, name), alt.format(name)) for name in populations(model)[:FACTORS]]


def _fit(model: RPMEstimator) -> list[str]:
    names = model.model_.names[:FACTORS]
    alt = "The average recognition factor of {}, against the prior: they agree where the model fits"
    return [drawn(partial(plots.mixture_against_prior, model, name), alt.format(name)) for name in names]


def _calibration(model: RPMEstimator, X: Any, options: Mapping[str, Any]) -> list[str]:
    """Error bars of one factor, judged by what all factors say."""
    if not model.description.latent.linear or not isinstance(X, Mapping) or len(X) < 2:
        return []
    parts = []
    for name in list(X)[:FACTORS]:
        alt = f"What all factors say, in the intervals that {name} alone gives; below the diagonal {name} is too sure"
        parts.append(drawn(partial(_calibrated, model, X, name, options), alt))
    return parts


def _calibrated(model: RPMEstimator, X: Any, factor: str, options: Mapping[str, Any]) -> Any:
    found = between_factors(model, X, factor, **options)
    return plots.calibration(found.mean, found.variance, found.all_factors)


def _shuffles(model: RPMEstimator, X: Any, options: Mapping[str, Any]) -> str:
    few = subset(X, np.arange(min(n_trials(X), LOOKED_AT))) if not options else X
    try:
        test = shuffle_test(model, few, n_shuffles=SHUFFLES, **options)
    except RPModelsError as failure:
        return html.paragraph(str(failure))
    text = f"p = {test.p_value:.3g} over {SHUFFLES} shuffles. On data of the fit itself it may be too small."
    return html.paragraph(text) + html.picture(
        plots.shuffle_null(test), "Scores of shuffled observations and of the true ones"
    )


def _record(model: RPMEstimator) -> str:
    parameters = {name: repr(value) for name, value in model.get_params(deep=False).items()}
    return json.dumps({"parameters": parameters, "versions": versions()}, indent=1, ensure_ascii=False)
