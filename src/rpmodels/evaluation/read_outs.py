"""From latents to counts: Poisson regressions, for methods that predict no counts of their own."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import PoissonRegressor
from sklearn.preprocessing import StandardScaler

from rpmodels import errors
from rpmodels.evaluation.bits import by_rates, mean_rates

PENALTY = 1e-3
"""Of the regressions: as good as none."""
Rows = list[NDArray[np.float64]]


class PoissonReadOut:
    """Rates of every channel, log-linear in the latents.

    New latents are brought into the range of those that it was fitted to first: exponentials of what lies further out
    would decide the whole reading. (Limits on the rates themselves would tear channels apart that belong together.)

    Args:
        penalty: of the squared coefficients, latents having variance one

    """

    def __init__(self, penalty: float = PENALTY) -> None:
        self.penalty = penalty

    def fit(self, latents: Any, counts: Any) -> "PoissonReadOut":
        """Learn from trials (T_n, K) and (T_n, C); a count that is NaN is left out."""
        rows, spikes = (np.concatenate([np.asarray(each, np.float64) for each in part]) for part in (latents, counts))
        if len(rows) != len(spikes):
            raise errors.bad_value("counts", f"{len(rows)} bins as in latents", len(spikes))
        self.mean_rates_ = mean_rates(spikes)
        self._range = rows.min(0), rows.max(0)
        self._scaler = StandardScaler().fit(rows)
        scaled = self._scaler.transform(rows)
        self._models = [self._fitted(scaled, each) for each in spikes.T]
        return self

    def _fitted(self, rows: NDArray[np.float64], spikes: NDArray[np.float64]) -> PoissonRegressor | None:
        known = ~np.isnan(spikes)
        if not spikes[known].any():
            return None  # silent
        regression = PoissonRegressor(alpha=self.penalty, solver="newton-cholesky", max_iter=1000)
        return regression.fit(rows[known], spikes[known])

    def predict(self, latents: Any) -> Rows:
        """Rates (T_n, C) of every trial."""
        trials = [np.asarray(each, np.float64) for each in latents]
        scaled = self._scaler.transform(np.clip(np.concatenate(trials), *self._range))
        rates = np.tile(self.mean_rates_, (len(scaled), 1))
        for channel, model in enumerate(self._models):
            if model is not None:
                rates[:, channel] = model.predict(scaled)
        return list(np.split(rates, np.cumsum([len(each) for each in trials])[:-1]))

    def score(self, latents: Any, counts: Any) -> float:
        """Bits per spike beyond the mean rates of what it was fitted to."""
        seen = np.concatenate([np.asarray(each, np.float64) for each in counts])
        return by_rates(np.concatenate(self.predict(latents)), seen, self.mean_rates_).total


def read_counts(latents: Any, counts: Any, new: Any, truth: Any) -> float:
    """Bits per spike of held-out channels: a reading of latents, as of behaviour (`decoding.Reading`)."""
    return PoissonReadOut().fit(latents, counts).score(new, truth)
