"""rpmodels: recognition-parametrised models (Walker, Soulat, Yu and Sahani, AISTATS 2023).

Probabilistic latent-variable models that learn what makes several observations depend on each other, with
neural recognition networks and no decoder.
"""

from typing import TYPE_CHECKING

from rpmodels import (
    callbacks,
    datasets,
    evaluation,
    families,
    inference,
    lazy,
    metrics,
    mixtures,
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
    Search,
    Training,
    load,
)
from rpmodels.learning import TimeLimit, train
from rpmodels.model import RPM
from rpmodels.observations import Observations, adapters, read
from rpmodels.versions import __version__, show_versions

if TYPE_CHECKING:
    from rpmodels import baselines, plots

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
    "RPCategorical",
    "RPModelsError",
    "RPModelsWarning",
    "Recognition",
    "Search",
    "TimeLimit",
    "Training",
    "__version__",
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
    "show_versions",
    "train",
]

# Imported when they are asked for: matplotlib takes its time, and the paper's baselines stand above everything.
__getattr__, __dir__ = lazy.attributes(__name__, modules=("baselines", "plots"))
