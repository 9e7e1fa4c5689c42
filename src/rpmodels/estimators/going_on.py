"""What a fit may begin from beside chance: an earlier fit, or latents of the user's own."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.families import FiniteSupport, HasTargets, JointStates
from rpmodels.model import RPM
from rpmodels.observations import Observations, read
from rpmodels.recognition import Dropout


def going_on(trained: RPM, built: RPM) -> RPM:
    """The trained model with the regularisation that the arguments ask for now; other parts of it stay as they were.

    Where the arguments ask for other networks, they are told that these are not used.
    """
    shapes = [{name: each.shape for name, each in model.recognition.state_dict().items()} for model in (trained, built)]
    if shapes[0] != shapes[1]:
        warnings.warn(errors.other_networks(), stacklevel=6)
        return trained
    dropouts = [[each for each in model.modules() if isinstance(each, Dropout)] for model in (trained, built)]
    for old, new in zip(*dropouts, strict=False):
        old.p = old.usual = new.usual
    return trained


def given_latents(estimator: Any, latents: Any, pieces: Observations) -> NDArray[Any]:
    """(N, T) states or angles or (N, T, K) numbers of all pieces that trials are cut into, from what the user gave.

    Of a state with an age the state alone, which factors speak of: ages are zero.
    """
    family = estimator._build(pieces).prior.family
    aged = isinstance(family, HasTargets) and estimator.description.latent.finite
    finite, several = isinstance(family, FiniteSupport) or aged, isinstance(family, HasTargets) and not aged
    last = 1 if several else 0
    listed = latents if isinstance(latents, list) else list(np.asarray(latents))
    series = pieces.n_sites > 1 or estimator.description.in_trials
    rows = [np.asarray(each, np.float64) for each in listed]
    rows = [each.reshape(*each.shape[: each.ndim - last], -1) for each in rows]  # a state or an angle is one number
    rows = [each if series else each.reshape(1, -1) for each in rows]
    wanted = family.latents if several else 1
    if any(each.ndim != 2 or each.shape[1] != wanted for each in rows):
        kind = "a state" if finite else f"{wanted} numbers" if several else "an angle"
        raise errors.bad_value("search.start", f"{kind} for every site", f"shapes such as {np.shape(listed[0])}")
    cut = estimator._pieces(read({"z": rows}, series=True))
    if cut.exists.shape != pieces.exists.shape or not np.array_equal(cut.exists, pieces.exists):
        expected = f"one for each of the {len(pieces)} trials or rows, as long as they are"
        raise errors.bad_value("search.start", expected, f"{len(cut)} of at most {cut.n_sites} sites")
    values = np.asarray(cut.values["z"])
    values = values if several else values[..., 0]
    if aged:
        values = np.stack([values, *[np.zeros_like(values)] * (family.latents - 1)], -1)
    return _states(values, cut.exists, family) if isinstance(family, FiniteSupport | JointStates) else values


def _states(values: NDArray[Any], exists: NDArray[np.bool_], family: FiniteSupport | JointStates) -> NDArray[np.int64]:
    """Whole numbers, as many as there are states (of every latent)."""
    sizes = np.array(family.states if isinstance(family, JointStates) else family.n_states)
    states = values.astype(np.int64)
    if (states[exists] != values[exists]).any() or (states < 0).any() or (states >= sizes).any():
        expected = f"states from 0 to {(sizes - 1).tolist()}"
        raise errors.bad_value("search.start", expected, f"numbers from {values.min():g} to {values.max():g}")
    return states
