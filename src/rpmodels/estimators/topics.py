"""RPLDA: textures of images, topics of texts: every observation a mixture of its own of shared categories."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from torch import Tensor

from rpmodels import checks, errors
from rpmodels.estimators import choices
from rpmodels.estimators.base import CHECKPOINT_EVERY, RPMEstimator
from rpmodels.estimators.layout import joined
from rpmodels.learning import AsGiven, Move, RandomStart, SpectralStart, SplitMergeSites, Start, Training
from rpmodels.mixtures import AtomPolicy, PerSite, Pooled
from rpmodels.model import RPM
from rpmodels.observations import Observations, cut_patches, read
from rpmodels.priors import DirichletPosterior, DirichletPrior

FACTOR = "patch"
INTERVAL = 0.1
"""Share of max_iter between two halvings: mixtures of images are learnt more slowly than pairs."""
DROPOUT = 0.2
"""At least (docs/results/lda.md)."""
ATOMS: dict[str, Callable[[], AtomPolicy]] = {"pooled": Pooled, "per_position": PerSite}
ALPHAS = ("fixed", "symmetric", "per_topic")


@dataclass(frozen=True)
class Representatives:
    """The patches that most surely belong to every topic: arrays (K, n), most certain first."""

    image: NDArray[np.int64]
    patch: NDArray[np.int64]
    probability: NDArray[Any]


class RPLDA(TransformerMixin, RPMEstimator):  # type: ignore[misc]
    """Recognition-parametrised latent Dirichlet allocation (paper, "RP-LDA"), by variational Bayes.

    Data are images: an array (N, H, W) or (N, H, W, channels) or a list of images of any sizes, cut into patches here;
    or, with patch_size=None, the parts themselves: an array (N, J, *event) or a list of (J_n, *event), such as
    patches of your own or words. One recognition network is shared by all parts.

    Args:
        n_topics: K
        alpha: of the Dirichlet prior over the mixture of an observation: a number, or K of them
        learn_alpha: "fixed", "symmetric" (one number is learned) or "per_topic"
        patch_size: side of the square patches that images are cut into; None for parts given as such
        stride: from one patch to the next; the patch size by default
        padding: "drop" pixels that fill no patch, or "reflect" the image until they do
        atoms: "pooled" over positions, or a mixture F_j "per_position"
        network: "auto", "linear", "mlp", "cnn", "lookup", or your own nn.Module (n, *event) → (n, K)
        head, scaling, max_iter, tol, learning_rate: as in `RPCategorical`
        batch_size: observations a step; "auto": as many as have five hundred parts, five at least
        n_init: starts, judged early by free energy
        warm_start, n_jobs, random_state, device, dtype, verbose: as in `RPCategorical`
        weight_decay, dropout, input_dropout, validation_fraction, patience: as in `RPCategorical`
        max_gradient_norm, optimiser, scheduler, callbacks, engine: as in `RPCategorical`

    Attributes:
        alpha_: of the prior, (K,)
        model_, history_, restarts_, score_, clipped_, n_iter_, stop_reason_, validation_curve_: as in `RPCategorical`

    """

    sites_and_trials_a_step = (500, 5)

    n_topics: int
    alpha: Any
    learn_alpha: str
    patch_size: int | None
    stride: int | None
    padding: str
    atoms: Any

    def __init__(
        self,
        n_topics: int = 10,
        *,
        alpha: Any = 0.1,
        learn_alpha: str = "fixed",
        patch_size: int | None = None,
        stride: int | None = None,
        padding: str = "drop",
        atoms: Any = "pooled",
        network: Any = "auto",
        head: str = "relative",
        scaling: str = "auto",
        max_iter: int = 800,
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
        max_gradient_norm: float | None = 1.0,
        optimiser: Any = None,
        scheduler: Any = None,
        callbacks: Sequence[Any] | None = None,
        engine: Mapping[str, Any] | None = None,
    ) -> None:
        self._remember(locals())

    tied = False
    factors = None

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
        observations = self._read(X, presence, weights=sample_weight)
        parts = int(observations.exists.sum())
        if checks.integer("n_topics", self.n_topics, 2) > parts:
            raise errors.bad_value("n_topics", f"at most the number of patches ({parts})", self.n_topics)
        return self._fit(observations, checkpoint, checkpoint_every)

    def _read(self, X: Any, presence: Any = None, **options: Any) -> Observations:
        if self.patch_size is not None:
            X = [cut_patches(image, self.patch_size, self.stride, self.padding) for image in X]
        given = None if presence is None else {FACTOR: presence}
        return read({FACTOR: X}, series=True, presence=given, **options)

    def _regularisation(self, observations: Observations) -> choices.Regularisation:
        """Patches are many but come from few images: dropout, but of no pixels, which make a texture what it is."""
        default = super()._regularisation(observations)
        images = len(observations.specs[FACTOR].event_shape) > 1
        pixels = 0.0 if images else default.input_dropout
        return replace(default, dropout=max(default.dropout, DROPOUT), input_dropout=pixels)

    def _build(self, observations: Observations) -> RPM:
        atoms = choices.named("atoms", self.atoms, ATOMS, AtomPolicy)
        return self._discrete(self._prior(), atoms, observations)

    def _prior(self) -> DirichletPrior:
        if self.learn_alpha not in ALPHAS:
            raise errors.bad_choice("learn_alpha", ALPHAS, self.learn_alpha)
        if self.learn_alpha == "fixed":
            return DirichletPrior.fixed(self.n_topics, self.alpha)
        return DirichletPrior.learned(self.n_topics, self.alpha, symmetric=self.learn_alpha == "symmetric")

    def _starts(self) -> Sequence[Start]:
        # No k-means start: clusters of pixels are shades of grey, a good-looking start that no texture comes out of.
        random = [RandomStart() for _ in range(self.n_init - 2)]
        return [AsGiven(), *random, SpectralStart()][: self.n_init]

    def _move(self) -> Move | None:
        return SplitMergeSites()

    def _interval(self, training: Training) -> int:
        return max(1, round(INTERVAL * training.max_iter))

    # ---- using ------------------------------------------------------------------------------

    def read(self, X: Any, presence: Any = None) -> Observations:
        """New data as the library holds them, checked against what the model was fitted to."""
        return self._read(X, presence, known=self._fitted().specs)

    def _posteriors(self, observations: Observations) -> list[DirichletPosterior]:
        return [cast(DirichletPosterior, each.posterior) for each in self._fitted().posterior(observations)]

    def transform(self, X: Any, *, presence: Any = None) -> NDArray[Any]:
        """ω̄, the mixture of every observation: (N, K)."""
        posteriors = self._posteriors(self.read(X, presence))
        return np.asarray(torch.cat([q.proportions for q in posteriors]).cpu().numpy())

    def predict_proba(self, X: Any, *, presence: Any = None) -> Any:
        """Probabilities of the topics of every part: (N, J, K), or a list of (J_n, K) where they differ in number."""
        observations = self.read(X, presence)
        return self._formed([q.mu for q in self._posteriors(observations)], observations)

    def predict(self, X: Any, *, presence: Any = None) -> Any:
        """The most probable topic of every part: (N, J), or a list."""
        found = self.predict_proba(X, presence=presence)
        return [each.argmax(-1) for each in found] if isinstance(found, list) else found.argmax(-1)

    def recognise(self, X: Any) -> Any:
        """f(z|x) of every part by itself, without its neighbours: (N, J, K), or a list."""
        model = self._fitted()
        observations = self.read(X)
        parts = [model.prior.family.mean(eta) for eta in model.recognise(observations, FACTOR)]
        return self._formed(parts, observations)

    def recognise_patch(self, patch: Any) -> NDArray[Any]:
        """f(z|x) of a single part: (K,)."""
        model = self._fitted()
        observations = read({FACTOR: [np.asarray(patch)[None]]}, series=True, known=model.specs)
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
        values = joined(parts, observations.n_sites)
        if observations.exists.all():
            return values
        return [each[:length] for each, length in zip(values, observations.exists.sum(1), strict=True)]

    @property
    def alpha_(self) -> NDArray[Any]:
        """α of the prior."""
        return np.asarray(cast(DirichletPrior, self._fitted().prior).alpha.cpu().numpy())

    @property
    def prior_(self) -> NDArray[Any]:
        """Probabilities of the topics of any part: α/Σα."""
        return np.asarray(self.alpha_ / self.alpha_.sum())

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the topics, for data frames."""
        return np.asarray([f"topic{k}" for k in range(self.n_topics)], object)
