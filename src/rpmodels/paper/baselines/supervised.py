"""The ceiling of peer supervision: the same recognition network, trained with labels, by the same loop."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rpmodels.carriers import Batch
from rpmodels.learning import Minibatches, Objective, TrainingSettings, steps
from rpmodels.learning.loop import GOAL
from rpmodels.learning.optimisers import adamw
from rpmodels.observations import Observations, Scaling, fit_scaling, read
from rpmodels.paper.baselines.recognisers import recognition_network
from rpmodels.seeding import seeded, spawn


class _LabelLikelihood(Objective[Any]):
    """Mean log p(label | x), as an objective of the loop."""

    def __init__(self, network: nn.Module, scaling: Scaling) -> None:
        super().__init__()
        self.model = network
        self._scaling = scaling

    def forward(self, batch: Batch) -> Mapping[str, Tensor]:
        """One term: the log-likelihood of the labels."""
        logits = self.model(self._scaling(batch.inputs["x"][:, 0], torch.float32))
        return {"free_energy": -nn.functional.cross_entropy(logits, batch.inputs["label"][:, 0])}

    def after_step(self) -> None:
        """Nothing in closed form."""

    def fitted(self, observations: Observations) -> nn.Module:
        """The network."""
        network: nn.Module = self.model
        return network


class SupervisedNetwork:
    """A classifier with the network, optimiser and schedule of `RPCategorical`.

    Attributes:
        history_: the log-likelihood of the labels, a number a step

    """

    def __init__(self, training: TrainingSettings, dropout: float, hidden: tuple[int, ...], random_state: int) -> None:
        self.training = training
        self.dropout = dropout
        self.hidden = hidden
        self.random_state = random_state

    def fit(self, images: NDArray[Any], labels: NDArray[np.int64]) -> "SupervisedNetwork":
        """Maximise the likelihood of the labels."""
        observations = read({"x": images, "label": labels})
        seeds = spawn(self.random_state, 2)
        self._scaling = fit_scaling("x", observations.present_rows("x"), "auto", is_label=False)
        with seeded(seeds[0]):
            classes = len(np.unique(labels))
            self._network = recognition_network(observations.specs["x"], classes, self.dropout, self.hidden)
        training, network = self.training, self._network
        optimiser = adamw(network, network.parameters(), training.learning_rate, training.weight_decay)
        batches = Minibatches(len(observations), training.batch_size, seeds[1])
        cut = ((_cut(observations, batches), batches.step_seed()) for _ in range(training.max_iter))
        objective = _LabelLikelihood(network.train(), self._scaling)
        taken = steps(objective, cut, optimiser, training.make_scheduler(optimiser))
        self.history_ = {GOAL: np.array([state.terms[GOAL] for state in taken])}
        return self

    @torch.no_grad()
    def predict_proba(self, images: NDArray[Any]) -> NDArray[Any]:
        """Class probabilities."""
        self._network.eval()
        parts = [
            torch.softmax(self._network(self._scaling(torch.tensor(part), torch.float32)), -1)
            for part in np.array_split(np.array(images), max(1, len(images) // 2048))
        ]
        return np.asarray(torch.cat(parts).numpy())


def _cut(observations: Observations, batches: Minibatches) -> Batch:
    return observations.batch(batches.next(), torch.float32, torch.device("cpu"))
