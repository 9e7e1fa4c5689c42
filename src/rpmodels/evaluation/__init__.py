"""Model choice, comparisons, and tests of what a model has found."""

from rpmodels.alignment import align_angles, align_latents, align_states
from rpmodels.evaluation.belonging import belonging, overviews
from rpmodels.evaluation.benchmark import LatentsBenchmark
from rpmodels.evaluation.bins import choose_bins
from rpmodels.evaluation.bits import BitsPerSpike
from rpmodels.evaluation.calibration import BetweenFactors, between_factors
from rpmodels.evaluation.co_smoothing import co_smoothing, few_shot_co_smoothing, forward_prediction
from rpmodels.evaluation.co_smoothing_rivals import compare_co_smoothing
from rpmodels.evaluation.comparison import Comparison, compare_baselines
from rpmodels.evaluation.cross_validation import Choice, CrossValidation, choose, cross_validate
from rpmodels.evaluation.decoding import Decoder, Decoding, decode
from rpmodels.evaluation.diagnostics import diagnose
from rpmodels.evaluation.findings import Diagnosis, Finding
from rpmodels.evaluation.folds import TrialFolds
from rpmodels.evaluation.gap import Gap, GapRow, gap
from rpmodels.evaluation.shuffle import ShuffleTest, shuffle_test
from rpmodels.evaluation.stability import Stability, stability

__all__ = [
    "BetweenFactors",
    "BitsPerSpike",
    "Choice",
    "Comparison",
    "CrossValidation",
    "Decoder",
    "Decoding",
    "Diagnosis",
    "Finding",
    "Gap",
    "GapRow",
    "LatentsBenchmark",
    "ShuffleTest",
    "Stability",
    "TrialFolds",
    "align_angles",
    "align_latents",
    "align_states",
    "belonging",
    "between_factors",
    "choose",
    "choose_bins",
    "co_smoothing",
    "compare_baselines",
    "compare_co_smoothing",
    "cross_validate",
    "decode",
    "diagnose",
    "few_shot_co_smoothing",
    "forward_prediction",
    "gap",
    "overviews",
    "shuffle_test",
    "stability",
]
