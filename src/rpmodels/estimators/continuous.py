"""What estimators with continuous latents share: the choice of parts, and the verbs of a Gaussian posterior."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.utils import Tags
from torch import Tensor, nn

from rpmodels import errors, log_weight
from rpmodels.checks import Integer
from rpmodels.estimators import choices, tables
from rpmodels.estimators.arguments import GroupOf, argument
from rpmodels.estimators.base import RPMEstimator
from rpmodels.estimators.common import WithFactors
from rpmodels.estimators.description import Latents
from rpmodels.estimators.groups import Inference
from rpmodels.estimators.layout import Layout, joined
from rpmodels.estimators.marginals import variances
from rpmodels.estimators.scikit import TransformerMixin
from rpmodels.families import Family, Gaussian
from rpmodels.fitted import FittedRPM
from rpmodels.free_energy import Score
from rpmodels.inference import EStep
from rpmodels.learning import Move, TrainingSettings
from rpmodels.mixtures import AtomPolicy, ExpectedLogMixture, Marginal, quadrature
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.priors import Posterior, Prior
from rpmodels.recognition import ConstantPrecision
from rpmodels.seeding import spawn


@dataclass(frozen=True)
class LatentPosterior:
    """The latents as the model sees them, in the form of the input: arrays (…, K), or lists of them."""

    mean: Any
    covariance: Any
    """(…, K, K): over the latents, at every time."""
    times: Any
    """When they are, in the same form; None for data without time."""
    draws: Callable[[int, int], Any]

    @property
    def variance(self) -> Any:
        """(…, K)."""
        return variances(self.covariance)

    def sample(self, n_samples: int = 1, random_state: int = 0) -> Any:
        """Joint draws over all times and latents: a list of `n_samples`, each in the form of the mean."""
        return self.draws(n_samples, random_state)


class ContinuousEstimator(TransformerMixin, WithFactors, RPMEstimator, ABC):
    """RP-FA and RP-GPFA: the same parts, the same verbs, another prior."""

    usual: ClassVar[Mapping[str, Any]] = {
        "training.max_gradient_norm": 1.0,
        "search.retries": 3,
        "recognition.covariance": "diagonal",
    }

    n_latents: int = argument(Integer(1), "K", default=2, kw_only=False)
    inference: Inference | None = argument(GroupOf(Inference), "how q is found and ⟨log F⟩ computed", default=None)
    n_init = 3

    # ---- building ---------------------------------------------------------------------------

    @abstractmethod
    def _prior(self, family: Family, observations: Observations) -> Prior:
        """p(Z) for these data."""

    @abstractmethod
    def _atoms(self, observations: Observations) -> AtomPolicy:
        """Whose observations F_j mixes."""

    @abstractmethod
    def _read(self, X: Any, **options: Any) -> tuple[Observations, Layout]:
        """The user's data, and the form that results shall have."""

    def _regularisation(self, observations: Observations) -> choices.Regularisation:
        return choices.continuous_regularisation(observations)

    def _training(self, observations: Observations) -> TrainingSettings:
        return replace(super()._training(observations), alternate=self._chosen().inference.alternate)

    def _build(self, observations: Observations) -> RPM:
        default = self._regularisation(observations)
        recognition, inference = self._chosen().recognition, self._chosen().inference
        covariance, targets = recognition.covariance, recognition.targets or {}
        family = choices.family(covariance, self.n_latents)
        latents = {name: len(targets.get(name, range(self.n_latents))) for name in observations.specs}
        raw = {name: choices.family(covariance, max(1, count)).raw_size for name, count in latents.items()}
        constant = recognition.precision == "constant"
        networks = choices.networks(
            choices.linear_for_counts(self.network, observations),
            recognition.tied,
            observations,
            latents if constant else raw,
            choices.either(recognition.dropout, default.dropout, "dropout", below=1.0),
            default.hidden,
        )
        if constant:
            networks = _with_constant_precision(networks, latents, raw)
        names = choices.APPROXIMATIONS
        largest = max(latents.values())
        return RPM(
            self._prior(family, observations),
            networks,
            e_step=choices.named("e_step", inference.e_step, choices.E_STEPS, EStep),
            expected_log_mixture=choices.named(
                "expected_log_mixture", inference.expected_log_mixture, names, ExpectedLogMixture, largest
            ),
            atoms=self._atoms(observations),
            head=choices.head(recognition.head),
            targets=recognition.targets,
            marginal=choices.named("marginal", inference.marginal, choices.MARGINALS, Marginal),
            scaling=recognition.scaling,
            input_dropout=choices.either(recognition.input_dropout, default.input_dropout, "input_dropout", below=1.0),
            computing=self._chosen().engine.computing(),
        )

    def _move(self) -> Move | None:
        return None

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the latents, for data frames."""
        return np.asarray(tables.names_of_latents(self, self.n_latents))

    def __sklearn_tags__(self) -> Tags:
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
        return self._read(X, known=self._fitted().specs, **options)

    def latents(self, X: Any, **options: Any) -> Latents:
        """Means and variances (…, K), and when they are; `options` as in `posterior`."""
        found = self.posterior(X, **options)
        return Latents(found.mean, spread=found.variance, times=found.times)

    def transform(self, X: Any, **options: Any) -> Any:
        """Posterior means of the latents, from whatever factors are present, in the form of X."""
        observations, layout = self._new(X, **options)
        model = self._fitted()
        parts = [_moments(model, each.posterior.eta)[0] for each in model.posterior(observations)]
        return layout.form(joined(parts, observations.n_sites))

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Any:
        """fit(X).transform(X)."""
        weights = options.pop("sample_weight", None)
        return self.fit(X, y, sample_weight=weights, **options).transform(X, **options)

    def posterior(self, X: Any, *, e_step: Any = None, **options: Any) -> LatentPosterior:
        """Means, covariances and joint draws of the latents, from whatever factors are present.

        `e_step`: another way to q than the one that the model was trained with: "natural_gradient" refines it.
        """
        observations, layout = self._new(X, **options)
        chosen = None if e_step is None else choices.named("e_step", e_step, choices.E_STEPS, EStep)
        posteriors = [each.posterior for each in self._fitted().posterior(observations, chosen)]
        return self._described(posteriors, layout, observations.n_sites)

    def _described(self, posteriors: Sequence[Posterior], layout: Layout, n_sites: int) -> LatentPosterior:
        mean, covariance = self._moments_of([posterior.eta for posterior in posteriors], n_sites)

        def draws(n_samples: int, random_state: int) -> list[Any]:
            generator = torch.Generator(self._fitted().device).manual_seed(spawn(random_state, 1)[0])
            with torch.no_grad():
                return [
                    layout.form(joined([posterior.sample(generator) for posterior in posteriors], n_sites))
                    for _ in range(n_samples)
                ]

        return LatentPosterior(layout.form(mean), layout.form(covariance), layout.times, draws)

    def _moments_of(self, etas: Sequence[Tensor], n_sites: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Means and covariances of batches of sites, each as one array."""
        moments = [_moments(self._fitted(), eta) for eta in etas]
        mean, covariance = (joined(each, n_sites) for each in zip(*moments, strict=True))
        return mean, covariance

    def recognise(self, x: Any, factor: str, **options: Any) -> tuple[Any, Any]:
        """f_j(z|x) of one factor alone, without the other factors and times: mean and covariance of its targets."""
        model = self._fitted()
        name = str(factor)
        observations, layout = self._new({name: x}, **options)
        family = cast(Gaussian, model.recogniser(name).family)
        means, covariances = [], []
        for eta in model.recognise(observations, name):
            means.append(family.moments(eta)[0])
            covariances.append(family.covariance(eta))
        sites = observations.n_sites
        return layout.form(joined(means, sites)), layout.form(joined(covariances, sites))

    def score_samples(self, X: Any, *, exact: bool = False, **options: Any) -> NDArray[np.float64]:
        """The bound on log W of every observation (with `exact`, ⟨log F⟩ by quadrature, K ≤ 3)."""
        return self._fitted().free_energies(self._new(X, **options)[0], self._quadrature(exact)).values

    def score(self, X: Any, y: Any = None, *, exact: bool = False, **options: Any) -> Score:
        """Mean bound on log W: nats above independence per observation, labelled, with ceiling and median.

        `exact` replaces the model's way to ⟨log F⟩ by quadrature (K ≤ 3): then it is the free energy itself.
        """
        score = self._fitted().score(self._new(X, **options)[0], self._quadrature(exact))
        return score.called("the free energy, a lower bound of the") if exact else score

    def _quadrature(self, exact: bool) -> ExpectedLogMixture | None:
        if not exact:
            return None
        families = [cast(Gaussian, each.family) for _, each in self._fitted().pattern.recognisers()]
        chosen = quadrature(max(family.latents for family in families))
        for family in families:
            chosen.check(family)
        return chosen

    def log_weight(
        self, X: Any, *, method: str = "importance", draws: int = 200, nodes: int = 32, **options: Any
    ) -> log_weight.LogWeight:
        """log W itself (eq 4): importance sampling from q with its standard error, or quadrature (one site, K ≤ 3)."""
        model = self._fitted()
        observations, _ = self._new(X, **options)
        if method == "quadrature":
            return log_weight.by_quadrature(model, observations, nodes)
        if method != "importance":
            raise errors.bad_choice("method", ("importance", "quadrature"), method)
        generator = torch.Generator(model.device).manual_seed(spawn(self.random_state, 4)[3])
        return log_weight.importance(model, observations, draws, generator)


def _with_constant_precision(
    networks: Mapping[str, nn.Module], first: Mapping[str, int], raw: Mapping[str, int]
) -> dict[str, nn.Module]:
    """Networks that factors share stay shared, their constant with them."""
    wrapped = {id(network): ConstantPrecision(network, first[name], raw[name]) for name, network in networks.items()}
    return {name: wrapped[id(network)] for name, network in networks.items()}


@torch.no_grad()
def _moments(model: FittedRPM, eta: Float[Tensor, "N T D"]) -> tuple[Float[Tensor, "N T K"], Float[Tensor, "N T K K"]]:
    family = cast(Gaussian, model.prior.family)
    return family.moments(eta)[0], family.covariance(eta)
