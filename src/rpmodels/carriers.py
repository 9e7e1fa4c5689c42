"""What travels between the rooms.

Padding lives in `Sites`, missingness in `Factor`; no function takes a bare mask.
Axes: N observations (trials), T sites (times, patches), D the flat natural parameter.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn


@dataclass(frozen=True)
class Sites:
    """Where the latents are: the time of each site, and whether it exists or only pads."""

    times: Float[Tensor, "N T"]
    exists: Bool[Tensor, "N T"]

    @staticmethod
    def single(n: int, dtype: torch.dtype = torch.float32, device: torch.device | None = None) -> "Sites":
        """One site per observation: the iid case."""
        return Sites(
            torch.zeros(n, 1, dtype=dtype, device=device),
            torch.ones(n, 1, dtype=torch.bool, device=device),
        )


@dataclass(frozen=True)
class Batch:
    """Some observations, ready for the networks: absent rows hold zeros, `present` says which."""

    index: Int[Tensor, "N"]
    sites: Sites
    weights: Float[Tensor, "N"]
    inputs: Mapping[str, Shaped[Tensor, "N T *event"]]
    present: Mapping[str, Bool[Tensor, "N T"]]

    @property
    def size(self) -> int:
        """Number of observations."""
        return int(self.index.shape[0])


@dataclass(frozen=True)
class Factor:
    """One recognition factor over a batch: f_j(z|x) has natural parameter reference + g; g = 0 where absent."""

    g: Float[Tensor, "N T D"]
    present: Bool[Tensor, "N T"]

    def masked(self, values: Float[Tensor, "N T"]) -> Float[Tensor, "N T"]:
        """`values` where the factor is present, zero elsewhere (a missing factor drops its whole ratio)."""
        return torch.where(self.present, values, torch.zeros_like(values))


Factors = Mapping[str, Factor]
"""Every recognition factor of a batch, by name."""

Rows = Mapping[str, Tensor]
"""Per-trial rows of a batch, first axis N; empty for stateless parts."""


class TrialTable(nn.Module):
    """Per-trial parameters (free potentials, free auxiliaries), one row per training observation.

    Owned by the model while it trains, part of checkpoints, never of model files; new data get fresh rows.
    """

    def __init__(self, rows: Rows | None = None) -> None:
        super().__init__()
        self._names = tuple(rows or ())
        self._columns = nn.ParameterList([nn.Parameter(tensor) for tensor in (rows or {}).values()])

    def take(self, index: Int[Tensor, "N"]) -> dict[str, Tensor]:
        """The rows of these observations."""
        return {name: column[index] for name, column in zip(self._names, self._columns, strict=True)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)
