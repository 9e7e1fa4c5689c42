"""Linear Gaussian-process factor analysis (Yu et al., 2009) by EM: x_t = C z_t + d + noise, z_k ~ GP.

Trials of unequal length and missing bins, in closed form but for the time scales, which are found by a search along
one dimension each. The kernel is (1 − ε) exp(−(t−t′)²/2τ²) + ε 1[t = t′], as there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize_scalar
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import FactorAnalysis

from rpmodels import checks, errors, linalg
from rpmodels.observations import Observations, read
from rpmodels.seeding import spawn

Array = NDArray[np.float64]
NOISE = 1e-3
"""ε: what of the latents' variance is not smooth."""
LEAST_SHARE = 0.01
"""Least private variance of a channel, as a share of its variance."""
SHORTEST, LONGEST = 0.3, 3.0
"""Time scales are sought between so many bins and so many times the longest trial."""


@dataclass(frozen=True)
class _Trial:
    """One trial, or several that have the same bins: x is zero where absent."""

    x: Array  # (n, T, D)
    present: NDArray[np.bool_]  # (T,)
    members: NDArray[np.int64]


@dataclass(frozen=True)
class _Posterior:
    """Latents of the trials of one group: they share a covariance."""

    mean: Array  # (n, T, K)
    covariance: Array  # (K, T, K, T)
    log_likelihood: float  # summed over trials


