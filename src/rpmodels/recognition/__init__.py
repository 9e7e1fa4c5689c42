"""Recognition networks and heads: from observations to potentials."""

from rpmodels.recognition.computing import Compiled, Computing, Mixed, Plain
from rpmodels.recognition.dropout import Dropout
from rpmodels.recognition.factor import RecognitionFactor, fit_scalings, recogniser
from rpmodels.recognition.generative import GenerativeFactor, GenerativeTable, pinned_table
from rpmodels.recognition.heads import AbsoluteHead, Head, RelativeHead
from rpmodels.recognition.networks import (
    MLP,
    ConstantPrecision,
    ConvolutionalNetwork,
    Linear,
    LookupTable,
    WithLinear,
    gains,
    has_no_hidden_layer,
    reinitialise,
)
from rpmodels.recognition.population import ChannelCurves, PopulationFactor

Recogniser = RecognitionFactor | PopulationFactor | GenerativeFactor
"""Everything between an observed x_j and its potential."""

__all__ = [
    "MLP",
    "AbsoluteHead",
    "ChannelCurves",
    "Compiled",
    "Computing",
    "ConstantPrecision",
    "ConvolutionalNetwork",
    "Dropout",
    "GenerativeFactor",
    "GenerativeTable",
    "Head",
    "Linear",
    "LookupTable",
    "Mixed",
    "Plain",
    "PopulationFactor",
    "Recogniser",
    "RecognitionFactor",
    "RelativeHead",
    "WithLinear",
    "fit_scalings",
    "gains",
    "has_no_hidden_layer",
    "pinned_table",
    "recogniser",
    "reinitialise",
]
