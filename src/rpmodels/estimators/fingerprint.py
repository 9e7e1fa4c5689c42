"""What makes a fit this fit and no other: data and arguments, by which a checkpoint is recognised."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import nn

from rpmodels.estimators.arguments import Declared
from rpmodels.estimators.names import flat
from rpmodels.observations import Observations, Stored
from rpmodels.persistence import to_plain

IRRELEVANT = ("n_jobs", "verbose", "callbacks", "device")
"""Arguments that change no number of a fit, by themselves or in a group."""


def fingerprint(estimator: Declared, observations: Observations) -> dict[str, Any]:
    """{what: plain value}; two fits with the same fingerprint and the same seeds take the same steps."""
    about: dict[str, Any] = {"class": type(estimator).__name__, "the data": _of_data(observations)}
    arguments = flat(estimator)
    for name, value in arguments.items():
        if name.rpartition(".")[2] not in IRRELEVANT:
            told = architectures if name == "network" else _of_modules
            about[name] = [to_plain(_in_order(value)), *told(_in_order(value))]
    if arguments.get("training.warm_start") and hasattr(estimator, "model_"):
        about["the fit to start from"] = _of_modules(estimator.model_)
    return about


def _of_data(observations: Observations) -> str:
    digest = hashlib.sha256()
    arrays = {"times": observations.times, "exists": observations.exists, "weights": observations.weights}
    if observations.u is not None:
        arrays["u"] = observations.u
    for kind, named in (("values", observations.values), ("present", observations.present), ("", arrays)):
        for name, array in named.items():
            digest.update(f"{kind} {name} {array.dtype} {array.shape}".encode())
            # What is on disk is told apart by a sample: reading all of it again would cost an epoch.
            seen = array[np.linspace(0, len(array) - 1, 1000).astype(np.int64)] if isinstance(array, Stored) else array
            digest.update(np.ascontiguousarray(seen).data)
    return digest.hexdigest()


def _in_order(value: Any) -> Any:
    """A dict by its keys: in which order factors were named makes no other fit."""
    return dict(sorted(value.items(), key=lambda each: str(each[0]))) if isinstance(value, Mapping) else value


def architectures(value: Any) -> list[str]:
    """Of what every module that is, or is in, an argument is made: a script that is run again makes other weights."""
    if isinstance(value, Mapping):
        return [each for part in value.values() for each in architectures(part)]
    if not isinstance(value, nn.Module):
        return []
    kinds = [f"{name} {type(each).__module__}.{type(each).__qualname__}" for name, each in value.named_modules()]
    shapes = [f"{name} {each.dtype} {tuple(each.shape)}" for name, each in value.state_dict().items()]
    return [hashlib.sha256("\n".join([repr(value), *kinds, *shapes]).encode()).hexdigest()]


def _of_modules(value: Any) -> list[str]:
    """A digest of the weights of every module that is, or is in, an argument."""
    if isinstance(value, Mapping):
        return [each for part in value.values() for each in _of_modules(part)]
    return [digest_of(value)] if isinstance(value, nn.Module) else []


def digest_of(module: nn.Module) -> str:
    """By which a module with these very numbers is known again."""
    digest = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).data)
    return digest.hexdigest()
