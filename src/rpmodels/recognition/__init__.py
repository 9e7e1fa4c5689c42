"""Recognition networks and heads: from observations to potentials."""

from rpmodels.recognition.factor import RecognitionFactor
from rpmodels.recognition.heads import AbsoluteHead, Head, RelativeHead
from rpmodels.recognition.networks import (
    MLP,
    ConvolutionalNetwork,
    Linear,
    LookupTable,
    reinitialise,
)

__all__ = [
    "MLP",
    "AbsoluteHead",
    "ConvolutionalNetwork",
    "Head",
    "Linear",
    "LookupTable",
    "RecognitionFactor",
    "RelativeHead",
    "reinitialise",
]
