"""Verbs that bring a fitted model to other data: another population."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from rpmodels.fitted import FittedRPM
from rpmodels.free_energy import Score
from rpmodels.learning.adapting import Shift, adapted, shift_of
from rpmodels.observations import Observations
from rpmodels.profile import profile_of
from rpmodels.told import told_by

Own = TypeVar("Own", bound="WithAdapting")


class WithAdapting(ABC):
    """For every estimator: what the new data are is said by its class, what they teach by the model."""

    model_: FittedRPM
    score_: Score
    shift_: Shift
    """What another p(Z) is worth, where there is one (`adapt_prior`)."""

    @abstractmethod
    def _fitted(self) -> FittedRPM:
        """The fitted model."""

    @abstractmethod
    def _pieces(self, observations: Observations) -> Observations:
        """What is learned from at once."""

    @abstractmethod
    def apart(self, X: Any, **options: Any) -> Observations:
        """New data without what is shown twice."""

    def adapt_prior(self: Own, X: Any, *, presence: Mapping[str, Any] | None = None, **options: Any) -> Own:
        """A new fitted estimator whose p(Z) is that of other data, unlabelled; everything else is as it was.

        For a population that has shifted: states are more or less frequent, follow each other otherwise, latents are
        slower or turn faster, and what they do to observations is the same. State probabilities, transitions, tables
        and potentials of a graph are learned by maximum likelihood, known ones and those under Dirichlets too; length
        scales and linear dynamics by free energy. Of one state the optimum is unique, and found.

        p(x_j|z) = p₀(x_j) f_j/F_j (eq 1–2) keeps F_j of the fit, so the sum over new observations of
        log Σ_u π_u ∏_j f_j(u|x_j)/F_j(u) is concave in π. A new observation is added to the atoms that it is compared
        with, as in every score: f_j/F_j is then at most their number and one, and does not depend on π.

        `shift_` says what the new p(Z) is worth and whether that is more than chance, `score_` what the data score
        under it. The profile that tells whether data belong is that of the new ones, where no factor is missing.

        Args:
            X: as `score` takes it; any factor may be missing
            presence: as in `score`
            options: what else `score` takes of data (times, inputs)

        """
        before, whole = self._fitted(), self.apart(X, presence=presence, **options)
        whole.check_something()
        observations = self._pieces(whole)
        model = adapted(before, observations)
        again = copy.copy(self)
        again.model_, again.shift_ = model, shift_of(before, model, observations)
        energies = model.free_energies(whole)
        again.score_ = model.score(whole)
        if all(have.any() for have in whole.present.values()):
            distances = -energies.prior.double().cpu().numpy()
            model.profile = profile_of(whole, told_by(model, whole, np.asarray(energies.values), distances))
        return again
