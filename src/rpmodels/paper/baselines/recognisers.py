"""What the baselines of peer supervision share: one tied recognition network, read, trained and used in one way."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Shaped
from numpy.typing import NDArray
from torch import Tensor, nn

from rpmodels import checks, errors, learning, recognition
from rpmodels.carriers import Batch
from rpmodels.estimators.arguments import AUTO, Declared, argument
from rpmodels.estimators.categorical import INTERVAL
from rpmodels.estimators.names import check
from rpmodels.estimators.regularisation import either, regularisation
from rpmodels.learning.consumers import HistoryTable
from rpmodels.observations import FactorSpec, Observations, Scaling, fit_scaling, read
from rpmodels.paper.baselines.trained import BaselineModel, fit_best
from rpmodels.seeding import SEED, seeded, spawn

Estimator = TypeVar("Estimator", bound="TiedRecogniser")
AT_ONCE = 2048
"""Images that a fitted network is shown at once."""


class Results:
    """Attributes that are there after `fit`; they stand apart from where arguments are declared."""

    model_: Any
    history_: HistoryTable
    restarts_: list[learning.Attempt]
    n_iter_: int


class TiedRecogniser(Results, Declared, ABC):
    """fit(X) in scikit-learn's manner, for models whose factors are images of one kind seen by one network.

    A subclass builds the model around the network and names its verbs.
    """

    n_states: int = argument(checks.Integer(2), "K", default=10, kw_only=False)
    max_iter: int = argument(learning.RULES["max_iter"], "gradient steps", default=1000)
    learning_rate: float = argument(learning.RULES["learning_rate"], "of AdamW", default=3e-3)
    batch_size: int | None = argument(learning.RULES["batch_size"], "observations a step; None for all", default=500)
    n_init: int = argument(checks.Integer(1), "starts, all of them random", default=4)
    random_state: Any = argument(SEED, "the same number gives the same fit", default=None)
    weight_decay: float | str = argument(
        checks.Word(AUTO) | learning.RULES["weight_decay"],
        "of the recognition network; auto: more as data shrink",
        default=AUTO,
    )
    dropout: float | str = argument(
        checks.Word(AUTO) | checks.Number(least=0.0, below=1.0),
        "in the recognition network; auto: more as data shrink",
        default=AUTO,
    )
    callbacks: Sequence[Any] | None = argument(
        checks.Nothing() | checks.Listed(checks.Function()),
        "called after every step of the last run, see `rp.callbacks`",
        default=None,
    )

    @abstractmethod
    def _least_factors(self) -> int:
        """Images that make an observation."""

    @abstractmethod
    def _width(self) -> int:
        """Of the recognition network's output."""

    @abstractmethod
    def _build(self, network: nn.Module, scaling: Scaling, images: NDArray[Any]) -> BaselineModel:
        """The model around this network; `images` are those of all factors."""

    def fit(self: Estimator, X: Any, y: Any = None) -> Estimator:
        """Train from `n_init` starts and keep the best by the training criterion.

        Args:
            X: {factor: (N, *event) array}, images of one kind, row n of every factor belonging together; or one array
            y: ignored

        """
        check(self)
        observations = read(X)
        spec = _common_spec(observations)
        if self._least_factors() > 1:
            observations = _together(observations, self._least_factors())
        images = np.concatenate([observations.present_rows(name) for name in observations.specs])
        default = regularisation(len(observations))
        training = learning.TrainingSettings(
            max_iter=self.max_iter,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            weight_decay=either(self.weight_decay, default.weight_decay, "weight_decay"),
        )
        seeds = spawn(self.random_state, 3)
        scaling = fit_scaling("images", images, "auto", is_label=False)
        with seeded(seeds[0]):
            dropout = either(self.dropout, default.dropout, "dropout", below=1.0)
            network = recognition_network(spec, self._width(), dropout, default.hidden)
            model = self._build(network, scaling, images)
        run, attempts = fit_best(
            model,
            observations,
            training,
            n_init=self.n_init,
            interval=max(1, round(INTERVAL * training.max_iter)),
            random_state=seeds[1],
            callbacks=self.callbacks,
        )
        self.model_, self.restarts_, self._spec = run.model, attempts, spec
        self.history_, self.n_iter_ = run.history.table(), run.step
        self._finish(images, seeds[2])
        return self

    def _finish(self, images: NDArray[Any], seed: int) -> None:
        """What is made of the trained network and all training images."""

    def _read(self, images: Any) -> NDArray[Any]:
        """New images, checked against those of training."""
        if not hasattr(self, "model_"):
            raise errors.not_fitted(type(self).__name__)
        observations = read({"images": images}, known={"images": self._spec})
        if not observations.present["images"].all():
            missing = int((~observations.present["images"]).sum())
            raise errors.bad_value("images", "numbers in every row", f"{missing} row(s) of NaN")
        return np.asarray(observations.values["images"][:, 0])


