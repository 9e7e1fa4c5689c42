"""What the user handed in: named factors, trials, times, presence, scaling; checked once, here."""

from rpmodels.observations import adapters
from rpmodels.observations.observations import FactorSpec, Observations
from rpmodels.observations.patches import cut_patches
from rpmodels.observations.population import FEWEST, SAID_OF_FACTORS, Generative, Pinned, Population, are_counts
from rpmodels.observations.reading import read
from rpmodels.observations.rows import Row, read_rows
from rpmodels.observations.scaling import NAMES as SCALING_NAMES
from rpmodels.observations.scaling import Scaling, ScalingName, Unscaled, fit_scaling, suggested_scaling
from rpmodels.observations.stored import Stored
from rpmodels.observations.trials import recording_on_one_clock
from rpmodels.observations.windows import windowed

__all__ = [
    "FEWEST",
    "SAID_OF_FACTORS",
    "SCALING_NAMES",
    "FactorSpec",
    "Generative",
    "Observations",
    "Pinned",
    "Population",
    "Row",
    "Scaling",
    "ScalingName",
    "Stored",
    "Unscaled",
    "adapters",
    "are_counts",
    "cut_patches",
    "fit_scaling",
    "read",
    "read_rows",
    "recording_on_one_clock",
    "suggested_scaling",
    "windowed",
]
