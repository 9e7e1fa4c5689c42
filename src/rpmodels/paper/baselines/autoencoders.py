"""Discrete autoencoders (paper, table 1): VQ-VAE, Gumbel-softmax VAE, Gumbel-softmax VQ-VAE.

One recognition network, one decoder and one likelihood; they differ in their quantiser alone. A model of K codes can
emit K images, so its mean squared error is at best that of K-means.

Learning rates, commitment and first temperatures were chosen by training criteria alone, on MNIST pairs of seeds
≥ 1000: benchmarks/learning_rates.py, docs/results/learning-rates-peer.json.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import NDArray
from torch import Tensor, nn

from rpmodels import checks, errors
from rpmodels.carriers import Batch
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

    model_: Autoencoder
    target: str

    @abstractmethod
    def _quantiser(self) -> Quantiser:
        """From the arguments."""

    def _target(self) -> Target:
        if self.target not in TARGETS:
            raise errors.bad_choice("target", TARGETS, self.target)
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

    Args:
        n_states: K
        target: which image the code must generate: "same", or "peer" (the next factor's)
        n_embedding: width of embeddings and codes
        commitment: β, nats for a unit of squared distance between an embedding and its code
        decay: of the moving averages that are the codes
        max_iter, learning_rate, batch_size, n_init, random_state: as in `RPCategorical`; all starts are random
        weight_decay, dropout: of the recognition network; "auto": stronger as data shrink
        callbacks: called after every step of the last run, see `rp.callbacks`

    Attributes:
        model_: the trained modules
        history_: terms of the criterion, one row a step
        restarts_: what became of every start
        n_iter_: steps taken

    """

    def __init__(
        self,
        n_states: int = 10,
        *,
        target: str = "same",
        n_embedding: int = 64,
        commitment: float = 4.0,
        decay: float = 0.9,
        max_iter: int = 1000,
        learning_rate: float = 1e-3,
        batch_size: int | None = 500,
        n_init: int = 4,
        random_state: int | None = None,
        weight_decay: float | str = "auto",
        dropout: float | str = "auto",
        callbacks: Sequence[Any] | None = None,
    ) -> None:
        self._remember(locals())

    def _quantiser(self) -> Quantiser:
        return NearestCode(
            self.n_states,
            checks.integer("n_embedding", self.n_embedding, 1),
            checks.number("commitment", self.commitment, least=0.0),
            checks.number("decay", self.decay, least=0.0, below=1.0),
        )


class GumbelVAE(DiscreteAutoencoder):
    """Variational autoencoder with one categorical latent, uniform prior and Gumbel-softmax samples.

    Args:
        n_states: K
        target: which image the code must generate: "same", or "peer" (the next factor's)
        temperature: of the samples at the last step
        first_temperature: whence it falls; None: constant. Cold from the start, most codes are never tried
        max_iter, learning_rate, batch_size, n_init, random_state: as in `RPCategorical`; all starts are random
        weight_decay, dropout: of the recognition network; "auto": stronger as data shrink
        callbacks: called after every step of the last run, see `rp.callbacks`

    Attributes: as those of `VQVAE`.

    """

    def __init__(
        self,
        n_states: int = 10,
        *,
        target: str = "same",
        temperature: float = 0.5,
        first_temperature: float | None = 8.0,
        max_iter: int = 1000,
        learning_rate: float = 3e-3,
        batch_size: int | None = 500,
        n_init: int = 4,
        random_state: int | None = None,
        weight_decay: float | str = "auto",
        dropout: float | str = "auto",
        callbacks: Sequence[Any] | None = None,
    ) -> None:
        self._remember(locals())

    def _quantiser(self) -> Quantiser:
        return GumbelLogits(self.n_states, _temperature(self.first_temperature, self.temperature, self.max_iter))


class GumbelVQVAE(DiscreteAutoencoder):
    """The same with a codebook: distances to the codes are the logits, the decoder sees the sample's mean code.

    Args:
        n_states: K
        target: which image the code must generate: "same", or "peer" (the next factor's)
        n_embedding: width of embeddings and codes
        temperature: of the samples at the last step
        first_temperature: whence it falls; None: constant. Cold from the start, most codes are never tried
        max_iter, learning_rate, batch_size, n_init, random_state: as in `RPCategorical`; all starts are random
        weight_decay, dropout: of the recognition network; "auto": stronger as data shrink
        callbacks: called after every step of the last run, see `rp.callbacks`

    Attributes: as those of `VQVAE`.

    """

    def __init__(
        self,
        n_states: int = 10,
        *,
        target: str = "same",
        n_embedding: int = 64,
        temperature: float = 0.5,
        first_temperature: float | None = 8.0,
        max_iter: int = 1000,
        learning_rate: float = 3e-3,
        batch_size: int | None = 500,
        n_init: int = 4,
        random_state: int | None = None,
        weight_decay: float | str = "auto",
        dropout: float | str = "auto",
        callbacks: Sequence[Any] | None = None,
    ) -> None:
        self._remember(locals())

    def _quantiser(self) -> Quantiser:
        temperature = _temperature(self.first_temperature, self.temperature, self.max_iter)
        return GumbelCodes(self.n_states, checks.integer("n_embedding", self.n_embedding, 1), temperature)


def _temperature(first: float | None, last: float, n_steps: int) -> Temperature:
    last = checks.number("temperature", last, above=0.0)
    start = last if first is None else checks.number("first_temperature", first, above=0.0)
    return Temperature(start, last, n_steps)
