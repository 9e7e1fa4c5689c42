"""What the paper compares against: same networks, same loop."""

from rpmodels.baselines.supervised import SupervisedNetwork

__all__ = ["SupervisedNetwork"]
