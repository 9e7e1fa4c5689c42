"""Learning: one loop, its consumers, and the tournament of starts."""

from rpmodels.learning.batches import Minibatches
from rpmodels.learning.closing import closing_score
from rpmodels.learning.consumers import TimeLimit
from rpmodels.learning.contenders import Attempt, Plan
from rpmodels.learning.devices import device_of, dtype_of
from rpmodels.learning.loop import Objective, State, steps
from rpmodels.learning.moves import Move, SplitMerge
from rpmodels.learning.objective import RPMObjective
from rpmodels.learning.run import Run
from rpmodels.learning.settings import RULES, TrainingSettings
from rpmodels.learning.site_moves import SplitMergeSites
from rpmodels.learning.starts import AsGiven, KMeansStart, LongStart, RandomStart, SpectralStart, Start
from rpmodels.learning.tournament import Context, tournament
from rpmodels.learning.train import train

__all__ = [
    "RULES",
    "AsGiven",
    "Attempt",
    "Context",
    "KMeansStart",
    "LongStart",
    "Minibatches",
    "Move",
    "Objective",
    "Plan",
    "RPMObjective",
    "RandomStart",
    "Run",
    "SpectralStart",
    "SplitMerge",
    "SplitMergeSites",
    "Start",
    "State",
    "TimeLimit",
    "TrainingSettings",
    "closing_score",
    "device_of",
    "dtype_of",
    "steps",
    "tournament",
    "train",
]