class GPFA(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Linear GPFA with the manners of the library's own estimators.

    Args:
        n_latents: K
        max_iter: EM steps at most
        tol: stop when the log-likelihood gains less than this share of what it has gained so far
        time_scale: where τ starts, in bins; "auto" is a tenth of the median trial
        random_state: of the factor analysis that it starts from

    Attributes:
        loadings_, offset_, noise_: C (D, K), d (D,), diag R (D,)
        time_scales_: τ (K,), in bins
        log_likelihoods_: of the training data after every step

    """

    def __init__(
        self,
        n_latents: int = 3,
        *,
        max_iter: int = 100,
        tol: float = 1e-5,
        time_scale: float | str = "auto",
        random_state: int | None = None,
    ) -> None:
        self.n_latents = n_latents
        self.max_iter = max_iter
        self.tol = tol
        self.time_scale = time_scale
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "GPFA":
        """EM from a factor analysis of all bins; X is (N, T, D), or a list of (T_n, D); NaN rows are missing."""
        latents = checks.integer("n_latents", self.n_latents, 1)
        groups = _groups(X, None)
        rows = np.concatenate([group.x[:, group.present].reshape(-1, group.x.shape[-1]) for group in groups])
        if latents > rows.shape[1]:
            raise errors.bad_value("n_latents", f"at most the number of channels, {rows.shape[1]}", latents)
        start = FactorAnalysis(latents, random_state=spawn(self.random_state, 1)[0] % 2**31).fit(rows)
        self._floor = LEAST_SHARE * np.maximum(rows.var(0), np.finfo(float).tiny)
        self.loadings_, self.offset_ = start.components_.T.copy(), start.mean_.copy()
        self.noise_ = np.maximum(start.noise_variance_, self._floor)
        lengths = np.repeat([len(group.present) for group in groups], [len(group.x) for group in groups])
        first = max(2.0, 0.1 * float(np.median(lengths))) if self.time_scale == "auto" else float(self.time_scale)
        self.time_scales_ = np.full(latents, first)
        self._limits = (SHORTEST, LONGEST * float(lengths.max()))
        self.log_likelihoods_: list[float] = []
        for _ in range(checks.integer("max_iter", self.max_iter, 1)):
            posteriors = [self._infer(group) for group in groups]
            self.log_likelihoods_.append(sum(each.log_likelihood for each in posteriors))
            if self._settled():
                break
            self._maximise(groups, posteriors)
        return self

    def _settled(self) -> bool:
        values = self.log_likelihoods_
        return len(values) > 2 and values[-1] - values[-2] < self.tol * (values[-1] - values[1])

    # ---- E ----------------------------------------------------------------------------------

    def _infer(self, group: _Trial) -> _Posterior:
        times, latents = len(group.present), len(self.time_scales_)
        size = latents * times
        roots = np.zeros((latents, times, latents, times))
        for k, scale in enumerate(self.time_scales_):
            roots[k, :, k] = _root(kernel(times, scale))
        root = roots.reshape(size, size)
        weighted = self.loadings_ / self.noise_[:, None]
        # What one bin says, CᵀR⁻¹C, at the bins that are there.
        says = np.einsum("kl,st,t->kslt", self.loadings_.T @ weighted, np.eye(times), group.present.astype(float))
        inside = _root(np.eye(size) + root.T @ says.reshape(size, size) @ root)
        half = solve_triangular(inside, root.T, lower=True)
        covariance = half.T @ half
        residual = (group.x - self.offset_) * group.present[:, None]
        shift = np.moveaxis(residual @ weighted, -1, 1).reshape(len(residual), size)
        mean = shift @ covariance
        bins = int(group.present.sum())
        constant = bins * (np.log(self.noise_).sum() + len(self.noise_) * np.log(2.0 * np.pi))
        log_det = 2.0 * np.log(np.diag(inside)).sum()
        fit = np.square(residual / np.sqrt(self.noise_)).sum() - np.einsum("ns,ns->", mean, shift)
        log_likelihood = -0.5 * (len(residual) * (constant + log_det) + fit)
        return _Posterior(
            np.moveaxis(mean.reshape(-1, latents, times), 1, -1),
            covariance.reshape(latents, times, latents, times),
            float(log_likelihood),
        )

    # ---- M ----------------------------------------------------------------------------------

    def _maximise(self, groups: Sequence[_Trial], posteriors: Sequence[_Posterior]) -> None:
        latents, channels = len(self.time_scales_), len(self.noise_)
        second = np.zeros((latents + 1, latents + 1))
        cross = np.zeros((channels, latents + 1))
        squares, bins = np.zeros(channels), 0
        for group, q in zip(groups, posteriors, strict=True):
            x, z = group.x[:, group.present], q.mean[:, group.present]
            z = np.concatenate([z, np.ones((*z.shape[:2], 1))], -1)
            second += np.einsum("ntk,ntl->kl", z, z)
            diagonal = np.einsum("ktlt->tkl", q.covariance)[group.present].sum(0)
            second[:latents, :latents] += len(x) * diagonal
            cross += np.einsum("ntd,ntk->dk", x, z)
            squares += np.square(x).sum((0, 1))
            bins += x.shape[0] * x.shape[1]
        both = np.linalg.solve(second, cross.T).T
        self.loadings_, self.offset_ = both[:, :latents], both[:, latents]
        self.noise_ = np.maximum((squares - np.einsum("dk,dk->d", both, cross)) / bins, self._floor)
        moments = _second_moments(posteriors, latents)
        low, high = np.log(self._limits)
        for k in range(latents):
            found = minimize_scalar(_misfit, bounds=(low, high), method="bounded", args=(moments, k))
            if found.fun <= _misfit(np.log(self.time_scales_[k]), moments, k):
                self.time_scales_[k] = np.exp(found.x)

    # ---- what one asks of it ----------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """Posterior means, (N, T, K) for an array and a list of (T_n, K) for a list."""
        if not hasattr(self, "loadings_"):
            raise errors.not_fitted(type(self).__name__)
        groups = _groups(X, self)
        found: dict[int, Array] = {}
        for group in groups:
            found |= dict(zip(group.members.tolist(), self._infer(group).mean, strict=True))
        ordered = [found[n] for n in range(len(found))]
        return np.stack(ordered) if isinstance(X, np.ndarray) else ordered

    def score(self, X: Any, y: Any = None) -> float:
        """Log-likelihood per bin that is there."""
        groups = _groups(X, self)
        bins = sum(len(group.x) * int(group.present.sum()) for group in groups)
        return sum(self._infer(group).log_likelihood for group in groups) / bins


def kernel(times: int, scale: float) -> Array:
    """κ of every pair of bins."""
    t = np.arange(times)
    smooth = (1.0 - NOISE) * np.exp(-0.5 * np.square((t[:, None] - t) / scale))
    return np.asarray(smooth + NOISE * np.eye(times))


def _root(matrix: Array) -> Array:
    """Lower L with LLᵀ = matrix."""
    return np.asarray(linalg.cholesky(torch.as_tensor(matrix), "a covariance of linear GPFA").numpy())


def _groups(X: Any, fitted: GPFA | None) -> list[_Trial]:
    """Trials with the same bins together: their posteriors share a covariance."""
    known = read({"x": X}, series=True)
    if fitted is not None and known.specs["x"].event_shape != fitted.offset_.shape:
        raise errors.bad_value("X", f"{len(fitted.offset_)} channels", known.specs["x"].event_shape)
    if len(known.specs["x"].event_shape) != 1:
        raise errors.bad_value("X", "trials of (T_n, D) numbers", known.specs["x"].event_shape)
    patterns = [(int(known.exists[n].sum()), known.present["x"][n].tobytes()) for n in range(len(known))]
    return [_group(known, [n for n, each in enumerate(patterns) if each == one]) for one in sorted(set(patterns))]


def _group(known: Observations, members: list[int]) -> _Trial:
    length = max(1, int(known.exists[members[0]].sum()))
    x = np.asarray(known.values["x"][members][:, :length], np.float64)
    return _Trial(x, known.present["x"][members[0], :length], np.array(members))


def _second_moments(posteriors: Sequence[_Posterior], latents: int) -> list[dict[int, tuple[int, Array]]]:
    """For every latent, {length: (trials, Σ ⟨z zᵀ⟩)}."""
    moments: list[dict[int, tuple[int, Array]]] = [{} for _ in range(latents)]
    for q in posteriors:
        n, times = q.mean.shape[:2]
        for k, each in enumerate(moments):
            count, total = each.get(times, (0, np.zeros((times, times))))
            outer = n * q.covariance[k, :, k] + q.mean[:, :, k].T @ q.mean[:, :, k]
            each[times] = (count + n, total + outer)
    return moments


def _misfit(log_scale: float, moments: Sequence[dict[int, tuple[int, Array]]], k: int) -> float:
    """−2 ⟨log p(z_k)⟩ but for a constant."""
    total = 0.0
    for times, (count, second) in moments[k].items():
        factor = _root(kernel(times, float(np.exp(log_scale))))
        total += count * 2.0 * np.log(np.diag(factor)).sum() + np.trace(cho_solve((factor, True), second))
    return float(total)
