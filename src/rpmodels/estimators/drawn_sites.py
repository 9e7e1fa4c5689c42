"""Where draws from a model are: the sites of its longest training trial, or those that the user asks for."""

from typing import Any

import numpy as np
import torch

from rpmodels import checks, errors, memory
from rpmodels.carriers import Sites
from rpmodels.estimators.description import Description
from rpmodels.fitted import FittedRPM
from rpmodels.observations.arrays import as_numbers
from rpmodels.observations.series import check_known_times

MOST = 100_000
"""Sites of a draw."""
BYTES = 256
"""That a site of a draw needs at least."""


def drawn_sites(
    description: Description, model: FittedRPM, n: int, length: int | None, times: Any, inputs: Any
) -> Sites:
    """Of n draws; refused where the model has no use for a length, for times or for inputs."""
    _check(description, length, times, inputs)
    memory.afford("n_samples", n, n * len(model.times) * BYTES)
    if length is None and times is None and inputs is None:
        return model.sites(n)
    u = None if inputs is None else _inputs(inputs, n)
    if times is not None:
        grid = as_numbers("times", times)
        if grid.ndim != 1 or not len(grid) or not np.isfinite(grid).all():
            raise errors.bad_value("times", "finite times of shape (T,)", f"shape {grid.shape}")
    else:
        sites = None if length is None else checks.integer("length", length, 1, MOST)
        # On the clock of the fit as far as that goes.
        count = sites or (len(model.times) if u is None else u.shape[1])
        memory.afford("length", count, n * count * BYTES)
        known = model.times[:count]
        step = known[1] - known[0] if len(known) > 1 else 1.0
        grid = np.concatenate([known, known[-1] + step * np.arange(1, count - len(known) + 1)])
    if u is not None and u.shape[1] != len(grid):
        raise errors.bad_value("inputs", f"one row for each of {len(grid)} times", f"{u.shape[1]}")
    clocks = np.broadcast_to(grid, (n, len(grid)))
    if model.prior.couples_sites and not model.pattern.atoms.shared:
        check_known_times(clocks, np.ones(clocks.shape, bool), model.times)
    there = torch.as_tensor(np.array(clocks), device=model.device)
    return Sites(there, torch.ones_like(there, dtype=torch.bool), None if u is None else u.to(model.device))


def _check(description: Description, length: int | None, times: Any, inputs: Any) -> None:
    given = {"length": length, "times": times, "inputs": inputs}
    takes = {"length": description.in_trials, "times": description.takes_times, "inputs": "inputs" in description.takes}
    for name, value in given.items():
        if value is not None and not takes[name]:
            raise errors.bad_value(name, "None: draws of this model have no such thing", type(value).__name__)
    if length is not None and times is not None:
        raise errors.bad_value("length", "None beside times, which say it", length)


def _inputs(inputs: Any, n: int) -> torch.Tensor:
    """(n, T, U)."""
    u = as_numbers("inputs", inputs)
    if u.ndim not in (2, 3) or (u.ndim == 3 and len(u) != n) or not np.isfinite(u).all():
        raise errors.bad_value("inputs", f"finite numbers of shape (T, U) or ({n}, T, U)", f"shape {u.shape}")
    return torch.as_tensor(np.array(np.broadcast_to(u, (n, *u.shape[-2:]))))
