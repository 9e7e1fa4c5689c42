"""A factor of many channels, each a recognition factor of its own that speaks of one projection of the latents.

f_c(z|x) ∝ r(z) exp(a_c(x) u − ½ b_c(x) u²) with u = w_c·z, |w_c| = 1. One network for the vector of all channels knows
only what makes sites depend on each other; channels that are independent given the latents at one site say much more.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped
from numpy.typing import NDArray
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import AllLatents, Channels, Curves, Doubles, Factor, Targets
from rpmodels.families import FullGaussian
from rpmodels.observations import FactorSpec, Scaling, Unscaled
from rpmodels.recognition.grids import Grid, grid_of
from rpmodels.recognition.heads import Head
from rpmodels.tracing import recording

SMALLEST = 1e-2
"""Precision b of channels that nothing is known of."""
LEAST_NOISE = 1e-2
"""Of a linear model to begin at, scores having variance one."""


class ChannelCurves(nn.Module):
    """a_c(x), b_c(x) and w_c of C channels: a line of the value's score each, and what the data make of it.

    a = slope · score + bend, b = exp(log precision + bend of its own), bends on the basis of the grid
    (recognition/grids.py).

    Args:
        n_channels, n_latents: C and K
        n_values, n_bends: of the channel that has most

    """

    gain = 0.5
    """How many times the learning rate its numbers move in a step."""
    means: Tensor
    scores: Tensor
    log_p0: Tensor
    basis: Tensor

    def __init__(self, n_channels: int, n_latents: int, n_values: int, n_bends: int) -> None:
        super().__init__()
        self.n_channels, self.n_latents, self.n_values, self.n_bends = n_channels, n_latents, n_values, n_bends
        self.grid = Doubles(torch.zeros(n_channels, n_values))
        self.register_buffer("means", torch.zeros(n_channels, n_values, dtype=torch.float64))
        self.register_buffer("scores", torch.zeros(n_channels, n_values, dtype=torch.float64))
        self.register_buffer("log_p0", torch.zeros(n_channels, n_values, dtype=torch.float64))
        self.register_buffer("basis", torch.zeros(n_channels, n_values, n_bends, dtype=torch.float64))
        self.direction = nn.Parameter(torch.zeros(n_channels, n_latents))
        self.slope = nn.Parameter(torch.zeros(n_channels))
        self.log_precision = nn.Parameter(torch.zeros(n_channels))
        self.bend = nn.Parameter(torch.zeros(n_channels, n_bends))
        self.bend_of_precision = nn.Parameter(torch.zeros(n_channels, n_bends))
        self.reset_parameters()

    @staticmethod
    def of(rows: NDArray[Any], weights: NDArray[np.float64], n_latents: int) -> "ChannelCurves":
        """With the grids of these training rows (n, C), NaN where a channel is missing."""
        grids = []
        for column in rows.T:
            known = ~np.isnan(column)
            grids.append(grid_of(np.asarray(column[known], np.float64), weights[known]))
        made = ChannelCurves(
            len(grids), n_latents, max(len(each.values) for each in grids), max(each.basis.shape[1] for each in grids)
        )
        made._take(grids)
        return made

    def _take(self, grids: Sequence[Grid]) -> None:
        for c, grid in enumerate(grids):
            size, bends = grid.basis.shape
            # Beyond the last value nothing is seen, and places are ever further out.
            step = max(1.0, float(grid.values[-1] - grid.values[0]))
            beyond = grid.values[-1] + step * np.arange(1, self.n_values - size + 1)
            self.grid.values[c] = torch.as_tensor(np.concatenate([grid.values, beyond]))
            self.means[c, :size] = torch.as_tensor(grid.means)
            self.scores[c, :size] = torch.as_tensor(grid.scores)
            self.log_p0[c] = -torch.inf
            self.log_p0[c, :size] = torch.as_tensor(np.log(grid.counts / grid.counts.sum()))
            self.basis[c, :size, :bends] = torch.as_tensor(grid.basis)

    def reset_parameters(self) -> None:
        """Directions at random, precisions small: a population that knows next to nothing."""
        nn.init.normal_(self.direction)
        nn.init.constant_(self.slope, SMALLEST**0.5)
        nn.init.constant_(self.log_precision, float(np.log(SMALLEST)))
        nn.init.zeros_(self.bend)
        nn.init.zeros_(self.bend_of_precision)

    @torch.no_grad()
    def begin(self, loadings: NDArray[np.floating], offset: NDArray[np.floating], noise: NDArray[np.floating]) -> None:
        """At a linear model of the scores, score = loadings z + offset + noise: what it says of z given one channel."""
        like = self.slope
        of = torch.as_tensor(np.asarray(loadings)).to(like)
        # A channel that never changed has none.
        variance = torch.as_tensor(np.asarray(noise)).to(like).clamp_min(LEAST_NOISE)
        length = of.norm(dim=1)
        silent = length < torch.finfo(like.dtype).eps ** 0.5
        self.direction.copy_(torch.where(silent[:, None], torch.ones_like(of), of))
        self.slope.copy_(length / variance)
        self.log_precision.copy_((length.square() / variance).clamp_min(SMALLEST**2).log())
        self.bend.copy_((-self.slope * torch.as_tensor(np.asarray(offset)).to(like))[:, None].expand_as(self.bend))
        self.bend_of_precision.zero_()

    def curves(self) -> Curves:
        """On the grid."""
        a = self.slope[:, None] * self.scores + (self.basis @ self.bend[..., None])[..., 0]
        b = (self.log_precision[:, None] + (self.basis @ self.bend_of_precision[..., None])[..., 0]).exp()
        return Curves(nn.functional.normalize(self.direction, dim=1), a, b, self.log_p0)

    def forward(self, x: Shaped[Tensor, "N T C"]) -> tuple[Curves, Float[Tensor, "3 N T C"], Bool[Tensor, "N T C"]]:
        """a, b and log p₀ of these numbers, between the places of the grid on straight lines; and which are known."""
        curves = self.curves()
        known = ~torch.isnan(x) if x.is_floating_point() else torch.ones_like(x, dtype=torch.bool)
        table = torch.stack([curves.a, curves.b, curves.log_p0.clamp_min(torch.finfo(curves.a.dtype).min)], -1)
        place, share = self._between(x)
        flat = table.flatten(0, 1)
        below = nn.functional.embedding(place, flat)
        if recording() or bool((share > 0).any()):
            above = nn.functional.embedding((place + 1).clamp_max(len(flat) - 1), flat)
            below = torch.lerp(below, above, share[..., None].to(flat.dtype))
        return curves, below.movedim(-1, 0), known

    def _between(self, x: Shaped[Tensor, "N T C"]) -> tuple[Tensor, Tensor]:
        """Of every number the place below it in the flat grid, and how far it is on the way to the next."""
        # Not nan_to_num, whose largest double a program in ONNX cannot be made with.
        wide = x.to(torch.float64)
        by_channel = torch.where(torch.isnan(wide), 0.0, wide).flatten(0, 1).mT.contiguous()
        values = self.grid.values
        last = torch.isfinite(self.log_p0).sum(1, keepdim=True) - 1
        place = (torch.searchsorted(values, by_channel, right=True) - 1).clamp_min(0).minimum(last)
        low = values.gather(1, place)
        high = values.gather(1, (place + 1).minimum(last))
        share = torch.where(high > low, (by_channel - low) / (high - low), 0.0).clamp(0.0, 1.0)
        flat = place + torch.arange(self.n_channels, device=x.device)[:, None] * self.n_values
        return flat.mT.reshape(x.shape), share.mT.reshape(x.shape)

    def outside(self, x: Shaped[Tensor, "n C"]) -> Bool[Tensor, "n C"]:
        """Which numbers are beyond the places of their channel."""
        last = torch.isfinite(self.log_p0).sum(1, keepdim=True) - 1
        low, high = self.grid.values[:, 0], self.grid.values.gather(1, last)[:, 0]
        return (x < low) | (x > high)

    def scored(self, x: Shaped[Tensor, "n C"]) -> Float[Tensor, "n C"]:
        """Scores of these numbers, zero where unknown."""
        place, share = self._between(x[:, None])
        flat = self.scores.flatten()
        there = torch.lerp(flat[place], flat[(place + 1).clamp_max(len(flat) - 1)], share.to(flat.dtype))[:, 0]
        return torch.where(torch.isnan(x), 0.0, there)


class PopulationFactor(nn.Module):
    """Everything between the channels x and their potentials, in the place of a `RecognitionFactor`."""

    is_generative = False

    def __init__(
        self, network: ChannelCurves, head: Head, family: FullGaussian, targets: Targets | None = None
    ) -> None:
        super().__init__()
        if not head.relative:
            raise errors.absolute_population()
        self.network, self.head, self.family = network, head, family
        self.targets = targets or AllLatents()
        self.scaling: Scaling = Unscaled()

    def reference(self, prior: Float[Tensor, "S D"]) -> Float[Tensor, "S d"]:
        """The prior's marginal."""
        return self.head.reference(self.family, self.targets.natural(prior))

    def forward(self, inputs: Shaped[Tensor, "N T C"], present: Bool[Tensor, "N T"], like: Tensor) -> Factor:
        """The sum of what the channels say, and each by itself."""
        curves, (a, b, log_p0), known = self.network(inputs)
        there = known & present[..., None]
        if recording() or not bool(there.all()):
            a, b = (torch.where(there, each, 0.0) for each in (a, b))
        return Factor(
            curves.potential(a, b), present & there.any(-1), self.targets, Channels(curves, a, b, log_p0, there)
        )

    def curves(self) -> Curves:
        """Of all channels, whatever they show."""
        return self.network.curves()

    def outside(self, rows: Shaped[Tensor, "n C"]) -> Bool[Tensor, "n C"]:
        """Which numbers are beyond the places of their channel's grid, where they count as its outermost."""
        return self.network.outside(rows)

    def check(self, name: str, spec: FactorSpec, like: Tensor) -> None:
        """Refuse what is no vector of as many numbers."""
        if spec.is_label or spec.event_shape != (self.network.n_channels,):
            raise errors.network_shape(name, spec.event_shape, (self.network.n_channels,), spec.event_shape)
