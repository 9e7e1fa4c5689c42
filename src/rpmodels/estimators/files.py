"""Estimators in files, and out of them again in any other place that has this library."""

import copy
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from sklearn.base import BaseEstimator
from torch import nn

from rpmodels import errors
from rpmodels.fitted import FittedRPM
from rpmodels.free_energy import Score
from rpmodels.learning import Attempt, device_of, dtype_of
from rpmodels.learning.consumers import HistoryTable
from rpmodels.persistence import Opened, from_plain, open_file, save_file, to_plain

HISTORY = "history."
FOR_FITTING = ("optimiser", "scheduler", "callbacks")
"""Arguments that a fitted model does without."""
PLAIN = ("n_iter_", "stop_reason_", "clipped_", "validation_curve_")
OF_TABLES = ("n_features_in_", "feature_names_in_")
"""What scikit-learn remembers of a table; other forms of data leave none."""


def save(estimator: Any, model: FittedRPM, path: str | Path) -> None:
    """Arguments, fitted attributes and model in one file of exactly this name; an older one is replaced as a whole."""
    score: Score = estimator.score_
    about = {
        "class": type(estimator).__name__,
        "arguments": {name: to_plain(each) for name, each in estimator.get_params(deep=False).items()},
        "fitted": {
            name: to_plain(getattr(estimator, name)) for name in (*PLAIN, *OF_TABLES) if hasattr(estimator, name)
        },
        "restarts": [to_plain(asdict(attempt)) for attempt in estimator.restarts_],
        "score": to_plain(list(score.plain)),
        "history": list(estimator.history_),
    }
    history = {HISTORY + name: torch.as_tensor(values) for name, values in estimator.history_.items()}
    save_file(path, model, about, history)


def load(
    path: str | Path,
    known: Mapping[str, type[BaseEstimator]],
    device: str | None,
    dtype: str | None,
    given: Mapping[str, Any],
) -> BaseEstimator:
    """A fitted estimator of one of the `known` classes."""
    opened = open_file(path)
    kind = str(opened.about["class"])
    if kind not in known:
        raise errors.unknown_class(str(path), kind)
    written = opened.about["arguments"]
    for name in given:
        if name not in written:
            raise errors.bad_choice("an argument of load", written, name)
    arguments = {name: _argument(opened, name, each, given) for name, each in written.items()}
    estimator = known[kind](**arguments)
    estimator.set_params(device=device or _device(arguments["device"]), dtype=dtype or arguments["dtype"])
    model = opened.model(lambda argument, each: _part(opened, argument, each, given))
    estimator.model_ = model.to(device_of(estimator.device), dtype_of(estimator.dtype))
    _remember(estimator, opened)
    return estimator


def _device(saved: Any) -> str:
    """What it was fitted on, unless that was an accelerator of the machine that saved it."""
    return "cpu" if str(saved) == "cpu" else "auto"


def _remember(estimator: Any, opened: Opened) -> None:
    for name, value in opened.about["fitted"].items():
        setattr(estimator, name, from_plain(value, str))
    estimator.restarts_ = [Attempt(**from_plain(each, str)) for each in opened.about["restarts"]]
    estimator.score_ = Score(*from_plain(opened.about["score"], str))
    history = {name: opened.tensors[HISTORY + name].numpy() for name in opened.about["history"]}
    estimator.history_ = HistoryTable(history)


def _argument(opened: Opened, name: str, value: Any, given: Mapping[str, Any]) -> Any:
    """An argument of the estimator: from the file, or from whoever opens it."""
    mine = given.get(name)
    if name in given and not isinstance(mine, Mapping):
        return mine

    def missing(kind: str) -> Any:
        if name not in FOR_FITTING:
            raise errors.needs_own_part(str(opened.path), name, kind)
        warnings.warn(errors.not_for_fitting(name, kind), stacklevel=5)
        return None

    if not isinstance(mine, Mapping):
        return from_plain(value, missing)
    # Parts by factor: those that are handed in, the others from the file.
    kept = [[key, each] for key, each in value.get("$map", []) if key not in mine]
    return {**from_plain({"$map": kept}, missing), **mine}


def _part(opened: Opened, argument: str, kind: str, given: Mapping[str, Any]) -> Any:
    """A part of the model that is the user's own; "network of factor 'x'" is looked up by its factor."""
    name = argument.split(maxsplit=1)[0]
    if name not in given:
        raise errors.needs_own_part(str(opened.path), argument, kind)
    part = given[name]
    if isinstance(part, Mapping):
        factor = argument.split("'", 1)[-1].removesuffix("'")
        named = {str(key): each for key, each in part.items()}
        if factor not in named:
            raise errors.needs_own_part(str(opened.path), argument, kind)
        part = named[factor]
    # A module of the user's own is never changed.
    return copy.deepcopy(part) if isinstance(part, nn.Module) else part
