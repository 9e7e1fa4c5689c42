"""What most users touch: one small file per model."""

from rpmodels.estimators.base import RPMEstimator
from rpmodels.estimators.categorical import RPCategorical
from rpmodels.estimators.continuous import LatentPosterior
from rpmodels.estimators.engine import Engine
from rpmodels.estimators.factor_analysis import RPFA
from rpmodels.estimators.gaussian_process import RPGPFA
from rpmodels.estimators.groups import Inference, Recognition, Search, Training
from rpmodels.estimators.hidden_markov import RPHMM
from rpmodels.estimators.linear_dynamics import RPLDS
from rpmodels.estimators.marginals import LatentMarginals
from rpmodels.estimators.topics import RPLDA

load = RPMEstimator.load

__all__ = [
    "RPFA",
    "RPGPFA",
    "RPHMM",
    "RPLDA",
    "RPLDS",
    "Engine",
    "Inference",
    "LatentMarginals",
    "LatentPosterior",
    "RPCategorical",
    "RPMEstimator",
    "Recognition",
    "Search",
    "Training",
    "load",
]
