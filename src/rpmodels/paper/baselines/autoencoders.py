"""Discrete autoencoders (paper, table 1): VQ-VAE, Gumbel-softmax VAE, Gumbel-softmax VQ-VAE.

One recognition network, one decoder and one likelihood; they differ in their quantiser alone. A model of K codes can
emit K images, so its mean squared error is at best that of K-means.

Commitment, first temperatures and learning rates were chosen by training criteria alone, on MNIST pairs of seeds
≥ 1000: benchmarks/learning_rates.py, docs/results/learning-rates-peer.json and peer-supervision/rates.json there.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import NDArray
from torch import Tensor, nn

from rpmodels.carriers import Batch
from rpmodels.checks import Integer, Nothing, Number, Word
from rpmodels.estimators.arguments import argument
from rpmodels.observations import Scaling
from rpmodels.paper.baselines.decoders import Decoder, log_likelihood
from rpmodels.paper.baselines.quantisers import GumbelCodes, GumbelLogits, NearestCode, Quantiser, Temperature
from rpmodels.paper.baselines.recognisers import TARGETS, Target, TiedRecogniser, in_parts
from rpmodels.paper.baselines.trained import BaselineModel


class Autoencoder(BaselineModel):
    """Recognition network → quantiser → decoder."""

    def __init__(
        self, network: nn.Module, quantiser: Quantiser, decoder: Decoder, scaling: Scaling, target: Target
    ) -> None:
        super().__init__(network)
        self.quantiser, self.decoder, self.scaling, self.target = quantiser, decoder, scaling, target

    def terms(self, batch: Batch, n_observations: float) -> Mapping[str, Tensor]:
        """Per image, the evidence lower bound: the log-likelihood, less the cost of its code."""
        seen, wanted = self.target(batch)
        quantised = self.quantiser(self.recognise(seen))
        images = self.scaling(wanted, self.dtype)
        fit = log_likelihood(images, self.decoder(quantised.codes)).mean()
        cost = quantised.cost.mean()
        pull = fit.new_zeros(()) if quantised.pull is None else quantised.pull.mean()
        return {"free_energy": fit - cost - (pull - pull.detach()), "log_likelihood": fit, "cost": cost, "pull": pull}

    def recognise(self, images: Shaped[Tensor, "n *event"]) -> Float[Tensor, "n R"]:
        """The network's output for images as the user has them."""
        raw: Tensor = self.recognition(self.scaling(images, self.dtype))
        return raw

    def after_step(self) -> None:
        """The quantiser's."""
        self.quantiser.after_step()


class DiscreteAutoencoder(TiedRecogniser, ABC):
    """What the three have in common; their quantiser is their own."""

    target: str = argument(
        Word(*TARGETS), "which image the code must generate: the same, or the next factor's", default="same"
    )

    @abstractmethod
    def _quantiser(self) -> Quantiser:
        """From the arguments."""

    def _target(self) -> Target:
        return TARGETS[self.target]()

    def _least_factors(self) -> int:
        return self._target().least_factors

    def _width(self) -> int:
        return self._quantiser().n_in

    def _build(self, network: nn.Module, scaling: Scaling, images: NDArray[Any]) -> Autoencoder:
        quantiser = self._quantiser()
        parts = [scaling(part, torch.float32).sum(0, dtype=torch.float64) for part in in_parts(images)]
        mean = (torch.stack(parts).sum(0) / len(images)).float()
        return Autoencoder(network, quantiser, Decoder(quantiser.n_code, mean), scaling, self._target())

    @torch.no_grad()
    def predict_proba(self, images: Any) -> NDArray[Any]:
        """Probabilities of the codes, (n, K)."""
        parts = in_parts(self._read(images))
        model = self.model_.eval()
        found = [torch.softmax(model.quantiser.logits(model.recognise(part)), -1) for part in parts]
        return np.asarray(torch.cat(found).numpy())

    def predict(self, images: Any) -> NDArray[np.int64]:
        """The most probable code."""
        return np.asarray(self.predict_proba(images).argmax(1))

    @torch.no_grad()
    def reconstruct(self, images: Any) -> NDArray[Any]:
        """What the decoder makes of each image's most probable code, as the networks see images: bytes in [0, 1]."""
        codes = self.predict(images)
        emitted = self.model_.decoder(self.model_.quantiser.codebook())
        return np.asarray(emitted.numpy()[codes])


class VQVAE(DiscreteAutoencoder):
    """Vector-quantised autoencoder of K codes.

    Attributes:
        model_: the trained modules
        history_: terms of the criterion, one row a step
        restarts_: what became of every start
        n_iter_: steps taken

    """

    n_embedding: int = argument(Integer(1), "width of embeddings and codes", default=64)
    commitment: float = argument(
        Number(least=0.0), "β, nats for a unit of squared distance between an embedding and its code", default=4.0
    )
    decay: float = argument(Number(least=0.0, below=1.0), "of the moving averages that are the codes", default=0.9)
    learning_rate = 1e-3

    def _quantiser(self) -> Quantiser:
        return NearestCode(
            self.n_states,
            self.n_embedding,
            self.commitment,
            self.decay,
        )


class GumbelVAE(DiscreteAutoencoder):
    """Variational autoencoder with one categorical latent, uniform prior and Gumbel-softmax samples.

    Attributes: as those of `VQVAE`.

    """

    temperature: float = argument(Number(above=0.0), "of the samples at the last step", default=0.5)
    first_temperature: float | None = argument(
        Nothing() | Number(above=0.0), "whence it falls; cold from the start, most codes are never tried", default=8.0
    )

    def _quantiser(self) -> Quantiser:
        return GumbelLogits(self.n_states, _temperature(self.first_temperature, self.temperature, self.max_iter))


class GumbelVQVAE(DiscreteAutoencoder):
    """The same with a codebook: distances to the codes are the logits, the decoder sees the sample's mean code.

    Attributes: as those of `VQVAE`.

    """

    n_embedding: int = argument(Integer(1), "width of embeddings and codes", default=64)
    temperature: float = argument(Number(above=0.0), "of the samples at the last step", default=0.5)
    first_temperature: float | None = argument(
        Nothing() | Number(above=0.0), "whence it falls; cold from the start, most codes are never tried", default=8.0
    )

    def _quantiser(self) -> Quantiser:
        temperature = _temperature(self.first_temperature, self.temperature, self.max_iter)
        return GumbelCodes(self.n_states, self.n_embedding, temperature)


def _temperature(first: float | None, last: float, n_steps: int) -> Temperature:
    start = last if first is None else first
    return Temperature(start, last, n_steps)
