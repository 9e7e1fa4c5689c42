"""The one failure that is scikit-learn's as well: apart, since every room imports errors and few need that package."""

from sklearn.exceptions import NotFittedError as _NotFitted

from rpmodels.errors.kinds import RPModelsError


class NotFittedError(RPModelsError, _NotFitted):  # type: ignore[misc]
    """A fitted model is needed."""


def not_fitted(what: str) -> NotFittedError:
    """Used before fit."""
    return NotFittedError(f"{what} is not fitted yet: call fit(X) (or rp.train) first.")
