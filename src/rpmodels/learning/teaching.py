"""Short supervised lessons: what starts from given or guessed latents and split moves have in common."""

import math
import warnings
from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from rpmodels.families import Discrete
from rpmodels.learning.batches import Minibatches
from rpmodels.learning.optimisers import adamw
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.recognition import Recogniser
from rpmodels.seeding import seeded

COMPONENTS = 50
RATE_OF_STATES, RATE_OF_NUMBERS = 3e-3, 1e-2
BATCH = 500
"""Sites a step of a lesson."""
LESSON = 300
SHARE_OF_STATES, SHARE_OF_NUMBERS = 0.1, 0.25
"""Of the steps of a fit, which a lesson may take."""
MANY = 50_000
"""Observations that are enough to cluster and to teach by."""
ENOUGH = 0.3
"""Mean −log f_j of the right state, in nats, at which a lesson ends: three quarters of the belief."""


def teach(
    model: RPM,
    observations: Observations,
    latents: NDArray[Any],
    seed: int,
    longest: int | None = None,
    names: Collection[str] | None = None,
) -> int:
    """Every factor learns to recognise the given latents: −log f_j(z|x) of states (N, T, …) or of numbers (N, T, K).

    The lesson ends when states are recognised well (not perfectly: the free energy shall have the last word), or after
    `LESSON` steps, and is never longer than a share of what it prepares, a fit of `longest` steps. Returns the steps
    that it took, which count in `max_iter`. `names`: these factors alone.
    """
    family = model.prior.family
    finite = isinstance(family, Discrete)
    optimiser = adamw(model.recognition, model.recognition.parameters(), RATE_OF_STATES if finite else RATE_OF_NUMBERS)
    sites = max(1.0, float(observations.exists.sum(1).mean()))
    batches = Minibatches(len(observations), max(2, round(BATCH / sites)), seed)
    model.train()
    share = SHARE_OF_STATES if finite else SHARE_OF_NUMBERS
    taken = 0
    for taken in range(1, 1 + (LESSON if longest is None else min(LESSON, math.ceil(share * longest)))):  # noqa: B007
        index = batches.next()
        batch = observations.batch(index, model.dtype, model.device)
        z = torch.as_tensor(latents[index][:, : batch.sites.exists.shape[1]], device=model.device)
        t = family.statistic(z if finite else z.to(model.dtype)).to(model.dtype)
        loss = torch.zeros((), dtype=model.dtype, device=model.device)
        with torch.no_grad():  # a lesson is for the networks, whatever the prior
            references = model.references(batch.sites)
        with seeded(batches.step_seed()):
            for (name, recogniser), factor in zip(model.recognisers(), model.recognise(batch).values(), strict=True):
                if names is not None and name not in names:
                    continue
                log_f = recogniser.family.log_density(references[name] + factor.g, factor.targets.mean(t))
                loss = loss - factor.masked(log_f).sum() / factor.present.sum().clamp_min(1)
        optimiser.zero_grad(set_to_none=True)
        if not bool(torch.isfinite(loss)):
            continue
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if finite and float(loss.detach()) < ENOUGH * len(model.names):
            break
    return taken


def compact_features(
    model: RPM,
    observations: Observations,
    seed: int,
    by_factor: bool = True,
    components: int = COMPONENTS,
    names: Collection[str] | None = None,
) -> NDArray[Any]:
    """What the networks see at every site, side by side, reduced by PCA where it is wide.

    `by_factor`: every factor's columns divided by the root of their number, so that factors count and not columns.
    `names`: of these factors.
    """
    seen = features(model, observations, names)
    tables = [table / np.sqrt(table.shape[1]) if by_factor else table for table, _ in seen]
    return compact(np.concatenate(tables, 1), seed, components)


def compact(wide: NDArray[Any], seed: int, components: int = COMPONENTS) -> NDArray[Any]:
    """Principal components, where columns are many."""
    if min(wide.shape) <= components:
        return wide
    reduced = PCA(components, svd_solver="randomized", random_state=seed % 2**32).fit_transform(wide)
    return np.asarray(reduced)


def features(
    model: RPM, observations: Observations, names: Collection[str] | None = None
) -> list[tuple[NDArray[Any], NDArray[np.bool_]]]:
    """Scaled inputs per site (N·T, D), zero where absent, and where they are there: a table for every network.

    Factors that share one network are averaged: the sum of their squared distances to a common centre is that of their
    mean. Labels, which say which class directly, count only where there is nothing else. `names`: of these factors.
    """
    tied: dict[int, list[tuple[str, Recogniser]]] = {}
    for name, each in model.recognisers():
        if not observations.specs[name].is_label and (names is None or name in names):
            tied.setdefault(id(each.network), []).append((name, each))
    if not tied:
        labels = [name for name in model.names if names is None or name in names]
        return [(_one_hot(observations, name), observations.present[name].reshape(-1)) for name in labels]
    tables = []
    for group in tied.values():
        total = np.zeros((1, 1), np.float32)
        count = np.zeros((observations.exists.size, 1), np.float32)
        for name, recogniser in group:
            values = np.asarray(observations.values[name])
            # A copy: the original may be memory-mapped and read-only.
            rows = torch.tensor(np.array(values.reshape(-1, *values.shape[2:])), device=model.device)
            have = observations.present[name].reshape(-1, 1)
            with torch.no_grad():
                scaled = recogniser.scaling(rows, torch.float32).flatten(1).cpu().numpy()
            total = total + scaled * have
            count += have
        tables.append((total / np.maximum(count, 1), count[:, 0] > 0))
    return tables


def _one_hot(observations: Observations, name: str) -> NDArray[Any]:
    codes = np.asarray(observations.values[name]).reshape(-1)
    table = np.zeros((len(codes), len(observations.specs[name].vocabulary or ())), np.float32)
    there = np.flatnonzero(observations.present[name].reshape(-1))
    table[there, codes[there]] = 1.0
    return table


def k_means(rows: NDArray[Any], n_clusters: int, seed: int, n_init: int = 3) -> NDArray[np.int64]:
    """Cluster of every row; fewer distinct rows than clusters is no reason to complain here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = KMeans(n_clusters, n_init=n_init, random_state=seed % 2**32).fit_predict(rows)
    return np.asarray(found, np.int64)
