"""From what a recognition network emits to one of K codes, and how gradients come back through that choice."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

DEAD = 0.1
"""A code with less than this share of what each would have in equal parts is dead."""


@dataclass(frozen=True)
class Quantised:
    """A batch after its choice of codes."""

    codes: Float[Tensor, "n C"]
    """What the decoder sees."""
    cost: Float[Tensor, "n"]
    """KL divergence of the choice from the uniform prior, in nats."""
    pull: Float[Tensor, "n"] | None = None
    """What else embeddings are drawn by. No part of the bound, so it counts in gradients only."""


class Quantiser(nn.Module, ABC):
    """K codes, and the way from a network's output to them."""

    n_in: int
    """Width of the network's output."""
    n_code: int
    """Width of what the decoder sees."""

    @abstractmethod
    def forward(self, raw: Float[Tensor, "n R"]) -> Quantised:
        """The codes of a training batch."""

    @abstractmethod
    def logits(self, raw: Float[Tensor, "n R"]) -> Float[Tensor, "n K"]:
        """Log-probabilities of the K codes but for a constant."""

    @abstractmethod
    def codebook(self) -> Float[Tensor, "K C"]:
        """What the decoder sees of each code alone."""

    @abstractmethod
    def after_step(self) -> None:
        """What is learnt without gradients."""


class NearestCode(Quantiser):
    """Vector quantisation (van den Oord et al., 2017): the nearest code, a straight-through gradient.

    Codes are moving averages of the embeddings that chose them. They start at embeddings of the first batch, and a
    code that hardly any image chooses starts again at an embedding drawn from the batch: without it the fits end with
    fewer than K codes, which is a failure of training and no property of the model.

    The choice is certain, so it costs log K whatever it is. That embeddings stay near their codes (β‖e − code‖²) is
    for the sake of the gradients: it grows with the spread of the embeddings, and says nothing about the fit.

    Args:
        n_codes: K
        n_embedding: width of embeddings and codes
        commitment: β, nats for a unit of squared distance between an embedding and its code
        decay: of the moving averages

    """

    codes: Tensor
    shares: Tensor
    started: Tensor

    def __init__(self, n_codes: int, n_embedding: int, commitment: float, decay: float) -> None:
        super().__init__()
        self.n_in = self.n_code = n_embedding
        self.commitment, self.decay = commitment, decay
        self.register_buffer("codes", torch.zeros(n_codes, n_embedding))
        self.register_buffer("shares", torch.full((n_codes,), 1.0 / n_codes))
        self.register_buffer("started", torch.tensor(False))
        self._chosen: tuple[Tensor, Tensor, Tensor] | None = None

    def reset_parameters(self) -> None:
        """Forget all codes: the next batch brings new ones."""
        self.codes.zero_()
        self.shares.fill_(1.0 / len(self.shares))
        self.started.fill_(False)

    def forward(self, raw: Float[Tensor, "n R"]) -> Quantised:
        """Codes in the forward pass, the embeddings' gradients in the backward pass."""
        fixed = raw.detach()
        # Drawn here, where the loop has set the seed, though they may not be needed.
        drawn = fixed[torch.randint(len(fixed), (len(self.codes),))]
        if not self.started:
            self.codes.copy_(drawn)
            self.started.fill_(True)
        nearest = squared_distances(fixed, self.codes).argmin(1)
        self._chosen = (fixed, nearest, drawn)
        codes = self.codes[nearest]
        cost = torch.full_like(raw[:, 0], math.log(len(self.codes))).detach()
        return Quantised(raw + (codes - raw).detach(), cost, self.commitment * (raw - codes).square().sum(1))

    def logits(self, raw: Float[Tensor, "n R"]) -> Float[Tensor, "n K"]:
        """Minus squared distances: a choice, made so that there are probabilities at all; the nearest has the most."""
        return -squared_distances(raw, self.codes)

    def codebook(self) -> Float[Tensor, "K C"]:
        """The codes."""
        return self.codes

    @torch.no_grad()
    def after_step(self) -> None:
        """Move the codes to the running means of their embeddings; dead ones start again."""
        if self._chosen is None:
            return
        embeddings, nearest, drawn = self._chosen
        self._chosen = None
        choice = nn.functional.one_hot(nearest, len(self.codes)).to(embeddings.dtype) / len(embeddings)
        sums = self.decay * self.shares[:, None] * self.codes + (1.0 - self.decay) * choice.T @ embeddings
        self.shares.mul_(self.decay).add_((1.0 - self.decay) * choice.sum(0))
        self.codes.copy_(sums / self.shares[:, None])
        dead = self.shares < DEAD / len(self.shares)
        self.codes[dead] = drawn[dead]
        self.shares[dead] = 1.0 / len(self.shares)


