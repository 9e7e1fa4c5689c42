"""What figures of populations show of one fold: paths of latents, behaviour as it was read, tuning of some units."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels.evaluation import Decoder
from rpmodels.evaluation.folds import Index, subset
from rpmodels.evaluation.methods import Bins

SHOWN = 6
"""Held-out trials whose behaviour is shown, from the first to the last."""
UNITS = 6
AXES = 3
DIGITS = 3


def axes_of(latents: Bins, tuning: Any = None) -> NDArray[np.float64]:
    """(K, 3): directions in which latents are shown, orthogonal.

    Of a population those that its channels share most, Σ_c nats_c w_c w_cᵀ: principal components of posterior means
    rank latents by how smooth they are. Of other methods principal components.
    """
    if tuning is None:
        spread = np.cov(np.concatenate(latents).T).reshape(latents[0].shape[1], -1)
    else:
        spread = (tuning.directions * tuning.precision[:, None]).T @ tuning.directions
    vectors = np.linalg.eigh(spread)[1][:, ::-1]
    return np.asarray(vectors[:, :AXES])


def paths(latents: Bins, labels: NDArray[Any], fold: tuple[Index, Index], tuning: Any = None) -> dict[str, Any]:
    """Held-out trials (T_n, 3) of one fold, along the axes that are shown, with the label of each."""
    axes = axes_of(subset(latents, fold[0]), tuning)
    held_out = fold[1]
    return {
        "paths": [_short(each @ axes) for each in subset(latents, held_out)],
        "labels": np.asarray(labels)[held_out].tolist(),
    }


def read_trials(kind: str, signals: Bins, behaviour: Bins, fold: tuple[Index, Index]) -> dict[str, Any]:
    """Behaviour of some held-out trials, true and as a decoder of the training trials tells it from these signals."""
    decoder = Decoder(kind).fit(subset(signals, fold[0]), subset(behaviour, fold[0]))
    shown = fold[1][np.linspace(0, len(fold[1]) - 1, min(SHOWN, len(fold[1]))).round().astype(int)]
    return {
        "decoded": [_short(each) for each in decoder.predict(subset(signals, shown))],
        "true": [_short(each) for each in subset(behaviour, shown)],
    }


def curves(tuning: Any) -> dict[str, Any]:
    """E[x | u] of the units that say most."""
    chosen = np.argsort(-tuning.precision, kind="stable")[:UNITS]
    expected = [_short(tuning.expected[each]) for each in chosen]
    return {"u": _short(tuning.u), "units": chosen.tolist(), "expected": expected}


def _short(values: Any) -> Sequence[Any]:
    return list(np.round(np.asarray(values, np.float64), DIGITS).tolist())


def example(
    found: Mapping[str, Bins],
    rates: Bins,
    behaviour: Bins,
    labels: NDArray[Any],
    fold: tuple[Index, Index],
    tuning: Any = None,
) -> dict[str, Any]:
    """Everything of one fold: latents for every reading, rates, and, of populations, the tuning of their units."""
    first = next(iter(found))
    last = list(found)[-1]
    return {
        **paths(found[first], labels, fold, tuning),
        "from rates": read_trials("ridge", rates, behaviour, fold),
        "from latents": read_trials("knn", found[last], behaviour, fold),
        "tuning": None if tuning is None else curves(tuning),
    }
