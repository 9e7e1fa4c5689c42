"""RPHMM: discrete latents that move along time, behind one or several series of observations."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rpmodels import checks, learning
from rpmodels.estimators import labelled
from rpmodels.estimators.arguments import argument
from rpmodels.estimators.base import CHECKPOINT_EVERY, RPMEstimator
from rpmodels.estimators.chains import ChainPosterior, ChainPrior, DescriptionByArguments, Moving, moving
from rpmodels.estimators.common import OF_STATES, WithFactors
from rpmodels.estimators.description import Latents
from rpmodels.estimators.layout import Layout, joined, padded_to
from rpmodels.estimators.series import check_moves, read_series
from rpmodels.estimators.streams import Stream
from rpmodels.mixtures import Pooled
from rpmodels.model import RPM
from rpmodels.observations import Observations, windowed

INTERVAL = 0.055
TRANSITIONS = checks.Word("learned") | checks.Number(above=0.0) | checks.Array(2)


class RPHMM(WithFactors, RPMEstimator):
    """A recognition-parametrised hidden Markov model: K states along time, exact likelihood, any observation.

    Several chains that move independently have names, and factors speak of some of them; a state whose end depends on
    how long it has been there has a longest duration (semi-Markov):

        RPHMM({"speaker": 3, "word": 8}, targets={"camera": ["speaker"]})
        RPHMM(3, durations=20)

    With several chains probabilities are {chain: (…, K)}, and states (…, chains) in the order of the names.

    Data are trials, as in `RPGPFA`: an array (N, T, *event), a list of (T_n, *event), or a dict {factor: either}; one
    array (T, D) is a long recording. Time is counted in steps. Results have the form of the data.

    With several starts half of them are taught, the first by k-means of what sites and their neighbours show. By
    "auto", a step has as many pieces as have a thousand sites, ten at least.

    Attributes:
        transitions_: A, (K, K): row i is where state i goes; of several chains {chain: A}; with durations where it goes
            when it ends
        durations_: with durations, (K, durations): p(a state lasts 1, 2, … steps), the last for as many or more
        initial_: probabilities of the first state; of any state, where trials were cut
        model_, history_, restarts_, score_, clipped_, n_iter_, stop_reason_, validation_curve_: as in `RPCategorical`

    """

    description = DescriptionByArguments()
    sites_and_trials_a_step = (1_000, 10)

    refused: ClassVar[Mapping[str, str]] = {
        **OF_STATES,
        "recognition.targets": "what its factors speak of is an argument of its own, `targets`",
    }

    n_states: Any = argument(
        checks.Integer(2, checks.LARGEST) | checks.ByFactor(checks.Integer(2, checks.LARGEST), key="chain"),
        "K, or that of every one of several chains by its name", default=5, kw_only=False,
    )  # fmt: skip
    transitions: Any = argument(
        TRANSITIONS | checks.ByFactor(TRANSITIONS, "any of these", key="chain"),
        "known probabilities (K, K), or a Dirichlet concentration of every row (variational Bayes); by chain, where "
        "there are several; with durations those of going to each other state",
        default="learned",
    )
    durations: int | None = argument(
        checks.Nothing() | checks.Integer(2, checks.LARGEST),
        "steps up to which the durations of states are told apart and learned; None: their ends have no memory",
        default=None,
    )
    targets: Mapping[str, Sequence[str]] | None = argument(
        checks.Nothing() | checks.ByFactor(checks.Listed(checks.Instance(str, called="a name"))),
        "the chains that a factor speaks of, in the order of its joint states; others speak of all",
        default=None,
    )
    window: int = argument(
        checks.Integer(2), "length of the pieces that trials are cut into for training; inference is over whole trials",
        default=100,
    )  # fmt: skip
    max_iter = 600
    learning_rate = 2e-3

    @property
    def _moving(self) -> Moving:
        return moving(self.n_states, self.durations)

    def _numbers(self, observations: Observations) -> tuple[int, int]:
        states = math.prod(self.n_states.values()) if isinstance(self.n_states, Mapping) else self.n_states
        states *= self.durations or 1
        return states, states**2

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
        moving = self._moving
        targets = moving.targets(self.targets, list(observations.specs))
        return self._model_of_states(moving.prior(self.transitions), Pooled(), observations, targets)

    def _has_straight(self, observations: Observations) -> bool:
        return True

    def _taught(self) -> Sequence[learning.Start]:
        return [] if Moving.known(self.transitions) else self._moving.starts(self.max_iter)

    def _move(self) -> learning.Move | None:
        known = Moving.known(self.transitions) or labelled.is_pinned(self.factors)
        return None if known else self._moving.move(self.max_iter)

    def _interval(self, training: learning.TrainingSettings) -> int:
        return max(1, round(INTERVAL * training.max_iter))

    # ---- using ------------------------------------------------------------------------------

    def latents(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> Latents:
        """Probabilities of the states (…, K), and their most probable sequences (…) with their times.

        Of several chains the values are those of all of them side by side.
        """
        observations, layout = self._new(X, presence)
        posteriors, moving = self._posteriors(observations), self._moving
        found = joined([q.mu for q in posteriors], observations.n_sites)
        states = layout.form(joined([moving.states(q.viterbi()) for q in posteriors], observations.n_sites))
        probabilities, values = moving.shown(found, layout.form), layout.form(moving.side_by_side(found))
        return Latents(values, probabilities=probabilities, states=states, times=layout.times, sizes=moving.sizes)

    def read(self, X: Any, presence: Mapping[str, Any] | None = None) -> Observations:
        """New data as the library holds them, checked against what the model was fitted to."""
        return self._new(X, presence)[0]

    def _new(self, X: Any, presence: Mapping[str, Any] | None) -> tuple[Observations, Layout]:
        return self._read(X, known=self._fitted().specs, presence=presence)

    def _laid_out(self, X: Any, **options: Any) -> tuple[Observations, Layout]:
        self.description.check_options(options)
        return self._new(X, options.get("presence"))

    def _posteriors(self, observations: Observations) -> list[ChainPosterior]:
        return [cast(ChainPosterior, each.posterior) for each in self._fitted().posterior(observations)]

    def predict(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> Any:
        """The most probable sequence of states (Viterbi), from whatever factors are present."""
        observations, layout = self._new(X, presence)
        found = [self._moving.states(q.viterbi()) for q in self._posteriors(observations)]
        return layout.form(joined(found, observations.n_sites))

    def predict_proba(self, X: Any, *, presence: Mapping[str, Any] | None = None, on_drift: str | None = None) -> Any:
        """Probabilities of the states given the whole trial: (…, K).

        `on_drift`: "warn" or "raise" where data are not like those of the fit.
        """
        self._heed(on_drift, X, presence=presence)
        observations, layout = self._new(X, presence)
        found = joined([q.mu for q in self._posteriors(observations)], observations.n_sites)
        return self._moving.shown(found, layout.form)

    def smooth(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> Any:
        """The same as `predict_proba`."""
        return self.predict_proba(X, presence=presence)

    def filter(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> Any:
        """Probabilities of the states given past and present alone: (…, K)."""
        observations, layout = self._new(X, presence)
        return self._moving.shown(joined(self._filtered(observations), observations.n_sites), layout.form)

    @torch.no_grad()
    def _filtered(self, observations: Observations) -> list[Tensor]:
        return [q.filtered for q in self._posteriors(observations)]

    @torch.no_grad()
    def forecast(self, X: Any, steps: int = 1, *, presence: Mapping[str, Any] | None = None) -> Any:
        """Probabilities of the states in the steps after the end of every trial: (N, steps, K); (steps, K) of one."""
        checks.integer("steps", steps, 1, checks.LARGEST)
        observations, layout = self._new(X, presence)
        last = torch.as_tensor(np.maximum(observations.exists.sum(1) - 1, 0), device=self._fitted().device)
        filtered = torch.cat([padded_to(each, observations.n_sites) for each in self._filtered(observations)])
        now = filtered[torch.arange(len(last), device=last.device), last]
        return self._moving.shown(self._prior.predict(now, steps).cpu().numpy(), layout.ahead)

    def stream(self, n_series: int | None = None, *, on_drift: str | None = None) -> Stream:
        """For one new time step at a time, at constant cost: `update(x)` gives what `filter` would.

        Of `n_series` series at once everything has an axis for them.
        `on_drift`: "warn" or "raise" where the last rows are not like those of the fit.
        """
        return Stream(self._fitted(), self._moving.apart, n_series, on_drift)

    def recognise(self, x: Any, factor: str) -> Any:
        """f_j(z|x) of one factor alone, without times or the other factors: (…, K), an axis for each of its chains."""
        model = self._fitted()
        name = str(factor)
        observations, layout = self._new({name: x}, None)
        family = model.recogniser(name).family
        found = joined([family.mean(eta) for eta in model.recognise(observations, name)], observations.n_sites)
        if self._moving.sizes is not None:
            found = found.reshape(*found.shape[:-1], *self._states_of(name))
        return layout.form(found)

    def _states_of(self, name: str) -> tuple[int, ...]:
        sizes = self._moving.sizes
        if sizes is None:
            return super()._states_of(name)
        return tuple(list(sizes.values())[a] for a in self._fitted().pattern.speaks_of(name))

    @property
    def _prior(self) -> ChainPrior:
        return cast(ChainPrior, self._fitted().prior)

    @property
    def transitions_(self) -> Any:
        """A (its posterior mean under variational Bayes)."""
        return self._moving.transitions(self._prior)

    @property
    def durations_(self) -> NDArray[Any]:
        """p(a state lasts 1, 2, … steps), where they are learned."""
        return self._moving.durations(self._prior)

    @property
    def initial_(self) -> Any:
        """Probabilities of the first state of a piece."""
        return self._moving.initial(self._prior)

    @property
    def prior_(self) -> Any:
        """Probabilities of the states at any time: where the transitions lead in the long run."""
        return self._moving.in_the_long_run(self._prior)
