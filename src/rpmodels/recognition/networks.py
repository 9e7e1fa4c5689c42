"""Recognition networks: from one observation (*event) to the raw numbers of one recognition factor.

Any `nn.Module` that maps (n, *event) to (n, n_out) will do; these are the ones most users need.

Adam moves a number by at most the learning rate a step. Weights between hidden units multiply each other, so that a
network goes far in few steps; what *is* a natural parameter (a linear map, a table, a constant) does not. A module says
so by its `gain`: how many times the learning rate its numbers move in a step (learning/settings.py).
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.recognition.dropout import Dropout
from rpmodels.recognition.generative import GenerativeTable
from rpmodels.recognition.population import ChannelCurves

GAIN = 10.0
"""Of what is a natural parameter itself; of a linear map over the root of its width (docs/results/optimum.md)."""


class MLP(nn.Sequential):
    """Fully connected layers with ReLU and dropout; no hidden layer makes it linear. Events are flattened."""

    def __init__(
        self, event_shape: Sequence[int], n_out: int, hidden: Sequence[int] = (50, 50), dropout: float = 0.0
    ) -> None:
        layers: list[nn.Module] = [nn.Flatten()]
        width = _size(event_shape)
        for units in hidden:
            layers += [nn.Linear(width, units), nn.ReLU(), Dropout(dropout)]
            width = units
        super().__init__(*layers, nn.Linear(width, n_out))
        self.gain = 1.0 if hidden else max(1.0, GAIN / math.sqrt(max(1, width)))
        self.event_shape, self.n_out, self.hidden, self.dropout = tuple(event_shape), n_out, tuple(hidden), dropout


class Linear(MLP):
    """A linear map of the flattened event: the place to start when trials are few."""

    def __init__(self, event_shape: Sequence[int], n_out: int) -> None:
        super().__init__(event_shape, n_out, hidden=())


class WithLinear(nn.Module):
    """A network beside a linear map of the same event: raw numbers are the sum of both.

    What is linear in the observation can be found to the last digit (learning/finish.py); the network adds the rest,
    and as much of it as held-out observations like (docs/results/optimum.md).
    """

    def __init__(self, network: nn.Module, linear: Linear) -> None:
        super().__init__()
        self.network, self.linear = network, linear

    def forward(self, x: Shaped[Tensor, "n *event"]) -> Float[Tensor, "n out"]:
        """Raw numbers of n observations."""
        curved: Tensor = self.network(x)
        straight: Tensor = self.linear(x)
        return curved + straight

    def straighten(self) -> None:
        """Weights of the network's last layer zero: the sum is the linear map, and learns to be more than that."""
        for parameter in self._last():
            nn.init.zeros_(parameter)

    def is_straight(self) -> bool:
        """Whether it is still nothing but its linear map."""
        return not any(bool(parameter.any()) for parameter in self._last())

    def _last(self) -> list[nn.Parameter]:
        layers = [each for each in self.network.modules() if isinstance(each, nn.Linear)]
        return list(layers[-1].parameters())


