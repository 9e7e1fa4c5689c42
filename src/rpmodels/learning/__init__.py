"""Learning: one loop, its consumers, restarts."""

from rpmodels.learning.batches import Minibatches
from rpmodels.learning.consumers import TimeLimit
from rpmodels.learning.contenders import Attempt
from rpmodels.learning.devices import device_of, dtype_of
from rpmodels.learning.loop import Objective, State, steps
from rpmodels.learning.moves import Move, SplitMerge
from rpmodels.learning.restarts import best_of
from rpmodels.learning.site_moves import SplitMergeSites
from rpmodels.learning.starts import AsGiven, KMeansStart, LongStart, RandomStart, SpectralStart, Start
from rpmodels.learning.train import RULES, Run, Training, train

__all__ = [
    "RULES",
    "AsGiven",
    "Attempt",
    "KMeansStart",
    "LongStart",
    "Minibatches",
    "Move",
    "Objective",
    "RandomStart",
    "Run",
    "SpectralStart",
    "SplitMerge",
    "SplitMergeSites",
    "Start",
    "State",
    "TimeLimit",
    "Training",
    "best_of",
    "device_of",
    "dtype_of",
    "steps",
    "train",
]
