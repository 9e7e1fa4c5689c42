"""Recognition networks and heads: from observations to potentials."""

from rpmodels.recognition.computing import Compiled, Computing, Mixed, Plain
from rpmodels.recognition.dropout import Dropout
from rpmodels.recognition.factor import RecognitionFactor, fit_scalings
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

__all__ = [
    "MLP",
    "AbsoluteHead",
    "Compiled",
    "Computing",
    "ConstantPrecision",
    "ConvolutionalNetwork",
    "Dropout",
    "Head",
    "Linear",
    "LookupTable",
    "Mixed",
    "Plain",
    "RecognitionFactor",
    "RelativeHead",
    "WithLinear",
    "fit_scalings",
    "gains",
    "has_no_hidden_layer",
    "reinitialise",
]
