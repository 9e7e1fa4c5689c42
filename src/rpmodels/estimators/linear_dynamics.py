"""RPLDS: latents with linear dynamics behind one or several series of observations."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rpmodels import checks, errors, learning
from rpmodels.estimators import layout
from rpmodels.estimators.arguments import argument
from rpmodels.estimators.base import CHECKPOINT_EVERY
from rpmodels.estimators.description import Coordinates, Description
from rpmodels.estimators.dynamics import DynamicsEstimator
from rpmodels.estimators.posteriors import LatentMarginals
from rpmodels.estimators.series import check_moves, times_ahead
from rpmodels.estimators.streams import Stream
from rpmodels.families import Family
from rpmodels.observations import Observations
from rpmodels.priors import LinearDynamicsPrior, Prior


class RPLDS(DynamicsEstimator):
    """A recognition-parametrised linear dynamical system: z_{t+1} = A z_t + B u_t + w_t, any observation of z_t.

    Latents are stationary with covariance I, which loses nothing: any stable system can be written so. Data are
    trials as in `RPGPFA`, equally spaced in time; time is counted in steps.

    Inputs u that drive the system (stimuli, commands) are given as `inputs=` to `fit`, and then to every verb: an array
    (N, T, U) or a list of (T_n, U), known at every time; u_t acts on the way from t to t + 1. They may have any scale.

    Attributes:
        A_: the dynamics, (K, K)
        B_: how inputs drive the latents, (K, U)
        eigenvalues_: of A, slowest first
        time_constants_: steps in which each of them decays to 1/e
        model_, history_, restarts_, score_, clipped_, n_iter_, stop_reason_, validation_curve_: as in `RPCategorical`

    """

    description = Description(
        "lds", Coordinates(), "n_latents", in_trials=True, in_time=True, takes=("times", "inputs")
    )

    dynamics: Any = argument(
        checks.Word("learned") | checks.Number(above=0.0),
        "point estimates of A, B and Q, or the steps that a conjugate prior over them is worth (variational Bayes)",
        default="learned",
    )

    # ---- building ---------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        times: Any = None,
        inputs: Any = None,
        presence: Mapping[str, Any] | None = None,
        sample_weight: Any = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: float = CHECKPOINT_EVERY,
    ) -> "RPLDS":
        """Learn the latents and how they move; `inputs` are u, see above, other arguments as in `RPGPFA.fit`."""
        self._chosen()
        observations = self._read(X, times=times, inputs=inputs, presence=presence, weights=sample_weight)[0]
        check_moves(observations)
        return self._fit(observations, checkpoint, checkpoint_every)

    def _prior(self, family: Family, observations: Observations) -> Prior:
        n_inputs = 0 if observations.u is None else observations.u.shape[-1]
        counts = None if isinstance(self.dynamics, str) else float(self.dynamics)
        prior = LinearDynamicsPrior(family, n_inputs=n_inputs, memory=self.memory, counts=counts)
        if observations.u is None:
            return prior
        prior.inputs.learn(*(torch.as_tensor(np.array(each)) for each in (observations.u, observations.exists)))
        return prior

    def _taught(self) -> Sequence[learning.Start]:
        return [learning.SmoothStart(self.max_iter)]

    # ---- using ------------------------------------------------------------------------------

    def filter(self, X: Any, **options: Any) -> LatentMarginals:
        """Latents given past and present alone."""
        observations, form = self._new(X, **options)
        states = self._filtered(observations)
        mean, covariance = (layout.joined(each, observations.n_sites) for each in zip(*states, strict=True))
        return LatentMarginals(form.form(mean), form.form(covariance), form.times)

    @torch.no_grad()
    def forecast(self, X: Any, steps: int = 1, *, inputs_ahead: Any = None, **options: Any) -> LatentMarginals:
        """Latents in the steps after the end of every trial, with what is not known of them.

        `inputs_ahead` are u at those steps, (N, steps, U) or (steps, U) for all trials; zero by default.
        """
        observations, form = self._new(X, **options)
        times = times_ahead(observations, steps)
        last, (mean, covariance) = self._at_the_end(observations)
        ahead = self._dynamics.predict(mean, covariance, steps, self._driving(observations, last, steps, inputs_ahead))
        means, covariances = (form.ahead(each.cpu().numpy()) for each in (ahead.mean, ahead.covariance))
        return LatentMarginals(means, covariances, form.times_ahead(times))

    def _driving(self, observations: Observations, last: Tensor, steps: int, ahead: Any) -> Tensor | None:
        """u at the last time of every trial and at the steps − 1 after it."""
        shape = (len(observations), steps, self._dynamics.n_inputs)
        if observations.u is None:
            if ahead is not None:
                raise errors.bad_value(
                    "inputs_ahead", "None, as the model was fitted without inputs", type(ahead).__name__
                )
            return None
        known = np.zeros(shape) if ahead is None else np.asarray(ahead, np.float64)
        if known.shape not in (shape, shape[1:]) or not np.isfinite(known).all():
            expected = f"finite numbers of shape {shape} or {shape[1:]}"
            raise errors.bad_value("inputs_ahead", expected, f"shape {known.shape}")
        now = observations.u[np.arange(len(observations)), last.cpu().numpy()]
        driving = np.concatenate([now[:, None], np.broadcast_to(known, shape)[:, :-1]], 1)
        return torch.as_tensor(driving, device=last.device)

    def stream(self, n_series: int | None = None, *, on_drift: str | None = None) -> Stream:
        """For one new time step at a time, at constant cost: `update(x)` gives mean (K,) and covariance (K, K).

        With inputs, `update(x, inputs=u)`: those of the same time, which act on the way to the next. Of `n_series`
        series at once everything has an axis for them.
        `on_drift`: "warn" or "raise" where the last rows are not like those of the fit.
        """
        return Stream(self._fitted(), lambda mean, covariance: (mean, covariance), n_series, on_drift)

    @property
    def _dynamics(self) -> LinearDynamicsPrior:
        return cast(LinearDynamicsPrior, self._fitted().prior)

    @property
    def A_(self) -> NDArray[Any]:  # noqa: N802
        """The dynamics of the latents as they are scaled here (stationary covariance I)."""
        return np.asarray(self._dynamics.dynamics().detach().cpu().numpy())

    @property
    def B_(self) -> NDArray[Any]:  # noqa: N802
        """How one unit of every input moves the latents in a step."""
        return np.asarray((self._dynamics.inputs.B / self._dynamics.inputs.scales).detach().cpu().numpy())

    @property
    def eigenvalues_(self) -> NDArray[np.complex128]:
        """Of A, slowest first; no linear map of the latents changes them."""
        return np.asarray(self._dynamics.eigenvalues().detach().cpu().numpy())

    @property
    def time_constants_(self) -> NDArray[np.float64]:
        """Steps in which each mode decays to 1/e: −1/log of its modulus."""
        return np.asarray(-1.0 / np.log(np.abs(self.eigenvalues_)))
