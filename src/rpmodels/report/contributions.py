"""What each factor contributes: the latents that it finds alone, and those that are found without it."""

from collections.abc import Mapping
from typing import Any

from rpmodels.errors import RPModelsError
from rpmodels.estimators import Latents, RPMEstimator
from rpmodels.report import html

MOST = 8
"""Factors in the table."""
EXPLANATION = (
    "How near latents come to those from all factors, found from one factor alone and from all others: R² of "
    "coordinates, the share of equal states, or the mean cosine between angles. 1 is the same."
)


def contributions(model: RPMEstimator, X: Any, options: Mapping[str, Any]) -> list[str]:
    """A table of the factors that X has by name; a sentence where there is one only."""
    if not isinstance(X, Mapping) or len(X) < 2:
        return [html.paragraph("There is one factor here: all that is known of the latents comes from it.")]
    every = model.latents(X, **options)
    rows = []
    for name in list(X)[:MOST]:
        others = {other: each for other, each in X.items() if other != name}
        parts = ({name: X[name]}, others)
        rows.append((name, *(_agreement(model, each, every, options) for each in parts)))
    return [html.paragraph(EXPLANATION), html.table(("factor", "alone", "all others"), rows)]


def _agreement(model: RPMEstimator, part: Mapping[str, Any], every: Latents, options: Mapping[str, Any]) -> str:
    """As a number; a dash where these factors alone cannot be read (a trial has none of them, say)."""
    try:
        return f"{model.description.latent.agreement(model.latents(dict(part), **options), every):.2f}"
    except RPModelsError:
        return "–"
