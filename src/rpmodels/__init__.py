"""rpmodels: recognition-parametrised models (Walker, Soulat, Yu and Sahani, AISTATS 2023).

Probabilistic latent-variable models that learn what makes several observations depend on each other, with
neural recognition networks and no decoder.
"""

from typing import TYPE_CHECKING

from rpmodels import lazy
from rpmodels.versions import __version__, show_versions

if TYPE_CHECKING:
    from rpmodels.public import *

__all__ = [
    "RPFA",
    "RPGPFA",
    "RPHMM",
    "RPLDA",
    "RPLDS",
    "RPM",
    "RPSLDS",
    "Engine",
    "Generative",
    "Inference",
    "Observations",
    "Pinned",
    "Population",
    "RPCategorical",
    "RPCircular",
    "RPGraph",
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

# Everything is imported when it is asked for (benchmarks/imports.py): the rooms, and the names of this table, which
# type checkers read in `public`. tests/test_import.py holds the lists together.
_ROOMS = (
    "baselines", "callbacks", "carriers", "datasets", "errors", "estimators", "evaluation", "families", "fitted",
    "free_energy", "generative", "inference", "integration", "learning", "linalg", "log_weight", "metrics", "mixtures",
    "model", "observations", "persistence", "plots", "presets", "priors", "recognition", "seeding", "step",
)  # fmt: skip
_NAMES = {
    "rpmodels.errors": ("RPModelsError", "RPModelsWarning"),
    "rpmodels.estimators": (
        "RPFA", "RPGPFA", "RPHMM", "RPLDA", "RPLDS", "RPSLDS", "Engine", "Inference", "Recognition",
        "RPCategorical", "RPCircular", "RPGraph", "Search", "Training", "load",
    ),
    "rpmodels.learning": ("TimeLimit", "train"),
    "rpmodels.model": ("RPM",),
    "rpmodels.observations": ("Generative", "Observations", "Pinned", "Population", "adapters", "read"),
}  # fmt: skip
__getattr__, __dir__ = lazy.attributes(__name__, modules=_ROOMS, names=_NAMES)
