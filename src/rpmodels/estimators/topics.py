"""RPLDA: textures of images, topics of texts: every observation a mixture of its own of shared categories."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rpmodels import checks, errors, learning, mixtures, priors
from rpmodels.estimators import layout, parts
from rpmodels.estimators.arguments import argument
from rpmodels.estimators.base import CHECKPOINT_EVERY, RPMEstimator
from rpmodels.estimators.common import OF_STATES
from rpmodels.estimators.description import Description, Latents, Proportions
from rpmodels.estimators.regularisation import Regularisation
from rpmodels.estimators.scikit import TransformerMixin
from rpmodels.model import RPM
from rpmodels.observations import Observations, adapters, cut_patches, read
from rpmodels.observations.patches import PADDINGS

FACTOR = "patch"
INTERVAL = 0.1
"""Share of max_iter between two halvings: mixtures of images are learnt more slowly than pairs."""
DROPOUT = 0.2
"""At least (docs/results/lda.md)."""
ATOMS: dict[str, Callable[[], mixtures.AtomPolicy]] = {"pooled": mixtures.Pooled, "per_position": mixtures.PerSite}
ALPHAS = ("fixed", "symmetric", "per_topic")


@dataclass(frozen=True)
class Representatives:
    """The patches that most surely belong to every topic: arrays (K, n), most certain first."""

    image: NDArray[np.int64]
    patch: NDArray[np.int64]
    probability: NDArray[Any]


class RPLDA(TransformerMixin, RPMEstimator):
    """Recognition-parametrised latent Dirichlet allocation (paper, "RP-LDA"), by variational Bayes.

    Data are images: an array (N, H, W) or (N, H, W, channels) or a list of images of any sizes, cut into patches here;
    or, with patch_size=None, the parts themselves: an array (N, J, *event) or a list of (J_n, *event), such as
    patches of your own or words. One recognition network is shared by all parts.

    By "auto", a step has as many observations as have five hundred parts, five at least.

    Attributes:
        alpha_: of the prior, (K,)
        model_, history_, restarts_, score_, clipped_, n_iter_, stop_reason_, validation_curve_: as in `RPCategorical`

    """

    description = Description("lda", Proportions(), "n_topics", in_trials=True, one_factor=True)
    sites_and_trials_a_step = (500, 5)

    usual: ClassVar[Mapping[str, Any]] = {"training.max_gradient_norm": 1.0}
    refused: ClassVar[Mapping[str, str]] = {**OF_STATES, "recognition.tied": "one network is shared by all parts"}

    n_topics: int = argument(checks.Integer(2, checks.LARGEST), "K", default=10, kw_only=False)
    alpha: Any = argument(
        checks.Number(above=0.0) | checks.Array(1),
        "of the Dirichlet prior over the mixture of an observation, or K of them",
        default=0.1,
    )
    learn_alpha: str = argument(
        checks.Word(*ALPHAS), "whether one number is learned, or one for every topic", default="fixed"
    )
    patch_size: int | None = argument(
        checks.Nothing() | checks.Integer(1),
        "side of the square patches that images are cut into; None for parts given as such",
        default=None,
    )
    stride: int | None = argument(
        checks.Nothing() | checks.Integer(1), "from one patch to the next; None is the patch size", default=None
    )
    padding: str = argument(
        checks.Word(*PADDINGS),
        "what becomes of pixels that fill no patch: dropped, or the image reflected",
        default="drop",
    )
    atoms: Any = argument(
        checks.Word(*ATOMS) | checks.Instance(mixtures.AtomPolicy),
        "of F_j: pooled over positions, or those of the same position",
        default="pooled",
    )
    max_iter = 800
    learning_rate = 2e-3

    # ---- building ---------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        presence: Any = None,
        sample_weight: Any = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: float = CHECKPOINT_EVERY,
    ) -> "RPLDA":
        """Learn categories of parts such that every observation is a mixture of few of them.

        Args:
            X: images or parts, see above
            y: ignored
            presence: (N, J) booleans; parts that are all NaN are missing too
            sample_weight: (N,) weights
            checkpoint: a folder; the same fit, called again after it was killed, goes on where it was
            checkpoint_every: seconds between two files of a run

        """
        self._chosen()
        observations = self._read(X, presence, weights=sample_weight)
        parts = int(observations.exists.sum())
        if self.n_topics > parts:
            raise errors.bad_value("n_topics", f"at most the number of patches ({parts})", self.n_topics)
        return self._fit(observations, checkpoint, checkpoint_every)

    def _read(self, X: Any, presence: Any = None, **options: Any) -> Observations:
        X, _ = adapters.to_trials(X, timed=False)  # rows of a frame are parts, by its first level
        if isinstance(X, Mapping):
            raise errors.one_factor_only(type(self).__name__, list(X))
        if self.patch_size is not None:
            X = [cut_patches(image, self.patch_size, self.stride, self.padding) for image in X]
        given = None if presence is None else {FACTOR: presence}
        return read({FACTOR: X}, series=True, presence=given, **options)

    def _regularisation(self, observations: Observations) -> Regularisation:
        """Patches are many but come from few images: dropout, but of no pixels, which make a texture what it is."""
        default = super()._regularisation(observations)
        images = len(observations.specs[FACTOR].event_shape) > 1
        pixels = 0.0 if images else default.input_dropout
        return replace(default, dropout=max(default.dropout, DROPOUT), input_dropout=pixels)

    def _build(self, observations: Observations) -> RPM:
        atoms = parts.named("atoms", self.atoms, ATOMS, mixtures.AtomPolicy)
        return self._model_of_states(self._prior(), atoms, observations)

    def _prior(self) -> priors.DirichletPrior:
        if self.learn_alpha == "fixed":
            return priors.DirichletPrior.fixed(self.n_topics, self.alpha)
        return priors.DirichletPrior.learned(self.n_topics, self.alpha, symmetric=self.learn_alpha == "symmetric")

    def _taught(self) -> Sequence[learning.Start]:
        # No k-means start: clusters of pixels are shades of grey, a good-looking start that no texture comes out of.
        return [learning.StatesStart(learning.Spectra(), self.max_iter)]

    def _move(self) -> learning.Move | None:
        return learning.SplitMergeSites(self.max_iter)

    def _interval(self, training: learning.TrainingSettings) -> int:
        return max(1, round(INTERVAL * training.max_iter))

    # ---- using ------------------------------------------------------------------------------

    def latents(self, X: Any, *, presence: Any = None) -> Latents:
        """Mixtures of the observations (N, K), and probabilities and topics of their parts."""
        observations = self.read(X, presence)
        posteriors = self._posteriors(observations)
        parts = self._formed([q.mu for q in posteriors], observations)
        return Latents(_proportions(posteriors), probabilities=parts, states=_most_probable(parts))

    def read(self, X: Any, presence: Any = None) -> Observations:
        """New data as the library holds them, checked against what the model was fitted to."""
        return self._read(X, presence, known=self._fitted().specs)

    def _laid_out(self, X: Any, **options: Any) -> tuple[Observations, layout.Layout]:
        self.description.check_options(options)
        observations = self.read(X, **options)
        return observations, layout.of_trials(observations.times, observations.exists, as_list=False)

    def _posteriors(self, observations: Observations) -> list[priors.DirichletPosterior]:
        return [cast(priors.DirichletPosterior, each.posterior) for each in self._fitted().posterior(observations)]

    def transform(self, X: Any, *, presence: Any = None, on_drift: str | None = None) -> NDArray[Any]:
        """ω̄, the mixture of every observation: (N, K).

        `on_drift`: "warn" or "raise" where data are not like those of the fit.
        """
        self._heed(on_drift, X, presence=presence)
        return _proportions(self._posteriors(self.read(X, presence)))

    def predict_proba(self, X: Any, *, presence: Any = None) -> Any:
        """Probabilities of the topics of every part: (N, J, K), or a list of (J_n, K) where they differ in number."""
        observations = self.read(X, presence)
        return self._formed([q.mu for q in self._posteriors(observations)], observations)

    def predict(self, X: Any, *, presence: Any = None) -> Any:
        """The most probable topic of every part: (N, J), or a list."""
        return _most_probable(self.predict_proba(X, presence=presence))

    def recognise(self, X: Any) -> Any:
        """f(z|x) of every part by itself, without its neighbours: (N, J, K), or a list."""
        model = self._fitted()
        observations = self.read(X)
        parts = [model.prior.family.mean(eta) for eta in model.recognise(observations, FACTOR)]
        return self._formed(parts, observations)

    def recognise_patch(self, patch: Any) -> NDArray[Any]:
        """f(z|x) of a single part: (K,)."""
        model = self._fitted()
        observations = read({FACTOR: [[patch]]}, series=True, known=model.specs)
        (eta,) = model.recognise(observations, FACTOR)
        return np.asarray(model.prior.family.mean(eta)[0, 0].cpu().numpy())

    def representative_patches(self, X: Any, n: int = 5) -> Representatives:
        """For every topic the n parts that are most surely recognised as it, by f(k|x)."""
        found = self.recognise(X)
        lengths = [len(each) for each in found]
        flat = np.concatenate([np.asarray(each) for each in found])
        n = min(checks.integer("n", n, 1), len(flat))
        order = np.argsort(-flat, axis=0, kind="stable")[:n].T
        image = np.repeat(np.arange(len(lengths)), lengths)
        patch = np.concatenate([np.arange(length) for length in lengths])
        return Representatives(image[order], patch[order], np.take_along_axis(flat.T, order, 1))

    @staticmethod
    def _formed(parts: list[Tensor], observations: Observations) -> Any:
        form = layout.of_trials(observations.times, observations.exists, as_list=False)
        return form.form(layout.joined(parts, observations.n_sites))

    @property
    def alpha_(self) -> NDArray[Any]:
        """α of the prior."""
        return np.asarray(cast(priors.DirichletPrior, self._fitted().prior).alpha.cpu().numpy())

    @property
    def prior_(self) -> NDArray[Any]:
        """Probabilities of the topics of any part: α/Σα."""
        return np.asarray(self.alpha_ / self.alpha_.sum())

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the topics, for data frames."""
        return np.asarray([f"topic{k}" for k in range(self.n_topics)], object)


def _proportions(posteriors: Sequence[priors.DirichletPosterior]) -> NDArray[Any]:
    """ω̄, (N, K)."""
    return np.asarray(torch.cat([q.proportions for q in posteriors]).cpu().numpy())


def _most_probable(parts: Any) -> Any:
    """The topic of every part: (N, J), or a list."""
    return [each.argmax(-1) for each in parts] if isinstance(parts, list) else parts.argmax(-1)
