"""RPGraph: several discrete latents with names, and factors that each speak of some of them, by exact likelihood."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from rpmodels import checks, errors, generative, learning
from rpmodels.estimators import parts
from rpmodels.estimators.arguments import argument
from rpmodels.estimators.base import RPMEstimator
from rpmodels.estimators.common import OF_STATES, WithFactors
from rpmodels.estimators.description import Description, Latents, SeveralStates
from rpmodels.estimators.regularisation import has_plenty
from rpmodels.estimators.scikit import TransformerMixin
from rpmodels.learning.graph_starts import RandomGraph, ScopesStart
from rpmodels.mixtures import PerSite
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.priors import DiscreteGraph, GraphPosterior

INTERVAL = 0.055
"""Share of max_iter between two comparisons of the starts."""
NAMES = checks.Listed(checks.Instance(str, called="a name"))


class RPGraph(WithFactors, TransformerMixin, RPMEstimator):
    """A recognition-parametrised model with several discrete latents, p(z) = ∏ p(z_a | parents), and factors on some.

    A factor says how likely every joint state of its latents is. Inference is exact, by a junction tree. Where nothing
    comes first, `cliques` give sets of latents potentials on their joint states in the place of parents.

        RPGraph({"place": 4, "object": 6}, parents={"object": ["place"]},
                targets={"camera": ["object"], "sound": ["object", "place"]})

    Attributes:
        tables_: {latent: p(latent | parents)}, an axis for every parent and one of its own; of all but those in cliques
        potentials_: {clique: log ψ}, an axis for every latent of a clique, of mean zero
        prior_: {latent: probabilities of its states}
        model_, history_, restarts_, score_, clipped_, n_iter_, stop_reason_, validation_curve_: as in `RPCategorical`

    """

    description = Description("graph", SeveralStates(), "states")
    usual: ClassVar[Mapping[str, Any]] = {"training.batch_size": 500}
    refused: ClassVar[Mapping[str, str]] = {
        **OF_STATES,
        "recognition.targets": "what its factors speak of is an argument of its own, `targets`",
    }
    strong = learning.Strong()

    states: Any = argument(
        checks.Integer(2, checks.LARGEST) | checks.ByFactor(checks.Integer(2, checks.LARGEST), key="latent"),
        "of every latent, by its name; a number is one latent, called state", default=10, kw_only=False,
    )  # fmt: skip
    parents: Mapping[str, Sequence[str]] | None = argument(
        checks.Nothing() | checks.ByFactor(NAMES, key="latent"), "of every latent that has some", default=None
    )
    cliques: Sequence[Sequence[str]] | None = argument(
        checks.Nothing() | checks.Listed(NAMES),
        "sets of latents with a potential on their joint states, learned by gradient; these have no parents",
        default=None,
    )
    targets: Mapping[str, Sequence[str]] | None = argument(
        checks.Nothing() | checks.ByFactor(NAMES),
        "the latents that a factor speaks of, in the order of its joint states; others speak of all",
        default=None,
    )
    tables: Any = argument(
        checks.Word("learned")
        | checks.Number(above=0.0)
        | checks.ByFactor(checks.Array(1, 2, 3, 4, 5, 6), key="latent"),
        "p(latent | parents): learned, a Dirichlet concentration of every row (variational Bayes), or known tables of "
        "some latents (an axis for every parent and one of their own), others learned",
        default="learned",
    )
    largest: int = argument(
        checks.Integer(2), "joint states that a clique of the junction tree may have", default=2**14
    )
    learning_rate = 3e-3
    n_init = 6

    # ---- building ---------------------------------------------------------------------------

    @property
    def _sizes(self) -> dict[str, int]:
        """Numbers of states by name."""
        if isinstance(self.states, Mapping):
            return {str(name): int(each) for name, each in self.states.items()}
        return {"state": int(self.states)}

    @property
    def _cliques(self) -> list[tuple[str, ...]]:
        return [tuple(str(name) for name in each) for each in self.cliques or ()]

    def _targets(self, factors: Iterable[str]) -> dict[str, list[str]]:
        """What every factor speaks of."""
        given = {str(name): [str(each) for each in latents] for name, latents in (self.targets or {}).items()}
        for name, latents in given.items():
            for each in latents:
                if each not in self._sizes:
                    raise errors.bad_choice(f"targets of factor '{name}'", list(self._sizes), each)
        known = list(factors)
        for name in given:
            if name not in known:
                raise errors.unknown_factor(name, known)
        return {name: given.get(name, list(self._sizes)) for name in known}

    def _build(self, observations: Observations) -> RPM:
        targets = self._targets(observations.specs)
        prior = parts.graph_prior(
            self.tables, self._sizes, self.parents, list(targets.values()), self.largest, self._cliques
        )
        return self._model_of_states(prior, PerSite(), observations, targets)

    def _taught(self) -> Sequence[learning.Start]:
        return [ScopesStart(self.max_iter) for _ in range(max(1, self.n_init // 2))]

    def _free(self, number: int) -> learning.Start:
        return RandomGraph()

    def _has_straight(self, observations: Observations) -> bool:
        return has_plenty(observations)

    def _move(self) -> learning.Move | None:
        return None

    def _interval(self, training: learning.TrainingSettings) -> int:
        return max(1, round(INTERVAL * training.max_iter))

    # ---- using ------------------------------------------------------------------------------

    def latents(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> Latents:
        """Probabilities of all latents side by side (N, ΣK), and the most probable configuration (N, A)."""
        posteriors = self._posteriors(X, presence)
        each = self._marginals(posteriors)
        values = np.concatenate(each, -1)
        return Latents(values, probabilities=each, states=_configurations(posteriors), sizes=self._sizes)

    def _posteriors(self, X: Any, presence: Mapping[str, Any] | None) -> list[GraphPosterior]:
        found = self._fitted().posterior(self.read(X, presence))
        return [cast(GraphPosterior, each.posterior) for each in found]

    @staticmethod
    def _marginals(posteriors: Sequence[GraphPosterior]) -> list[NDArray[Any]]:
        names = posteriors[0].family.names
        return [_rows(q.joint([name]) for q in posteriors) for name in names]

    def predict(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> NDArray[np.int64]:
        """The most probable configuration (N, A), latents in the order of `states`."""
        return _configurations(self._posteriors(X, presence))

    def fit_predict(self, X: Any, y: Any = None, **fit_params: Any) -> NDArray[np.int64]:
        """fit(X).predict(X)."""
        return self.fit(X, y, **fit_params).predict(X, presence=fit_params.get("presence"))

    def predict_proba(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> list[NDArray[Any]]:
        """Probabilities of the states of every latent, (N, K) each, in scikit-learn's form for several outputs."""
        return self._marginals(self._posteriors(X, presence))

    def marginals(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> dict[str, NDArray[Any]]:
        """The same by name."""
        return dict(zip(self._sizes, self.predict_proba(X, presence=presence), strict=True))

    def transform(
        self, X: Any, *, presence: Mapping[str, Any] | None = None, on_drift: str | None = None
    ) -> NDArray[Any]:
        """The same side by side: (N, ΣK).

        `on_drift`: "warn" or "raise" where data are not like those of the fit.
        """
        self._heed(on_drift, X, presence=presence)
        return np.concatenate(self.predict_proba(X, presence=presence), -1)

    def joint(self, X: Any, latents: Sequence[str], *, presence: Mapping[str, Any] | None = None) -> NDArray[Any]:
        """Probabilities of the joint states of some latents, in any order: N, then an axis for each."""
        return _rows(q.joint([str(each) for each in latents]) for q in self._posteriors(X, presence))

    def recognise(self, x: Any, factor: str) -> NDArray[Any]:
        """f_j(z|x) of one factor alone, over the joint states of its latents: N, then an axis for each."""
        model = self._fitted()
        factor = str(factor)
        family = model.recogniser(factor).family
        found = _rows(family.mean(eta) for eta in model.recognise(self.read({factor: x}), factor))
        return found.reshape(len(found), *self._shape(factor))

    def _states_of(self, name: str) -> tuple[int, ...]:
        """Of every latent that a factor speaks of."""
        return self._shape(name)

    def _shape(self, factor: str) -> tuple[int, ...]:
        sizes = list(self._sizes.values())
        return tuple(sizes[a] for a in self._fitted().pattern.speaks_of(factor))

    def state_names(self, factor: str) -> NDArray[Any]:
        """The likeliest label of every joint state of the latents of a factor of labels: an axis for each."""
        name = self._factor(factor)
        table = generative.label_table(self._fitted(), name)
        names = np.asarray(self._fitted().specs[name].vocabulary)
        return np.asarray(names[table.argmax(-1).cpu().numpy()]).reshape(self._shape(name))

    def predict_label(self, X: Any, factor: str, *, presence: Mapping[str, Any] | None = None) -> NDArray[Any]:
        """The likeliest label of every observation (N,), from whatever other factors are present."""
        names = np.asarray(self._fitted().specs[self._factor(factor)].vocabulary)
        return np.asarray(names[self.label_probabilities(X, factor, presence=presence).argmax(-1)])

    def label_probabilities(self, X: Any, factor: str, *, presence: Mapping[str, Any] | None = None) -> NDArray[Any]:
        """p(label given the other factors), (N, labels): Σ over joint states of q(states) p(label | states)."""
        model, name = self._fitted(), self._factor(factor)
        table = generative.label_table(model, name).cpu().numpy()
        spoken = [list(self._sizes)[a] for a in model.pattern.speaks_of(name)]
        others = {key: each for key, each in X.items() if str(key) != name} if isinstance(X, Mapping) else X
        found = self.joint(others, spoken, presence=presence).reshape(-1, math.prod(self._shape(name)))
        return np.asarray(found @ table)

    @property
    def _prior(self) -> DiscreteGraph:
        return cast(DiscreteGraph, self._fitted().prior)

    @property
    def tables_(self) -> dict[str, NDArray[Any]]:
        """p(latent | parents) of every latent (its posterior mean under variational Bayes)."""
        coupled = {name for each in self._cliques for name in each}
        known = [name for name in self._prior.names if name not in coupled]
        return {name: np.asarray(self._prior.table(name).cpu().numpy()) for name in known}

    @property
    def potentials_(self) -> dict[tuple[str, ...], NDArray[Any]]:
        """log ψ of every clique, an axis for every latent in the order given."""
        return {each: np.asarray(self._prior.log_potential(each).cpu().numpy()) for each in self._cliques}

    @property
    def prior_(self) -> dict[str, NDArray[Any]]:
        """Probabilities of the states of every latent, before anything is seen."""
        return {name: np.asarray(each.cpu().numpy()) for name, each in self._prior.marginals().items()}

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns of `transform`, for data frames."""
        return np.asarray([f"{name}{k}" for name, size in self._sizes.items() for k in range(size)], object)


@torch.no_grad()
def _configurations(posteriors: Iterable[GraphPosterior]) -> NDArray[np.int64]:
    """Most probable ones of batches of single sites: (N, A)."""
    return np.asarray(torch.cat([q.most_probable()[:, 0] for q in posteriors]).cpu().numpy())


def _rows(found: Iterable[Float[Tensor, "n 1 *states"]]) -> NDArray[Any]:
    """Batches of single sites as one array."""
    return np.asarray(torch.cat([part[:, 0] for part in found]).cpu().numpy())
