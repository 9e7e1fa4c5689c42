"""Learning: one loop, its consumers, and the tournament of starts."""

from rpmodels.learning.batches import Minibatches
from rpmodels.learning.clusters import KMeans, Mixture, Spectra
from rpmodels.learning.consumers import TimeLimit
from rpmodels.learning.contenders import Attempt, Plan
from rpmodels.learning.devices import device_of, dtype_of
from rpmodels.learning.field import Context
from rpmodels.learning.finish import Finish, NoFinish, QuasiNewton
from rpmodels.learning.loop import Objective, State, steps
from rpmodels.learning.moves import Move, SplitMerge
from rpmodels.learning.objective import RPMObjective
from rpmodels.learning.run import Run
from rpmodels.learning.settings import RULES, Strong, TrainingSettings
from rpmodels.learning.site_moves import SplitMergeSites
from rpmodels.learning.starts import (
    AsGiven,
    GivenStart,
    LongStart,
    RandomStart,
    SharedStart,
    SmoothStart,
    Start,
    StatesStart,
)
from rpmodels.learning.tournament import tournament
from rpmodels.learning.train import train

__all__ = [
    "RULES",
    "AsGiven",
    "Attempt",
    "Context",
    "Finish",
    "GivenStart",
    "KMeans",
    "LongStart",
    "Minibatches",
    "Mixture",
    "Move",
    "NoFinish",
    "Objective",
    "Plan",
    "QuasiNewton",
    "RPMObjective",
    "RandomStart",
    "Run",
    "SharedStart",
    "SmoothStart",
    "Spectra",
    "SplitMerge",
    "SplitMergeSites",
    "Start",
    "State",
    "StatesStart",
    "Strong",
    "TimeLimit",
    "TrainingSettings",
    "device_of",
    "dtype_of",
    "steps",
    "tournament",
    "train",
]
