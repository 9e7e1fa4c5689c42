"""What estimators of latents with linear dynamics share: how data are read and cut, and the verbs of their past."""

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rpmodels import checks, learning
from rpmodels.estimators import layout
from rpmodels.estimators.arguments import argument
from rpmodels.estimators.continuous import ContinuousEstimator
from rpmodels.estimators.posteriors import LatentPosterior
from rpmodels.estimators.series import atoms_of_series, check_steps, read_series
from rpmodels.filtering import Moments, filtered
from rpmodels.mixtures import AtomPolicy
from rpmodels.observations import Observations, windowed

INTERVAL = 100
ENOUGH = 0.1


class DynamicsEstimator(ContinuousEstimator, ABC):
    """Latents whose steps are linear, one law or several."""

    low_rate = 0.1
    usual: ClassVar[Mapping[str, Any]] = {"inference.atoms": "pooled", "recognition.covariance": "full"}
    refused: ClassVar[Mapping[str, str]] = {
        "recognition.covariance": "dynamics mix the latents, so their posterior is never diagonal"
    }

    memory: float = argument(
        checks.Number(above=0.0, below=1.0),
        "of one step, where learning starts: A = memory × a slight rotation",
        default=0.9,
    )
    window: int = argument(
        checks.Integer(2), "length of the pieces that trials are cut into for training; inference is over whole trials",
        default=200,
    )  # fmt: skip
    max_iter = 400
    learning_rate = 1e-2

    # ---- building ---------------------------------------------------------------------------

    def _new(self, X: Any, **options: Any) -> tuple[Observations, layout.Layout]:
        observations, form = super()._new(X, **options)
        check_steps(observations, self._fitted().times)
        return observations, form

    def _read(self, X: Any, **options: Any) -> tuple[Observations, layout.Layout]:
        return read_series(X, self.factors, None, False, options, gaps=self.gaps)

    def _pieces(self, observations: Observations) -> Observations:
        return windowed(observations, self.window)

    def _atoms(self, observations: Observations) -> AtomPolicy:
        return atoms_of_series(self._chosen().inference.atoms, observations)

    def _interval(self, training: learning.TrainingSettings) -> int:
        return max(1, min(INTERVAL, training.max_iter // 4))

    def _enough(self, observations: Observations) -> float:
        return ENOUGH * float(observations.exists.sum(1).mean())

    # ---- using ------------------------------------------------------------------------------

    def smooth(self, X: Any, **options: Any) -> LatentPosterior:
        """The same as `posterior`."""
        return self.posterior(X, **options)

    def _filtered(self, observations: Observations) -> list[Moments]:
        return list(filtered(self._fitted(), observations))

    def _at_the_end(self, observations: Observations) -> tuple[Tensor, list[Tensor]]:
        """The last site of every trial, and the parts of what is known there from past and present."""
        last = torch.as_tensor(np.maximum(observations.exists.sum(1) - 1, 0), device=self._fitted().device)
        trials = torch.arange(len(last), device=last.device)
        whole: Sequence[Any] = list(zip(*self._filtered(observations), strict=True))
        return last, [
            torch.cat([layout.padded_to(part, observations.n_sites) for part in parts])[trials, last] for parts in whole
        ]
