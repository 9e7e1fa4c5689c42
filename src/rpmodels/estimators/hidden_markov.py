"""RPHMM: a discrete latent that moves along time, behind one or several series of observations."""

import numbers
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rpmodels import checks, learning, priors
from rpmodels.estimators import parts
from rpmodels.estimators.arguments import argument
from rpmodels.estimators.base import CHECKPOINT_EVERY, RPMEstimator
from rpmodels.estimators.common import OF_STATES, WithFactors
from rpmodels.estimators.description import Description, Latents, States
from rpmodels.estimators.layout import Layout, joined, padded_to
from rpmodels.estimators.series import check_moves, read_series
from rpmodels.estimators.streams import Stream
from rpmodels.learning.series_clusters import KMeansOverTime
from rpmodels.mixtures import Pooled
from rpmodels.model import RPM
from rpmodels.observations import Observations, windowed

INTERVAL = 0.055


class RPHMM(WithFactors, RPMEstimator):
    """A recognition-parametrised hidden Markov model: K states along time, exact likelihood, any observation.

    Data are trials, as in `RPGPFA`: an array (N, T, *event), a list of (T_n, *event), or a dict {factor: either}; one
    array (T, D) is a long recording. Time is counted in steps. Results have the form of the data.

    With several starts half of them are taught, the first by k-means of what sites and their neighbours show. By
    "auto", a step has as many pieces as have a thousand sites, ten at least.

    Attributes:
        transitions_: A, (K, K): row i is where state i goes
        initial_: probabilities of the first state; of any state, where trials were cut
        model_, history_, restarts_, score_, clipped_, n_iter_, stop_reason_, validation_curve_: as in `RPCategorical`

    """

    description = Description("hmm", States(), "n_states", in_trials=True, in_time=True)
    sites_and_trials_a_step = (1_000, 10)

    refused = OF_STATES

    n_states: int = argument(checks.Integer(2), "K", default=5, kw_only=False)
    transitions: Any = argument(
        checks.Word("learned") | checks.Number(above=0.0) | checks.Array(2),
        "known probabilities (K, K), or a Dirichlet concentration of every row (variational Bayes)", default="learned",
    )  # fmt: skip
    window: int = argument(
        checks.Integer(2), "length of the pieces that trials are cut into for training; inference is over whole trials",
        default=100,
    )  # fmt: skip
    max_iter = 600
    learning_rate = 2e-3

    # ---- building ---------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        presence: Mapping[str, Any] | None = None,
        sample_weight: Any = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: float = CHECKPOINT_EVERY,
    ) -> "RPHMM":
        """Learn the states and how they follow each other; see `RPGPFA.fit` for the arguments."""
        self._chosen()
        observations = self._read(X, presence=presence, weights=sample_weight)[0]
        check_moves(observations)
        return self._fit(observations, checkpoint, checkpoint_every)

    def _read(self, X: Any, **options: Any) -> tuple[Observations, Layout]:
        return read_series(X, self.factors, None, False, options)

    def _pieces(self, observations: Observations) -> Observations:
        return windowed(observations, self.window)

    def _build(self, observations: Observations) -> RPM:
        return self._model_of_states(parts.markov_chain_prior(self.transitions, self.n_states), Pooled(), observations)

    def _has_straight(self, observations: Observations) -> bool:
        return True

    @property
    def _transitions_known(self) -> bool:
        """Then they tell the states apart, and what proposes states in any order is of no use."""
        return not isinstance(self.transitions, str | numbers.Real)

    def _taught(self) -> Sequence[learning.Start]:
        kinds = () if self._transitions_known else (KMeansOverTime(), learning.Mixture())
        return [learning.StatesStart(each, self.max_iter) for each in kinds]

    def _move(self) -> learning.Move | None:
        return None if self._transitions_known else learning.SplitMergeSites(self.max_iter)

    def _interval(self, training: learning.TrainingSettings) -> int:
        return max(1, round(INTERVAL * training.max_iter))

    # ---- using ------------------------------------------------------------------------------

    def latents(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> Latents:
        """Probabilities of the states (…, K), and their most probable sequences (…) with their times."""
        observations, layout = self._new(X, presence)
        posteriors = self._posteriors(observations)
        found, states = (
            layout.form(joined(each, observations.n_sites))
            for each in ([q.mu for q in posteriors], [q.viterbi() for q in posteriors])
        )
        return Latents(found, probabilities=found, states=states, times=layout.times)

    def read(self, X: Any, presence: Mapping[str, Any] | None = None) -> Observations:
        """New data as the library holds them, checked against what the model was fitted to."""
        return self._new(X, presence)[0]

    def _new(self, X: Any, presence: Mapping[str, Any] | None) -> tuple[Observations, Layout]:
        return self._read(X, known=self._fitted().specs, presence=presence)

    def _laid_out(self, X: Any, **options: Any) -> tuple[Observations, Layout]:
        return self._new(X, options.pop("presence", None), **options)

    def _posteriors(self, observations: Observations) -> list[priors.MarkovChainPosterior]:
        inferred = self._fitted().posterior(observations)
        return [cast(priors.MarkovChainPosterior, each.posterior) for each in inferred]

    def predict(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> Any:
        """The most probable sequence of states (Viterbi), from whatever factors are present."""
        observations, layout = self._new(X, presence)
        return layout.form(joined([q.viterbi() for q in self._posteriors(observations)], observations.n_sites))

    def predict_proba(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> Any:
        """Probabilities of the states given the whole trial: (…, K)."""
        observations, layout = self._new(X, presence)
        return layout.form(joined([q.mu for q in self._posteriors(observations)], observations.n_sites))

    def smooth(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> Any:
        """The same as `predict_proba`."""
        return self.predict_proba(X, presence=presence)

    def filter(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> Any:
        """Probabilities of the states given past and present alone: (…, K)."""
        observations, layout = self._new(X, presence)
        return layout.form(joined(self._filtered(observations), observations.n_sites))

    @torch.no_grad()
    def _filtered(self, observations: Observations) -> list[Tensor]:
        return [q.filtered for q in self._posteriors(observations)]

    @torch.no_grad()
    def forecast(self, X: Any, steps: int = 1, *, presence: Mapping[str, Any] | None = None) -> Any:
        """Probabilities of the states in the steps after the end of every trial: (N, steps, K); (steps, K) of one."""
        checks.integer("steps", steps, 1)
        observations, layout = self._new(X, presence)
        last = torch.as_tensor(np.maximum(observations.exists.sum(1) - 1, 0), device=self._fitted().device)
        filtered = torch.cat([padded_to(each, observations.n_sites) for each in self._filtered(observations)])
        now = filtered[torch.arange(len(last), device=last.device), last]
        return layout.ahead(self._prior.predict(now, steps).cpu().numpy())

    def stream(self) -> Stream:
        """For one new time step at a time, at constant cost: `update(x)` gives what `filter` would."""

        def potential(x: Any) -> Tensor:
            now = self._read(x, known=self._fitted().specs)[0]
            return self._posteriors(now)[0].potentials[:, 0]

        names = list(self._fitted().specs)
        return Stream(self._prior, potential, names, lambda state: state.probabilities[0].cpu().numpy())

    def recognise(self, x: Any, factor: str) -> Any:
        """f_j(z|x) of one factor alone, without times or the other factors: (…, K)."""
        model = self._fitted()
        name = str(factor)
        observations, layout = self._new({name: x}, None)
        parts = [model.prior.family.mean(eta) for eta in model.recognise(observations, name)]
        return layout.form(joined(parts, observations.n_sites))

    @property
    def _prior(self) -> priors.MarkovChainPrior:
        return cast(priors.MarkovChainPrior, self._fitted().prior)

    @property
    def transitions_(self) -> NDArray[Any]:
        """A (its posterior mean under variational Bayes)."""
        return np.asarray(self._prior.transitions.cpu().numpy())

    @property
    def initial_(self) -> NDArray[Any]:
        """Probabilities of the first state of a piece."""
        return np.asarray(self._prior.probabilities.cpu().numpy())

    @property
    def prior_(self) -> NDArray[Any]:
        """Probabilities of the states at any time: where the transitions lead in the long run."""
        return np.asarray(priors.stationary(self._prior.transitions.double().cpu()).numpy())
