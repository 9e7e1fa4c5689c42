"""RPHMM: a discrete latent that moves along time, behind one or several series of observations."""

import numbers
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rpmodels import checks
from rpmodels.carriers import Sites
from rpmodels.estimators import choices
from rpmodels.estimators.base import CHECKPOINT_EVERY, RPMEstimator
from rpmodels.estimators.layout import Layout, joined, padded_to
from rpmodels.estimators.series import check_moves, read_series
from rpmodels.estimators.streams import Stream
from rpmodels.learning import AsGiven, KMeansStart, Move, RandomStart, SplitMergeSites, Start, Training
from rpmodels.mixtures import Pooled
from rpmodels.model import RPM
from rpmodels.observations import Observations, windowed
from rpmodels.priors import MarkovChainPosterior, MarkovChainPrior, stationary
from rpmodels.seeding import spawn

INTERVAL = 0.055


class RPHMM(RPMEstimator):
    """A recognition-parametrised hidden Markov model: K states along time, exact likelihood, any observation.

    Data are trials, as in `RPGPFA`: an array (N, T, *event), a list of (T_n, *event), or a dict {factor: either}; one
    array (T, D) is a long recording. Time is counted in steps. Results have the form of the data.

    Args:
        n_states: K
        transitions: "learned", a (K, K) matrix of known probabilities, or a number: Dirichlet concentration of every
            row (variational Bayes)
        window: trials are cut into pieces of this length for training; inference is over whole trials
        network, tied, factors, head, scaling: as in `RPCategorical`
        max_iter, tol, learning_rate: as in `RPCategorical`
        batch_size: pieces a step; "auto": as many as have a thousand sites, ten at least
        n_init: starts, judged early by free energy; the last is k-means when there are several
        warm_start, n_jobs, random_state, device, dtype, verbose: as in `RPCategorical`
        weight_decay, dropout, input_dropout, validation_fraction, patience: as in `RPCategorical`
        max_gradient_norm, optimiser, scheduler, callbacks, engine: as in `RPCategorical`

    Attributes:
        transitions_: A, (K, K): row i is where state i goes
        initial_: probabilities of the first state; of any state, where trials were cut
        model_, history_, restarts_, score_, clipped_, n_iter_, stop_reason_, validation_curve_: as in `RPCategorical`

    """

    sites_and_trials_a_step = (1_000, 10)

    n_states: int
    transitions: Any
    window: int

    def __init__(
        self,
        n_states: int = 5,
        *,
        transitions: Any = "learned",
        window: int = 100,
        network: Any = "auto",
        tied: bool = False,
        factors: Mapping[str, Any] | None = None,
        head: str = "relative",
        scaling: str | Mapping[str, str] = "auto",
        max_iter: int = 600,
        tol: float | None = None,
        learning_rate: float = 2e-3,
        batch_size: int | str | None = "auto",
        n_init: int = 4,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | None = None,
        device: str = "auto",
        dtype: str = "float32",
        verbose: int = 0,
        weight_decay: float | str = "auto",
        dropout: float | str = "auto",
        input_dropout: float | str = "auto",
        validation_fraction: float = 0.0,
        patience: int = 200,
        max_gradient_norm: float | None = None,
        optimiser: Any = None,
        scheduler: Any = None,
        callbacks: Sequence[Any] | None = None,
        engine: Mapping[str, Any] | None = None,
    ) -> None:
        self._remember(locals())

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
        observations = self._read(X, presence=presence, weights=sample_weight)[0]
        check_moves(observations)
        return self._fit(observations, checkpoint, checkpoint_every)

    def _read(self, X: Any, **options: Any) -> tuple[Observations, Layout]:
        return read_series(X, self.factors, None, False, options)

    def _pieces(self, observations: Observations) -> Observations:
        return windowed(observations, checks.integer("window", self.window, 2))

    def _build(self, observations: Observations) -> RPM:
        checks.integer("n_states", self.n_states, 2)
        return self._discrete(choices.markov_chain_prior(self.transitions, self.n_states), Pooled(), observations)

    @property
    def _transitions_known(self) -> bool:
        """Then they tell the states apart, and what proposes states in any order is of no use."""
        return not isinstance(self.transitions, str | numbers.Real)

    def _starts(self) -> Sequence[Start]:
        random = [RandomStart() for _ in range(self.n_init - 2)]
        return [AsGiven(), *random, RandomStart() if self._transitions_known else KMeansStart()][: self.n_init]

    def _move(self) -> Move | None:
        return None if self._transitions_known else SplitMergeSites()

    def _interval(self, training: Training) -> int:
        return max(1, round(INTERVAL * training.max_iter))

    # ---- using ------------------------------------------------------------------------------

    def read(self, X: Any, presence: Mapping[str, Any] | None = None) -> Observations:
        """New data as the library holds them, checked against what the model was fitted to."""
        return self._new(X, presence)[0]

    def _new(self, X: Any, presence: Mapping[str, Any] | None) -> tuple[Observations, Layout]:
        return self._read(X, known=self._fitted().specs, presence=presence)

    def _posteriors(self, observations: Observations) -> list[MarkovChainPosterior]:
        inferred = self._fitted().posterior(observations)
        return [cast(MarkovChainPosterior, each.posterior) for each in inferred]

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

    @torch.no_grad()
    def sample(self, n_samples: int = 1, length: int = 100) -> NDArray[np.int64]:
        """Sequences of states from the prior: (n_samples, length)."""
        model = self._fitted()
        generator = torch.Generator(model.device).manual_seed(spawn(self.random_state, 3)[2])
        times = torch.arange(length, dtype=torch.float64, device=model.device).expand(n_samples, -1)
        return np.asarray(self._prior.sample(Sites(times, torch.ones_like(times, dtype=torch.bool)), generator).cpu())

    @property
    def _prior(self) -> MarkovChainPrior:
        return cast(MarkovChainPrior, self._fitted().prior)

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
        return np.asarray(stationary(self._prior.transitions.double().cpu()).numpy())
