"""Recognition networks: from one observation (*event) to the raw numbers of one recognition factor.

Any `nn.Module` that maps (n, *event) to (n, n_out) will do; these are the ones most users need.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.recognition.dropout import Dropout


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
        self.event_shape, self.n_out, self.hidden, self.dropout = tuple(event_shape), n_out, tuple(hidden), dropout


class Linear(MLP):
    """A linear map of the flattened event: the place to start when trials are few."""

    def __init__(self, event_shape: Sequence[int], n_out: int) -> None:
        super().__init__(event_shape, n_out, hidden=())


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
    """One row of raw numbers per label: the network of a factor whose observations are categories.

    Adam moves a number by about the learning rate a step, and unlike those of a network the numbers of a table do not
    multiply each other: `gain` times the weights lets a table keep up with the networks beside it.
    """

    def __init__(self, n_labels: int, n_out: int, gain: float = 1.0) -> None:
        self.n_labels, self.n_out, self.gain = n_labels, n_out, gain
        super().__init__(n_labels, n_out)

    def reset_parameters(self) -> None:
        """Rows of standard normal numbers."""
        nn.init.normal_(self.weight, std=1.0 / self.gain)

    def forward(self, x: Int[Tensor, "n"]) -> Float[Tensor, "n out"]:
        """The rows of n labels."""
        return self.gain * super().forward(x)


class ConstantPrecision(nn.Module):
    """A network for the first numbers of a factor (its linear part), one learned constant for all others."""

    def __init__(self, network: nn.Module, n_first: int, n_out: int) -> None:
        super().__init__()
        self.network, self.n_first, self.n_out = network, n_first, n_out
        self.rest = nn.Parameter(torch.zeros(n_out - n_first))

    def reset_parameters(self) -> None:
        """Precision softplus(0), off-diagonals 0."""
        nn.init.zeros_(self.rest)

    def forward(self, x: Shaped[Tensor, "n *event"]) -> Float[Tensor, "n out"]:
        """Raw numbers of n observations."""
        first: Tensor = self.network(x)
        return torch.cat([first, self.rest.expand(len(first), -1)], -1)


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
