"""What most users touch: one small file per model."""

from rpmodels.estimators.base import RPMEstimator
from rpmodels.estimators.categorical import RPCategorical

__all__ = ["RPCategorical", "RPMEstimator"]