class ConvolutionalNetwork(nn.Module):
    """The paper's network: conv 5×5 → pool 2 → ReLU, twice (10 and 20 channels), 50 units, ReLU, output.

    Events are (H, W) or (C, H, W), at least 16×16. Images of 48×48 and more are looked at in every second place by the
    first convolution: five times as fast on frames of 64×64. channels_last doubles the speed on a CPU.
    """

    minimum = 16
    large = 48

    def __init__(self, event_shape: Sequence[int], n_out: int, hidden: int = 50, dropout: float = 0.0) -> None:
        super().__init__()
        if len(event_shape) not in (2, 3) or min(event_shape[-2:]) < self.minimum:
            raise errors.network_needs_images(tuple(event_shape), self.minimum)
        self.event_shape, self.n_out, self.hidden, self.dropout = tuple(event_shape), n_out, hidden, dropout
        channels = 1 if len(event_shape) == 2 else event_shape[0]
        self._has_channels = len(event_shape) == 3
        stride = 2 if min(event_shape[-2:]) >= self.large else 1
        height, width = ((((side - 5) // stride + 1) // 2 - 4) // 2 for side in event_shape[-2:])
        self.features = nn.Sequential(
            nn.Conv2d(channels, 10, 5, stride), nn.MaxPool2d(2), nn.ReLU(),
            nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU(),
        )  # fmt: skip
        self.readout = nn.Sequential(
            nn.Flatten(), Dropout(dropout), nn.Linear(20 * height * width, hidden), nn.ReLU(),
            Dropout(dropout), nn.Linear(hidden, n_out),
        )  # fmt: skip
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Float[Tensor, "n *event"]) -> Float[Tensor, "n out"]:
        """Raw numbers of n images."""
        images = x if self._has_channels else x[:, None]
        output: Tensor = self.readout(self.features(images.contiguous(memory_format=torch.channels_last)))
        return output


class LookupTable(nn.Embedding):
    """One row of raw numbers per label, at first standard normal: the network of a factor that holds categories."""

    def __init__(self, n_labels: int, n_out: int, gain: float = GAIN) -> None:
        self.n_labels, self.n_out, self.gain = n_labels, n_out, gain
        super().__init__(n_labels, n_out)

    def forward(self, x: Int[Tensor, "n"]) -> Float[Tensor, "n out"]:
        """The rows of n labels."""
        return super().forward(x)


class ConstantPrecision(nn.Module):
    """A network for the first numbers of a factor (its linear part), one learned constant for all others."""

    def __init__(self, network: nn.Module, n_first: int, n_out: int) -> None:
        super().__init__()
        self.network, self.n_first, self.n_out = network, n_first, n_out
        self.gain = GAIN
        self.rest = nn.Parameter(torch.zeros(n_out - n_first))

    def reset_parameters(self) -> None:
        """Precision softplus(0), off-diagonals 0."""
        nn.init.zeros_(self.rest)

    def forward(self, x: Shaped[Tensor, "n *event"]) -> Float[Tensor, "n out"]:
        """Raw numbers of n observations."""
        first: Tensor = self.network(x)
        return torch.cat([first, self.rest.expand(len(first), -1)], -1)


def gains(network: nn.Module) -> dict[nn.Parameter, float]:
    """How many times the learning rate every parameter moves in a step: as the module says that holds it."""
    found: dict[nn.Parameter, float] = {}

    def walk(module: nn.Module, gain: float) -> None:
        if isinstance(
            module, MLP | LookupTable | ConstantPrecision | ChannelCurves | GenerativeTable
        ):  # others may mean something else by the word
            gain = module.gain
        found.update(dict.fromkeys(module.parameters(recurse=False), gain))
        for child in module.children():
            # A wrapper speaks of its own numbers only.
            walk(child, 1.0 if isinstance(module, ConstantPrecision) else gain)

    walk(network, 1.0)
    return found


def has_no_hidden_layer(network: nn.Module) -> bool:
    """Whether it is a table or one linear map, with or without constants beside it, and all of it learns."""
    if isinstance(network, GenerativeTable):
        return True
    weights = [each for each in network.modules() if isinstance(each, nn.Linear | nn.Embedding)]
    known = {id(parameter) for each in weights for parameter in each.parameters()}
    others = [each for each in network.parameters() if id(each) not in known]
    learns = all(parameter.requires_grad for parameter in network.parameters())
    return len(weights) == 1 and all(each.ndim == 1 for each in others) and learns


def reinitialise(network: nn.Module) -> None:
    """Fresh weights wherever a layer knows how to draw them; frozen layers (a pretrained body) stay as they are."""
    for module in network.modules():
        reset = getattr(module, "reset_parameters", None)
        own = list(module.parameters(recurse=False))
        if callable(reset) and (not own or any(parameter.requires_grad for parameter in own)):
            reset()


def _size(event_shape: Sequence[int]) -> int:
    size = 1
    for length in event_shape:
        size *= length
    return size


def rows_of(values: Shaped[Tensor, "N T *event"]) -> Shaped[Tensor, "n *event"]:
    """Observations and sites as one axis of network inputs."""
    return values.flatten(0, 1)
