"""Short supervised lessons for discrete latents: what k-means starts and split moves have in common."""

import warnings
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from rpmodels.families import FiniteSupport
from rpmodels.learning.batches import Minibatches
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.recognition import RecognitionFactor
from rpmodels.seeding import seeded

COMPONENTS = 50
LEARNING_RATE = 1e-3
BATCH = 500
"""Sites a step of a lesson."""
LESSON = 300
MANY = 50_000
"""Observations that are enough to cluster and to teach by."""
ENOUGH = 0.3
"""Mean −log f_j of the right state, in nats, at which a lesson ends: three quarters of the belief."""


def teach(model: RPM, observations: Observations, states: NDArray[np.int64], seed: int) -> None:
    """Every factor learns to recognise the given state of its observation, states (N, T).

    The lesson ends when the states are recognised well (not perfectly: the free energy shall have the last
    word), or after `LESSON` steps.
    """
    family = cast(FiniteSupport, model.prior.family)
    optimiser = torch.optim.Adam(model.recognition.parameters(), LEARNING_RATE)
    sites = max(1.0, float(observations.exists.sum(1).mean()))
    batches = Minibatches(len(observations), max(2, round(BATCH / sites)), seed)
    model.train()
    for _ in range(LESSON):
        index = batches.next()
        batch = observations.batch(index, model.dtype, model.device)
        target = torch.as_tensor(states[index][:, : batch.sites.exists.shape[1]], device=model.device)
        loss = torch.zeros((), dtype=model.dtype, device=model.device)
        with seeded(batches.step_seed()):
            references = model.references(batch.sites)
            for name, factor in model.recognise(batch).items():
                log_f = family.log_probabilities(references[name] + factor.g)
                picked = log_f.gather(-1, target[..., None].long())[..., 0]
                loss = loss - factor.masked(picked).sum() / factor.present.sum().clamp_min(1)
        optimiser.zero_grad(set_to_none=True)
        if not bool(torch.isfinite(loss)):
            continue
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if float(loss.detach()) < ENOUGH * len(model.names):
            break


def compact_features(model: RPM, observations: Observations, seed: int) -> NDArray[Any]:
    """`features`, reduced by PCA where they are many."""
    return compact(features(model, observations), seed)


def compact(wide: NDArray[Any], seed: int) -> NDArray[Any]:
    """Principal components, where columns are many."""
    if min(wide.shape) <= COMPONENTS:
        return wide
    reduced = PCA(COMPONENTS, svd_solver="randomized", random_state=seed % 2**32).fit_transform(wide)
    return np.asarray(reduced)


def features(model: RPM, observations: Observations) -> NDArray[Any]:
    """Scaled inputs per site, (N·T, D): tied factors averaged, others side by side, absent ones zero."""
    tied: dict[int, list[tuple[str, RecognitionFactor]]] = {}
    for name, each in model.recognisers():
        if not observations.specs[name].is_label:
            tied.setdefault(id(each.network), []).append((name, each))
    if not tied:  # labels only: one-hot
        return np.concatenate([_one_hot(observations, name) for name in model.names], 1)
    columns = []
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
        columns.append(total / np.maximum(count, 1))
    return np.concatenate(columns, 1)


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
