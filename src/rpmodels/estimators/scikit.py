"""scikit-learn's base classes, with types: it has none, and without them type checkers see no unknown argument."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

Verb = TypeVar("Verb", bound=Callable[..., Any])

if TYPE_CHECKING:
    from sklearn.utils import Tags

    class BaseEstimator:
        """Arguments by name."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Of the constructor; with `deep` those of its parts as well."""

        def set_params(self, **params: Any) -> Self:
            """Change some of them."""

        def __sklearn_tags__(self) -> Tags:
            """What other programs may expect."""

        def __repr__(self, N_CHAR_MAX: int = 700) -> str: ...

    class TransformerMixin:
        """fit_transform and set_output."""

        def set_output(self, *, transform: Any = None) -> Self:
            """Data frames instead of arrays."""

    def available_if(check: Callable[[Any], bool]) -> Callable[[Verb], Verb]:
        """A verb of the estimators of which this is true."""

else:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils.metaestimators import available_if

__all__ = ["BaseEstimator", "TransformerMixin", "available_if"]
