"""What most users touch: one small file per model."""

from rpmodels.estimators.angles import AnglePosterior
from rpmodels.estimators.base import RPMEstimator
from rpmodels.estimators.categorical import RPCategorical
from rpmodels.estimators.circular import RPCircular
from rpmodels.estimators.description import (
    Circle,
    Coordinates,
    Description,
    LatentKind,
    Latents,
    Proportions,
    SeveralStates,
    States,
)
from rpmodels.estimators.engine import Engine
from rpmodels.estimators.factor_analysis import RPFA
from rpmodels.estimators.gaussian_process import RPGPFA
from rpmodels.estimators.generative_side import Imputed
from rpmodels.estimators.graph import RPGraph
from rpmodels.estimators.groups import Inference, Recognition, Search, Training
from rpmodels.estimators.hidden_markov import RPHMM
from rpmodels.estimators.linear_dynamics import RPLDS
from rpmodels.estimators.posteriors import LatentMarginals, LatentPosterior
from rpmodels.estimators.registry import default_for, estimator_named, registered
from rpmodels.estimators.switching import RPSLDS
from rpmodels.estimators.switching_marginals import SwitchingMarginals
from rpmodels.estimators.topics import RPLDA
from rpmodels.estimators.trials import check_divisible, plain_data

load = RPMEstimator.load

__all__ = [
    "RPFA",
    "RPGPFA",
    "RPHMM",
    "RPLDA",
    "RPLDS",
    "RPSLDS",
    "AnglePosterior",
    "Circle",
    "Coordinates",
    "Description",
    "Engine",
    "Imputed",
    "Inference",
    "LatentKind",
    "LatentMarginals",
    "LatentPosterior",
    "Latents",
    "Proportions",
    "RPCategorical",
    "RPCircular",
    "RPGraph",
    "RPMEstimator",
    "Recognition",
    "Search",
    "SeveralStates",
    "States",
    "SwitchingMarginals",
    "Training",
    "check_divisible",
    "default_for",
    "estimator_named",
    "load",
    "plain_data",
    "registered",
]
