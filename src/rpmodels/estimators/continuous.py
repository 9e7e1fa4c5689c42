"""What estimators with continuous latents share: the choice of parts, and the verbs of a Gaussian posterior."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from rpmodels import checks, families, integration, learning, log_weight, mixtures
from rpmodels.estimators import parts, posteriors, regularisation
from rpmodels.estimators.arguments import GroupOf, argument
from rpmodels.estimators.base import RPMEstimator
from rpmodels.estimators.building import model_of_numbers
from rpmodels.estimators.channels import WithChannels
from rpmodels.estimators.description import Latents
from rpmodels.estimators.groups import Inference
from rpmodels.estimators.layout import Layout, joined
from rpmodels.estimators.population_plan import PlanningPopulations
from rpmodels.estimators.private import WithPrivate
from rpmodels.estimators.scikit import TransformerMixin
from rpmodels.free_energy import Score
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.priors import Prior
from rpmodels.seeding import spawn


class ContinuousEstimator(TransformerMixin, PlanningPopulations, RPMEstimator, WithChannels, WithPrivate, ABC):
    """RP-FA and RP-GPFA: the same parts, the same verbs, another prior."""

    usual: ClassVar[Mapping[str, Any]] = {
        "training.max_gradient_norm": 1.0,
        "search.retries": 3,
        "recognition.covariance": "diagonal",
        "inference.expected_log_mixture": "interior",
    }

    inference: Inference | None = argument(GroupOf(Inference), "how q is found and ⟨log F⟩ computed", default=None)
    n_init = 3
    gaps = True

    # ---- building ---------------------------------------------------------------------------

    @abstractmethod
    def _prior(self, family: families.Family, observations: Observations) -> Prior:
        """p(Z) for these data."""

    @abstractmethod
    def _atoms(self, observations: Observations) -> mixtures.AtomPolicy:
        """Whose observations F_j mixes."""

    @abstractmethod
    def _read(self, X: Any, **options: Any) -> tuple[Observations, Layout]:
        """The user's data, and the form that results shall have."""

    def _regularisation(self, observations: Observations) -> regularisation.Regularisation:
        return regularisation.continuous_regularisation(observations)

    def _training(self, observations: Observations) -> learning.TrainingSettings:
        return replace(super()._training(observations), alternate=self._chosen().inference.alternate)

    def _build(self, observations: Observations) -> RPM:
        return model_of_numbers(
            lambda family: self._prior(family, observations),
            self.n_latents,
            self._atoms(observations),
            observations,
            self.network,
            self._chosen(),
            self._regularisation(observations),
            self._populations(observations),
        )

    def _numbers(self, observations: Observations) -> tuple[int, int]:
        latents = self._all_latents
        full = self._populations(observations) or self._chosen().recognition.covariance == "full"
        return (latents**2,) * 2 if full else (2 * latents,) * 2

    def _move(self) -> learning.Move | None:
        return None

    def __sklearn_tags__(self) -> Any:
        """Latents have the precision of the model, not that of the data."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    # ---- using ------------------------------------------------------------------------------

    def read(self, X: Any, presence: Mapping[str, Any] | None = None, **options: Any) -> Observations:
        """New data as the library holds them, checked against what the model was fitted to."""
        return self._new(X, presence=presence, **options)[0]

    def _new(self, X: Any, **options: Any) -> tuple[Observations, Layout]:
        """New data, checked against what the model was fitted to."""
        self.description.check_options(options)
        return self._read(X, known=self._fitted().specs, **options)

    def _laid_out(self, X: Any, **options: Any) -> tuple[Observations, Layout]:
        return self._new(X, **options)

    def latents(self, X: Any, **options: Any) -> Latents:
        """Means and variances (…, K), and when they are; `options` as in `posterior`."""
        found = self.posterior(X, **options)
        return Latents(found.mean, spread=found.variance, times=found.times)

    def transform(self, X: Any, *, on_drift: str | None = None, **options: Any) -> Any:
        """Posterior means of the latents, from whatever factors are present, in the form of X.

        `on_drift`: "warn" or "raise" where data are not like those of the fit.
        """
        self._heed(on_drift, X, **options)
        observations, layout = self._new(X, **options)
        model = self._fitted()
        family = cast(families.Gaussian, model.prior.family)
        found = posteriors.means(family, (each.posterior for each in model.posterior(observations)))
        return layout.form(joined(found, observations.n_sites))

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Any:
        """fit(X).transform(X)."""
        weights = options.pop("sample_weight", None)
        return self.fit(X, y, sample_weight=weights, **options).transform(X, **options)

    def posterior(self, X: Any, *, e_step: Any = None, **options: Any) -> posteriors.LatentPosterior:
        """Means, covariances and joint draws of the latents, from whatever factors are present.

        `e_step`: another way to q than the one that the model was trained with: "natural_gradient" refines it.
        """
        observations, layout = self._new(X, **options)
        chosen = parts.other_e_step(e_step)
        found = [each.posterior for each in self._fitted().posterior(observations, chosen)]
        return posteriors.described(self._fitted(), found, layout, observations.n_sites)

    @property
    def temperature_(self) -> float:
        """How much populations are believed, so that halves of their channels agree as well as they say; 1 is all."""
        return self._fitted().temperature

    def recognise(self, x: Any, factor: str, **options: Any) -> tuple[Any, Any]:
        """f_j(z|x) of one factor alone, without the other factors and times: mean and covariance of its targets."""
        model = self._fitted()
        name = str(factor)
        observations, layout = self._new({name: x}, **options)
        family = cast(families.Gaussian, model.recogniser(name).family)
        found = [posteriors.moments(family, eta) for eta in model.recognise(observations, name)]
        mean, covariance = (layout.form(joined(each, observations.n_sites)) for each in zip(*found, strict=True))
        return mean, covariance

    def score_samples(
        self, X: Any, *, exact: bool = False, tolerance: float | None = None, **options: Any
    ) -> NDArray[np.float64]:
        """The bound on log W of every observation (`exact`, `tolerance`: as in `score`)."""
        observations = self._new(X, **options)[0]
        return self._fitted().free_energies(observations, self._quadrature(exact, observations, tolerance)).values

    def score(
        self, X: Any, y: Any = None, *, exact: bool = False, tolerance: float | None = None, **options: Any
    ) -> Score:
        """Mean bound on log W: nats above independence per observation, labelled, with ceiling and median.

        `exact` replaces the model's way to ⟨log F⟩ by quadrature (K ≤ 3): then it is the free energy itself, but for
        the error that it comes with. With a `tolerance` nodes are doubled, twice at
        the most, until that is below so many nats a site of these data.
        """
        observations = self._new(X, **options)[0]
        return self._fitted().score(observations, self._quadrature(exact, observations, tolerance))

    def _quadrature(
        self, exact: bool, observations: Observations, tolerance: float | None
    ) -> mixtures.ExpectedLogMixture | None:
        checks.Flag().check("exact", exact)
        if not exact:
            return None
        found = [cast(families.Gaussian, each.family) for _, each in self._fitted().pattern.recognisers()]
        chosen = mixtures.quadrature(max(family.latents for family in found))
        for family in found:
            chosen.check(family)
        if tolerance is None:  # as many nodes for any data, so that no observation's number depends on the others
            return chosen
        return integration.to_tolerance(self._fitted(), observations, chosen, tolerance)

    def log_weight(
        self, X: Any, *, method: str = "importance", draws: int = 200, nodes: int = 32, **options: Any
    ) -> log_weight.LogWeight:
        """log W itself (eq 4): importance sampling from q with its standard error, or quadrature (one site, K ≤ 3)."""
        observations, _ = self._new(X, **options)
        return log_weight.by_method(method, self._fitted(), observations, draws, nodes, spawn(self.random_state, 4)[3])
