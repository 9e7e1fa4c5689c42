"""How well counts are predicted: bits per spike, beyond the mean rate that each channel had on the training trials."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaln, xlogy

from rpmodels.metrics import LEAST_RATE, poisson_gain

Array = NDArray[np.float64]
RATES, PROBABILITIES = "rates", "probabilities"
SILENT = 0.5
"""Spikes that a channel without any on the training trials counts for: its mean rate is not nought."""


@dataclass(frozen=True)
class Gained:
    """Of every predicted channel on the held-out trials of one fold."""

    nats: Array
    """(H,) log-likelihood above that of the mean rate; NaN where a channel has no such prediction."""
    spikes: Array
    """(H,)."""

    @property
    def total(self) -> float:
        """Bits per spike, over all channels that have a prediction."""
        known = ~np.isnan(self.nats)
        spikes = self.spikes[known].sum()
        return float(self.nats[known].sum() / (spikes * np.log(2))) if spikes > 0 else np.nan

    @property
    def by_channel(self) -> Array:
        """(H,) bits per spike; NaN without spikes."""
        return np.asarray(np.where(self.spikes > 0, self.nats, np.nan) / (np.maximum(self.spikes, 1.0) * np.log(2)))


@dataclass(frozen=True)
class BitsPerSpike:
    """Held-out numbers of one question, in bits per spike beyond each channel's mean rate on the training trials.

    By "rates": (LL(rates) − LL(mean rate)) / (spikes · log 2) with Poisson likelihoods, as the Neural Latents Benchmark
    has it. By "probabilities": the same with the model's own p(x_c | X) instead of a Poisson distribution at the rate.
    """

    question: str
    channels: NDArray[np.int64]
    """(H,) which of them are predicted."""
    values: Mapping[str, Array]
    """{measure: (folds,)}."""
    by_channel: Mapping[str, Array]
    """{measure: (folds, H)}; NaN where a channel had no spike."""

    @staticmethod
    def of(question: str, channels: NDArray[np.int64], folds: Sequence[Mapping[str, Gained]]) -> "BitsPerSpike":
        """From every measure of every fold."""
        values = {name: np.array([each[name].total for each in folds]) for name in folds[0]}
        return BitsPerSpike(
            question, channels, values, {name: np.stack([each[name].by_channel for each in folds]) for name in values}
        )

    @property
    def mean(self) -> dict[str, float]:
        """Over folds."""
        return {name: float(each.mean()) for name, each in self.values.items()}

    def __repr__(self) -> str:
        n_folds = len(next(iter(self.values.values())))
        spreads = {name: f" ± {each.std():.4f}" if n_folds > 1 else "" for name, each in self.values.items()}
        numbers = [f"by {name} {each:.4f}{spreads[name]}" for name, each in self.mean.items()]
        folds = f"{n_folds} folds" if n_folds > 1 else "1 fold"
        return f"{self.question}: {', '.join(numbers)} bits per spike ({len(self.channels)} channels, {folds})"


def mean_rates(counts: Array) -> Array:
    """(C,) of counts (n, C), NaN where unknown: what is predicted without a model."""
    known = np.maximum((~np.isnan(counts)).sum(0), 1)
    return np.asarray(np.maximum(np.nansum(counts, 0), SILENT) / known)


def by_rates(rates: Array, counts: Array, null: Array) -> Gained:
    """Of rates (n, H), against mean rates (H,)."""
    return Gained(poisson_gain(rates, counts, null), np.nansum(counts, 0))


def by_probabilities(probabilities: Array, values: Array, counts: Array, null: Array) -> Gained:
    """Of the probabilities (n, H, A) of values (H, A), NaN beyond the last, which stands for all above it.

    So it does for the Poisson distribution that they are compared with. A channel with too many counts to be a table
    has no probabilities of single ones.
    """
    last = (~np.isnan(values)).sum(1) - 1
    tables = np.nan_to_num(values - np.arange(values.shape[1])).any(1) == 0
    known = ~np.isnan(counts)
    codes = np.where(known, np.minimum(counts, last), 0).astype(np.int64)
    own = np.take_along_axis(probabilities, codes[..., None], -1)[..., 0]
    smallest, mean = np.finfo(np.float64).tiny, np.maximum(null, LEAST_RATE)
    exactly = xlogy(codes, mean) - mean - gammaln(codes + 1.0)
    or_more = np.log(np.maximum(gammainc(np.maximum(last, 1), mean), smallest))
    gain = np.log(np.maximum(own, smallest)) - np.where(codes == last, or_more, exactly)
    return Gained(np.where(tables, np.where(known, gain, 0.0).sum(0), np.nan), np.nansum(counts, 0))
