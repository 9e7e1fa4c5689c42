"""Pictures of plots that need not go with every model."""

from collections.abc import Callable
from typing import Any

from rpmodels.errors import RPModelsError
from rpmodels.report import html


def drawn(draw: Callable[[], Any], alt: str) -> str:
    """A picture, or the sentence of a plot that does not go with this model."""
    try:
        return html.picture(draw(), alt, f"{alt}.")
    except RPModelsError as failure:
        return html.paragraph(str(failure))
