"""Model choice and tests of what a model has found."""

from rpmodels.evaluation.cross_validation import Choice, CrossValidation, choose, cross_validate
from rpmodels.evaluation.folds import TrialFolds
from rpmodels.evaluation.shuffle import ShuffleTest, shuffle_test

__all__ = ["Choice", "CrossValidation", "ShuffleTest", "TrialFolds", "choose", "cross_validate", "shuffle_test"]
