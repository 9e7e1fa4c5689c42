"""Where populations begin: at a linear model of their scores, found in closed form or by EM."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import FactorAnalysis
from threadpoolctl import threadpool_limits

from rpmodels.families import Gaussian
from rpmodels.learning.own_latents import mixed_scales, regression, rotation
from rpmodels.learning.starts import Start, usual_step
from rpmodels.learning.teaching import compact, features, teach
from rpmodels.linear.smooth import smooth_model
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.priors.process import ProcessPrior
from rpmodels.recognition import ChannelCurves, reinitialise
from rpmodels.seeding import seeded

Array = NDArray[np.float64]
SEED = 0
"""The same data give the same start, whatever the seed of a fit."""
STEPS = 100
"""Of EM: time scales take long to be found, and what is not found here has to be found by gradients."""


@dataclass(frozen=True)
class _Linear:
    """score = loadings z + offset + noise, and the latents."""

    loadings: Array  # (D, K)
    offset: Array
    noise: Array
    latents: Array  # (N, T, K)
    time_scales: Array | None = None


class PopulationStart(Start):
    """Every channel begins at what linear GPFA (factor analysis, where there is no time) says of it.

    What is linear in the scores of all channels is found at once and is the same for every seed. Other factors, which
    have networks, are taught the latents of that model, as by `SmoothStart`. With latents of the user's own,
    regressions of the scores on these are in the place of both.
    """

    taught = True

    def __init__(self, longest: int | None = None, latents: NDArray[Any] | None = None) -> None:
        self.longest, self.latents = longest, latents
        self.name = "linear model" if latents is None else "given latents"

    def __call__(self, model: RPM, observations: Observations, seed: int) -> int | None:
        """Find, then begin."""
        with seeded(seed):
            reinitialise(model.recognition)
        channels = {name: each.network for name, each in model.recognisers() if isinstance(each.network, ChannelCurves)}
        widths, rows = [], []
        for name, network in channels.items():
            rows.append(_scores(network, observations, name))
            widths.append(rows[-1].shape[-1])
        others = [name for name in _vectors(observations) if name not in channels]
        if others:
            rows.append(_others(model, observations, others))
        wide = np.concatenate(rows, -1)
        # A factor that is missing where another is not is at its mean, as single channels are.
        wide[~np.isnan(wide).all(-1)] = np.nan_to_num(wide[~np.isnan(wide).all(-1)])
        latents = cast(Gaussian, model.prior.family).latents
        with threadpool_limits(1):
            found = self._found(wide, observations, latents, model.prior.couples_sites)
        if self.latents is None and model.private_latents():
            tables = dict(zip(channels, rows, strict=False))
            tables |= {name: _others(model, observations, [name]) for name in others}
            found = _in_place(found, model, observations.exists, tables)
        begun = 0
        for (name, network), width in zip(channels.items(), widths, strict=True):
            part = slice(begun, begun + width)
            targets = list(model.targets.get(name, range(latents)))
            network.begin(found.loadings[part][:, targets], found.offset[part], found.noise[part])
            begun += width
        if isinstance(model.prior, ProcessPrior) and found.time_scales is not None:
            model.prior.set_length_scales(torch.as_tensor(found.time_scales * usual_step(observations)))
        pupils = [name for name in model.names if name not in channels]
        return teach(model, observations, found.latents, seed, self.longest, pupils) if pupils else None

    def _found(self, rows: Array, observations: Observations, latents: int, in_time: bool) -> _Linear:
        if self.latents is not None:
            return _regressed(rows, observations.exists, np.asarray(self.latents, np.float64))
        if in_time:
            model, found = smooth_model(rows, observations.exists, latents, STEPS)
            padded = np.zeros((rows.shape[-1], latents))
            padded[:, : model.loadings_.shape[1]] = model.loadings_
            return _Linear(padded, model.offset_, model.noise_, found.latents, found.time_scales)
        return _analysed(rows, observations.exists, latents)


def _scores(network: ChannelCurves, observations: Observations, name: str) -> Array:
    """(N, T, C): zero, the mean, where single channels are missing; NaN where all are."""
    values = np.array(observations.values[name])
    rows = torch.as_tensor(values.reshape(-1, values.shape[-1]))
    with torch.no_grad():
        scored = network.scored(rows.to(network.scores.device)).double().cpu().numpy()
    scored[~observations.present[name].reshape(-1)] = np.nan
    return scored.reshape(*values.shape)


def _vectors(observations: Observations) -> list[str]:
    """The factors that are vectors of numbers."""
    return [name for name, spec in observations.specs.items() if len(spec.event_shape) == 1 and not spec.is_label]


def _in_place(found: _Linear, model: RPM, exists: NDArray[np.bool_], tables: Mapping[str, Array]) -> _Linear:
    """The linear model with its latents rotated to where factors look for them."""
    there = {name: np.nan_to_num(each[exists]) for name, each in tables.items()}
    turned = rotation(found.latents[exists], there, model.private_latents())
    if turned is None:
        return found
    scales = None if found.time_scales is None else mixed_scales(found.time_scales, turned)
    return replace(found, loadings=found.loadings @ turned, latents=found.latents @ turned, time_scales=scales)


def _others(model: RPM, observations: Observations, names: Collection[str]) -> Array:
    """Vectors that other factors see, in few columns."""
    wide = np.concatenate([table for table, _ in features(model, observations, names)], 1)
    return compact(wide, SEED).reshape(*observations.exists.shape, -1).astype(np.float64)


def _analysed(rows: Array, exists: NDArray[np.bool_], latents: int) -> _Linear:
    """By factor analysis of all sites."""
    flat = np.nan_to_num(rows[exists])
    count = min(latents, flat.shape[1])
    model = FactorAnalysis(count, random_state=SEED).fit(flat)
    loadings = np.zeros((flat.shape[1], latents))
    loadings[:, :count] = model.components_.T
    found = np.zeros((*exists.shape, latents))
    found[exists, :count] = model.transform(flat)
    return _Linear(loadings, model.mean_, model.noise_variance_, found)


def _regressed(rows: Array, exists: NDArray[np.bool_], latents: Array) -> _Linear:
    """By regressions on latents that are known, brought to variance one."""
    z, x = latents[exists], np.nan_to_num(rows[exists])
    centre, spread = z.mean(0), z.std(0)
    z = (z - centre) / np.where(spread > 0, spread, 1.0)
    loadings, offset, noise = regression(x, z)
    scaled = np.zeros_like(latents)
    scaled[exists] = z
    return _Linear(loadings, offset, noise, scaled)
