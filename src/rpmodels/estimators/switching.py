"""RPSLDS: latents whose linear dynamics switch, behind one or several series of observations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from rpmodels import checks, errors, learning
from rpmodels.estimators import hidden_markov, layout, parts, series, switching_marginals
from rpmodels.estimators.arguments import argument
from rpmodels.estimators.base import CHECKPOINT_EVERY
from rpmodels.estimators.description import Coordinates, Description, Latents
from rpmodels.estimators.dynamics import DynamicsEstimator
from rpmodels.estimators.private import SHARED
from rpmodels.estimators.streams import Stream
from rpmodels.families import Family
from rpmodels.learning import switching_starts
from rpmodels.learning.batches import Divided
from rpmodels.observations import Observations
from rpmodels.priors import MarkovChainPrior, Prior, SwitchingDynamicsPrior
from rpmodels.priors.switching_filter import SwitchingState
from rpmodels.priors.switching_posterior import SwitchingPosterior


class RPSLDS(DynamicsEstimator):
    """A recognition-parametrised switching linear dynamical system, for any observation of its latents:

        s a Markov chain of M states,   z_{t+1} = A_s z_t + b_s + w_t,   w_t ~ N(0, Q_s),   s the state of time t + 1.

    z_1 ~ N(0, I) says how large latents are. Data are trials as in `RPGPFA`, equally spaced in time; time is counted in
    steps. q is a product of one over latents and one over states, each the best there is given the other: scores are
    bounds. States are those of steps; what the first time of a trial is said to be in is said by the steps after it.
    Dynamics and transitions are learned in closed form, networks by gradient with q of the states held.

    Attributes:
        A_, b_, Q_: the dynamics of every state, (M, K, K), (M, K) and (M, K, K)
        transitions_: (M, M): row i is where state i goes
        initial_: probabilities of the first state, where trials were cut
        model_, history_, restarts_, score_, clipped_, n_iter_, stop_reason_, validation_curve_: as in `RPCategorical`

    """

    description = Description("slds", Coordinates(), "n_latents", in_trials=True, in_time=True, takes=("times",))
    usual: ClassVar[Mapping[str, Any]] = {**DynamicsEstimator.usual, "training.finish": "none"}

    n_latents: int = argument(checks.Integer(1, checks.LARGEST), SHARED, default=2, kw_only=False)
    n_states: int = argument(checks.Integer(2, checks.LARGEST), "M", default=2, kw_only=False)
    transitions: Any = argument(
        hidden_markov.TRANSITIONS,
        "known probabilities (M, M), or a Dirichlet concentration of every row (variational Bayes)",
        default="learned",
    )
    sticky: float = argument(
        checks.Number(least=0.0),
        "steps of staying that a Dirichlet prior over rows of learned transitions is worth, beside one step to every "
        "state; 0: maximum likelihood",
        default=0.0,
    )
    max_iter = 1000
    n_init = 4

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
    ) -> "RPSLDS":
        """Learn the latents, their states and how they move; arguments as in `RPGPFA.fit`."""
        self._chosen()
        observations = self._read(X, times=times, presence=presence, weights=sample_weight)[0]
        series.check_moves(observations)
        return self._fit(observations, checkpoint, checkpoint_every)

    def _prior(self, family: Family, observations: Observations) -> Prior:
        return SwitchingDynamicsPrior(family, self._chain(), memory=self.memory)

    def _chain(self) -> MarkovChainPrior:
        if not self.sticky:
            return parts.markov_chain_prior(self.transitions, self.n_states)
        if not isinstance(self.transitions, str):
            raise errors.bad_value("sticky", "0 beside known transitions and other Dirichlets", self.sticky)
        return MarkovChainPrior.staying(self.n_states, self.sticky)

    def _taught(self) -> Sequence[learning.Start]:
        return [switching_starts.SwitchingStart(self.max_iter) for _ in range(self.n_init)]

    def _all_starts(self, data: Divided, training: learning.TrainingSettings) -> Sequence[learning.Start]:
        starts = super()._all_starts(data, training)
        # Populations, and who has latents of their own, begin at these and know of no states.
        others = bool(self._populations(data.everything)) or self._chosen().search.start is not None
        return [switching_starts.Grouped(each) if others and each.taught else each for each in starts]

    def _move(self) -> learning.Move | None:
        return switching_starts.Regroup(self.max_iter)

    # ---- using ------------------------------------------------------------------------------

    def latents(self, X: Any, **options: Any) -> Latents:
        """Means and variances (…, K), and of the states probabilities (…, M) and the most probable sequences (…)."""
        found = super().latents(X, **options)
        return replace(found, probabilities=self.predict_proba(X, **options), states=self.states(X, **options))

    def _posteriors(self, observations: Observations) -> list[SwitchingPosterior]:
        return [cast(SwitchingPosterior, each.posterior) for each in self._fitted().posterior(observations)]

    def states(self, X: Any, **options: Any) -> Any:
        """The most probable sequence of states (Viterbi, under q), from whatever factors are present: (…)."""
        observations, form = self._new(X, **options)
        found = [each.viterbi() for each in self._posteriors(observations)]
        return form.form(layout.joined(found, observations.n_sites))

    def predict(self, X: Any, **options: Any) -> Any:
        """The same as `states`."""
        return self.states(X, **options)

    def predict_proba(self, X: Any, **options: Any) -> Any:
        """Probabilities of the states given the whole trial: (…, M)."""
        observations, form = self._new(X, **options)
        found = [each.probabilities for each in self._posteriors(observations)]
        return form.form(layout.joined(found, observations.n_sites))

    def filter(self, X: Any, **options: Any) -> switching_marginals.SwitchingMarginals:
        """Latents and states given past and present alone: a normal for every state (interacting multiple models)."""
        observations, form = self._new(X, **options)
        whole = zip(*self._filtered(observations), strict=True)
        found = (torch.as_tensor(layout.joined(list(each), observations.n_sites)) for each in whole)
        return switching_marginals.told(SwitchingState(*found), form.form, form.times)

    @torch.no_grad()
    def forecast(self, X: Any, steps: int = 1, **options: Any) -> switching_marginals.SwitchingMarginals:
        """Latents and states in the steps after the end of every trial.

        Beyond one step a mixture has a normal for every sequence of states; those that lead to the same state become
        one with their moments, step after step.
        """
        observations, form = self._new(X, **options)
        times = series.times_ahead(observations, steps)
        _, now = self._at_the_end(observations)
        ahead = self._switching.predict(SwitchingState(*now), steps)
        return switching_marginals.told(ahead, form.ahead, form.times_ahead(times))

    def stream(self, n_series: int | None = None) -> Stream:
        """For one new time step at a time, at constant cost: `update(x)` gives what `filter` would.

        That is mean (K,), covariance (K, K) and probabilities of the states (M,); of `n_series` series at once
        everything has an axis for them.
        """
        return Stream(self._fitted(), lambda *found: found, n_series)

    @property
    def _switching(self) -> SwitchingDynamicsPrior:
        return cast(SwitchingDynamicsPrior, self._fitted().prior)

    @property
    def A_(self) -> NDArray[Any]:  # noqa: N802
        """How the latents move in every state."""
        return _array(self._switching.dynamics().A)

    @property
    def b_(self) -> NDArray[Any]:
        """Where they are pushed to."""
        return _array(self._switching.dynamics().b)

    @property
    def Q_(self) -> NDArray[Any]:  # noqa: N802
        """Covariance of the noise of a step."""
        return _array(self._switching.dynamics().Q)

    @property
    def transitions_(self) -> NDArray[Any]:
        """Of the states (the posterior mean under variational Bayes)."""
        return _array(self._switching.chain.transitions)

    @property
    def initial_(self) -> NDArray[Any]:
        """Probabilities of the first state of a piece."""
        return _array(self._switching.chain.probabilities)


def _array(tensor: Any) -> NDArray[Any]:
    return np.asarray(tensor.detach().cpu().numpy())