def recognition_network(spec: FactorSpec, n_out: int, dropout: float, hidden: tuple[int, ...]) -> nn.Module:
    """The network that an RPM would have for these images."""
    shape = spec.event_shape
    if len(shape) in (2, 3) and min(shape[-2:]) >= recognition.ConvolutionalNetwork.minimum:
        return recognition.ConvolutionalNetwork(shape, n_out, dropout=dropout)
    return recognition.MLP(shape, n_out, hidden, dropout)


def in_parts(images: NDArray[Any]) -> list[Shaped[Tensor, "n *event"]]:
    """Images as tensors, not too many at once."""
    return [torch.tensor(part) for part in np.array_split(images, max(1, -(-len(images) // AT_ONCE)))]


class Target(ABC):
    """Which image a code must generate."""

    least_factors: int

    @abstractmethod
    def __call__(self, batch: Batch) -> tuple[Shaped[Tensor, "n *event"], Shaped[Tensor, "n *event"]]:
        """Images to recognise, and to generate."""


class SameImage(Target):
    """The one that was recognised."""

    least_factors = 1

    def __call__(self, batch: Batch) -> tuple[Shaped[Tensor, "n *event"], Shaped[Tensor, "n *event"]]:
        """Twice the same."""
        images = torch.cat([inputs[batch.present[name]] for name, inputs in batch.inputs.items()])
        return images, images


class PeerImage(Target):
    """Another one of the same observation: the next factor's, the last one's being the first."""

    least_factors = 2

    def __call__(self, batch: Batch) -> tuple[Shaped[Tensor, "n *event"], Shaped[Tensor, "n *event"]]:
        """Where both are there."""
        names = list(batch.inputs)
        pairs = list(zip(names, names[1:] + names[:1], strict=True))
        both = [batch.present[own] & batch.present[peer] for own, peer in pairs]
        seen = [batch.inputs[own][have] for (own, _), have in zip(pairs, both, strict=True)]
        wanted = [batch.inputs[peer][have] for (_, peer), have in zip(pairs, both, strict=True)]
        return torch.cat(seen), torch.cat(wanted)


TARGETS: Mapping[str, type[Target]] = {"same": SameImage, "peer": PeerImage}


def _common_spec(observations: Observations) -> FactorSpec:
    """What all factors look like."""
    first, *others = observations.specs.values()
    if first.is_label or any(each != first for each in others):
        shapes = {name: "labels" if s.is_label else s.event_shape for name, s in observations.specs.items()}
        raise errors.bad_value("X", "factors of numbers with one event shape, for one network", shapes)
    return first


def _together(observations: Observations, least: int) -> Observations:
    """The observations that have so many images at least."""
    if len(observations.specs) < least:
        raise errors.bad_value("X", f"a dict of at least {least} factors", len(observations.specs))
    observations.check_learnable(across_sites=False)
    enough = np.sum([have[:, 0] for have in observations.present.values()], axis=0) >= least
    return observations if enough.all() else observations.subset(np.flatnonzero(enough))