class Temperature(nn.Module):
    """Of Gumbel-softmax samples: constant, or falling by a constant factor a step."""

    step: Tensor

    def __init__(self, first: float, last: float, n_steps: int) -> None:
        super().__init__()
        self.first, self.last, self.n_steps = first, last, n_steps
        self.register_buffer("step", torch.tensor(0))

    def reset_parameters(self) -> None:
        """Back to the first."""
        self.step.zero_()

    def forward(self) -> float:
        """At this step."""
        passed = min(1.0, int(self.step) / self.n_steps)
        return float(self.first * (self.last / self.first) ** passed)


class GumbelLogits(Quantiser):
    """The network emits K logits; the decoder sees a Gumbel-softmax sample (Maddison et al., 2017; Jang et al., 2017).

    The cost is the KL divergence from the uniform prior.
    """

    def __init__(self, n_codes: int, temperature: Temperature) -> None:
        super().__init__()
        self.n_in = self.n_code = n_codes
        self.temperature = temperature

    def forward(self, raw: Float[Tensor, "n K"]) -> Quantised:
        """A sample on the simplex."""
        return Quantised(gumbel_softmax(raw, self.temperature()), divergence_from_uniform(raw))

    def logits(self, raw: Float[Tensor, "n K"]) -> Float[Tensor, "n K"]:
        """As they come."""
        return raw

    def codebook(self) -> Float[Tensor, "K K"]:
        """The corners of the simplex."""
        return torch.eye(self.n_code)

    def after_step(self) -> None:
        """Only the temperature."""
        self.temperature.step.add_(1)


class GumbelCodes(Quantiser):
    """Minus squared distances to the codes are the logits; the decoder sees the mean of the codes under a sample.

    (Sønderby, Poole and Mnih, 2017.) Codes are learnt by gradients.
    """

    def __init__(self, n_codes: int, n_embedding: int, temperature: Temperature) -> None:
        super().__init__()
        self.n_in = self.n_code = n_embedding
        self.temperature = temperature
        self.codes = nn.Parameter(torch.empty(n_codes, n_embedding))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Codes of length 1: longer ones differ so much in length that every image starts with the same choice."""
        nn.init.normal_(self.codes, std=self.n_code**-0.5)

    def forward(self, raw: Float[Tensor, "n R"]) -> Quantised:
        """A mixture of codes."""
        logits = self.logits(raw)
        return Quantised(gumbel_softmax(logits, self.temperature()) @ self.codes, divergence_from_uniform(logits))

    def logits(self, raw: Float[Tensor, "n R"]) -> Float[Tensor, "n K"]:
        """−‖e − c_k‖²."""
        return -squared_distances(raw, self.codes)

    def codebook(self) -> Float[Tensor, "K C"]:
        """The codes."""
        return self.codes

    def after_step(self) -> None:
        """Only the temperature."""
        self.temperature.step.add_(1)


def squared_distances(rows: Float[Tensor, "n C"], codes: Float[Tensor, "K C"]) -> Float[Tensor, "n K"]:
    """‖row − code‖² of every pair."""
    return rows.square().sum(1, keepdim=True) - 2.0 * rows @ codes.T + codes.square().sum(1)


def gumbel_softmax(logits: Float[Tensor, "n K"], temperature: float) -> Float[Tensor, "n K"]:
    """A relaxed one-hot sample of softmax(logits): one-hot in the limit of temperature 0."""
    noise = -torch.empty_like(logits).exponential_().clamp_min(torch.finfo(logits.dtype).tiny).log()
    return torch.softmax((logits + noise) / temperature, -1)


def divergence_from_uniform(logits: Float[Tensor, "n K"]) -> Float[Tensor, "n"]:
    """KL(softmax(logits) ‖ uniform) = log K − entropy."""
    log_q = torch.log_softmax(logits, -1)
    return (log_q.exp() * log_q).sum(-1) + math.log(logits.shape[-1])
