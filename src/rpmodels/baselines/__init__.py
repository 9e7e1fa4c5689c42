"""What the paper compares against: same networks, same loop."""

from rpmodels.baselines.gpfa import GPFA
from rpmodels.baselines.supervised import SupervisedNetwork

__all__ = ["GPFA", "SupervisedNetwork"]
