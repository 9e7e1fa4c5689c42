"""RPGPFA: smooth latents behind one or several series of observations (RP-GPFA)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from rpmodels import checks, errors, learning
from rpmodels.carriers import Sites
from rpmodels.estimators import kernels, layout
from rpmodels.estimators.arguments import argument
from rpmodels.estimators.base import CHECKPOINT_EVERY
from rpmodels.estimators.continuous import ContinuousEstimator
from rpmodels.estimators.description import Coordinates, Description
from rpmodels.estimators.posteriors import LatentMarginals, LatentPosterior, described, moments_of
from rpmodels.estimators.series import atoms_of_series, check_clock, read_series, times_ahead
from rpmodels.estimators.streams import Stream
from rpmodels.families import Family
from rpmodels.filtering import filtered
from rpmodels.mixtures import AtomPolicy
from rpmodels.observations import Observations
from rpmodels.priors import Prior
from rpmodels.priors.prior import Predicts
from rpmodels.priors.process import ProcessPrior

INTERVAL = 100
"""Steps between two halvings of the starts."""
ENOUGH = 0.1
"""Nats a site that the best start must have learnt before the others are dropped: a start with long length scales
leads before any other has begun to learn, and may be the one that memorises."""


class RPGPFA(ContinuousEstimator):
    """Recognition-parametrised Gaussian-process factor analysis: K smooth latents, a factor for every kind of series.

    Observations are conditionally independent over factors and over time given the latents. Data are trials:
    an array (N, T, *event), a list of (T_n, *event), or a dict {factor: either}; one array (T, D) is a long
    recording, inferred whole and trained in pieces where it is long. Observations in neighbouring bins must not share
    noise: do not smooth.

    One start of two or more begins from linear GPFA; from the fourth on, every other one of the rest begins with long
    length scales. By "auto", a step has as many trials as have
    ten thousand sites, and mixtures are pooled over time unless trials are aligned and many.

    Attributes:
        length_scales_: of every latent, in units of time
        model_, history_, restarts_, score_, clipped_, n_iter_, stop_reason_, validation_curve_: as in `RPCategorical`

    """

    description = Description("gpfa", Coordinates(), "n_latents", in_trials=True, in_time=True, takes=("times",))
    low_rate = 0.1

    n_latents = 1
    kernel: Any = argument(
        kernels.RULES["kernel"],
        "of every latent; one of your own in your own units of time, of batch shape () or (K,)", default="rbf",
    )  # fmt: skip
    n_inducing: int | str | None = argument(
        checks.Nothing() | kernels.RULES["n_inducing"],
        "M; all time points make the GP exact; None: a chain of states without any, at a cost of O(T); auto: None "
        "on trials of more than 1000 times, where the kernel allows it, else a fifth of the time points, twenty at "
        "least", default="auto",
    )  # fmt: skip
    inducing: Any = argument(
        kernels.RULES["inducing"], "evenly spaced, learned, or places (M,) or (K, M)", default="fixed"
    )
    mean: Any = argument(kernels.RULES["mean"], "function of time; None is zero", default=None)
    length_scale: float | str = argument(
        kernels.RULES["length_scale"], "where the kernel starts, in units of time; auto: one inducing spacing",
        default="auto",
    )  # fmt: skip
    window: int | str | None = argument(
        checks.Nothing() | checks.Word("auto") | checks.Integer(2),
        "times of the pieces that a long recording is cut into, with inducing points always, without any for training "
        "alone; None: never; auto: 200 with, 2000 without", default="auto",
    )  # fmt: skip
    max_iter = 400
    learning_rate = 2e-2

    # ---- building ---------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        times: Any = None,
        presence: Mapping[str, Any] | None = None,
        sample_weight: Any = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: float = CHECKPOINT_EVERY,
    ) -> "RPGPFA":
        """Learn the latents that make the observations of a trial depend on each other.

        Args:
            X: trials, see above
            y: ignored (labels and behaviour, where there are some, are factors)
            times: (T,), (N, T) or a list of (T_n,); default 0, 1, 2, …; {factor: any of these} where factors were
                sampled at different times (results are then at the times of all of them, see `posterior().times`)
            presence: {factor: (N,) or (N, T) booleans}; rows that are all NaN are missing too
            sample_weight: (N,) weights, in the free energy and in every mixture F_j
            checkpoint: a folder; the same fit, called again after it was killed, goes on where it was
            checkpoint_every: seconds between two files of a run

        """
        self._chosen()
        observations = self._read(X, times=times, presence=presence, weights=sample_weight, overlap=False)[0]
        return self._fit(observations, checkpoint, checkpoint_every)

    def _read(self, X: Any, *, overlap: bool = True, **options: Any) -> tuple[Observations, layout.Layout]:
        in_one = "known" in options and kernels.needs_no_windows(self._fitted().prior)
        window = None if in_one else self._process().read_in
        return read_series(X, self.factors, window, overlap, options, gaps=self.gaps)

    def _new(self, X: Any, **options: Any) -> tuple[Observations, layout.Layout]:
        observations, form = super()._new(X, **options)
        check_clock(observations, self._fitted().times)
        return observations, form

    def _as_for_fit(self, X: Any) -> Observations:
        return self._read(X, known=self._fitted().specs, overlap=False)[0]

    def _process(self) -> kernels.Choices:
        return kernels.Choices(
            self.kernel, self.n_inducing, self.inducing, self.mean, self.length_scale,
            self._chosen().inference.e_step, self.window,
        )  # fmt: skip

    def _prior(self, family: Family, observations: Observations) -> Prior:
        process, chosen = self._process(), self._chosen()
        prior = process.prior(family, observations)
        trials = chosen.training.batch_size, *self.sites_and_trials_a_step
        process.check_memory(prior, observations, trials, learning.dtype_of(chosen.engine.dtype).itemsize)
        return prior

    def _pieces(self, observations: Observations) -> Observations:
        return self._process().pieces(observations)

    def _atoms(self, observations: Observations) -> AtomPolicy:
        # Sites of pieces are not at the same times, wherever their clocks begin.
        cut = self._process().piece(observations.n_sites)
        aligned = cut is None or observations.n_sites < cut
        return atoms_of_series(self._chosen().inference.atoms, observations, aligned)

    def _taught(self) -> Sequence[learning.Start]:
        return [learning.SmoothStart(self.max_iter)]

    def _free(self, number: int) -> learning.Start:
        return learning.RandomStart() if number % 2 else learning.LongStart()

    def _interval(self, training: learning.TrainingSettings) -> int:
        return max(1, min(INTERVAL, training.max_iter // 4))

    def _enough(self, observations: Observations) -> float:
        return ENOUGH * float(observations.exists.sum(1).mean())

    # ---- using ------------------------------------------------------------------------------

    @property
    def length_scales_(self) -> NDArray[Any]:
        """Length scale of every latent, in units of time (of the kernel's first part that has one)."""
        return cast(ProcessPrior, self._fitted().prior).length_scales().cpu().numpy()

    def posterior(self, X: Any, *, at: Any = None, **options: Any) -> LatentPosterior:
        """Means, covariances and joint draws of the latents, from whatever factors are present.

        `at`: other times (U,), the same for every trial, at which to predict.
        """
        if at is None:
            return super().posterior(X, **options)
        observations, form = self._new(X, **options)
        if isinstance(form, layout.Recording):
            raise errors.bad_value("at", "trials (windows of a recording have their own clocks)", "a recording")
        if not checks.Array(1).fits(at):
            raise errors.bad_value("at", "finite times of shape (U,)", checks.shown(at))
        new = np.asarray(at, np.float64)
        model = self._fitted()
        predictions = []
        for each in model.posterior(observations):
            times = torch.as_tensor(new, device=model.device).expand(each.batch.size, -1)
            there = Sites(times, torch.ones_like(times, dtype=torch.bool))
            with torch.no_grad():
                predictions.append(cast(Predicts, each.posterior).at(there))
        everywhere = np.broadcast_to(new, (len(observations), len(new)))
        return described(model, predictions, layout.ArrayOfTrials(everywhere), len(new))

    def smooth(self, X: Any, **options: Any) -> LatentPosterior:
        """The same as `posterior`."""
        return self.posterior(X, **options)

    @torch.no_grad()
    def filter(self, X: Any, **options: Any) -> LatentMarginals:
        """Latents given past and present alone.

        With inducing points that is one conditioning for every time, T times the cost of `posterior`; without any, one.
        """
        observations, form = self._new(X, **options)
        states = filtered(self._fitted(), observations)
        mean, covariance = (layout.joined(each, observations.n_sites) for each in zip(*states, strict=True))
        return LatentMarginals(form.form(mean), form.form(covariance), form.times)

    def stream(self, n_series: int | None = None, *, on_drift: str | None = None) -> Stream:
        """For one new time at a time, at constant cost: `update(x, time=t)` gives mean (K,) and covariance (K, K).

        Without inducing points alone, as Matérn kernels have it. Times may be any that do not go back. Of `n_series`
        series at once everything has an axis for them.
        `on_drift`: "warn" or "raise" where the last rows are not like those of the fit.
        """
        return Stream(self._fitted(), lambda mean, covariance: (mean, covariance), n_series, on_drift)

    @torch.no_grad()
    def forecast(self, X: Any, steps: int = 1, **options: Any) -> LatentMarginals:
        """Latents in the steps after the end of every trial, a step as long as the last one of the trial."""
        observations, form = self._new(X, **options)
        model = self._fitted()
        ahead = times_ahead(observations, steps)
        etas, begun = [], 0
        for each in model.posterior(observations):
            times = torch.as_tensor(ahead[begun : begun + each.batch.size], device=model.device)
            begun += each.batch.size
            there = Sites(times, torch.ones_like(times, dtype=torch.bool))
            etas.append(cast(Predicts, each.posterior).at(there).eta)
        mean, covariance = moments_of(model, etas, steps)
        return LatentMarginals(form.ahead(mean), form.ahead(covariance), form.times_ahead(ahead))
