"""The public names, for type checkers: at run time `rpmodels` hands them out when they are asked for."""

from rpmodels import (
    baselines,
    callbacks,
    datasets,
    evaluation,
    families,
    inference,
    metrics,
    mixtures,
    plots,
    presets,
    priors,
    recognition,
)
from rpmodels.errors import RPModelsError, RPModelsWarning
from rpmodels.estimators import (
    RPFA,
    RPGPFA,
    RPHMM,
    RPLDA,
    RPLDS,
    Engine,
    Inference,
    Recognition,
    RPCategorical,
    RPCircular,
    Search,
    Training,
    load,
)
from rpmodels.learning import TimeLimit
from rpmodels.learning.train import train  # not from the room, where mypy may take it for the module
from rpmodels.model import RPM
from rpmodels.observations import Observations, Population, adapters, read

__all__ = [
    "RPFA",
    "RPGPFA",
    "RPHMM",
    "RPLDA",
    "RPLDS",
    "RPM",
    "Engine",
    "Inference",
    "Observations",
    "Population",
    "RPCategorical",
    "RPCircular",
    "RPModelsError",
    "RPModelsWarning",
    "Recognition",
    "Search",
    "TimeLimit",
    "Training",
    "adapters",
    "baselines",
    "callbacks",
    "datasets",
    "evaluation",
    "families",
    "inference",
    "load",
    "metrics",
    "mixtures",
    "plots",
    "presets",
    "priors",
    "read",
    "recognition",
    "train",
]
