"""What inputs u do to the latents of linear dynamics, and what is known of them in general."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import pad

from rpmodels.carriers import Sites

LONGEST_MEMORY = 0.99
"""Of the inputs from one step to the next, at most: constants are told by their mean."""


class Inputs(nn.Module):
    """B, in units of the inputs' own sizes, and the mean, covariance, memory and duration of those in training.

    The latter give the spread of the latents over all trials and times, of which N(0, I) is only the part that is
    noise: factors are relative to that, or pooled atoms would look nothing like their reference.
    """

    scales: Tensor
    mean: Tensor
    covariance: Tensor
    memory: Tensor
    duration: Tensor

    def __init__(self, latents: int, n_inputs: int) -> None:
        super().__init__()
        self.B = nn.Parameter(torch.zeros(latents, n_inputs))
        self.register_buffer("scales", torch.ones(n_inputs, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(n_inputs, dtype=torch.float64))
        self.register_buffer("covariance", torch.eye(n_inputs, dtype=torch.float64))
        self.register_buffer("memory", torch.zeros((), dtype=torch.float64))
        self.register_buffer("duration", torch.ones((), dtype=torch.float64))

    @torch.no_grad()
    def learn(self, u: Float[Tensor, "N T U"], exists: Bool[Tensor, "N T"]) -> None:
        """What training inputs are like."""
        rows = u[exists]
        sizes = rows.square().mean(0).sqrt()
        self.scales.copy_(torch.where(sizes > 0, sizes, 1.0))
        self.mean.copy_((rows / self.scales).mean(0))
        x = torch.where(exists[..., None], u / self.scales - self.mean, 0.0)
        self.covariance.copy_(torch.einsum("ntu,ntv->uv", x, x) / exists.sum())
        pairs = (exists[:, 1:] & exists[:, :-1]).sum().clamp_min(1)
        lagged = (x[:, 1:] * x[:, :-1]).sum() / pairs
        power = self.covariance.diagonal().sum().clamp_min(torch.finfo(u.dtype).tiny)
        self.memory.copy_((lagged / power).clamp(0.0, LONGEST_MEMORY))
        self.duration.copy_(exists.sum(1).double().mean())

    def scaled(self, u: Float[Tensor, "*b U"]) -> Float[Tensor, "*b U"]:
        """In units of their sizes, which B is for; in double precision."""
        return wide(u) / wide(self.scales)

    def known(self, sites: Sites) -> Float[Tensor, "N T U"] | None:
        """The same of sites, zero where nothing exists; None without inputs."""
        return None if sites.u is None else torch.where(sites.exists[..., None], self.scaled(sites.u), 0.0)

    def pushes(self, sites: Sites) -> Float[Tensor, "N T K"] | None:
        """B u of the step that leads to every site; u_t acts from site t to t + 1, so that of the last does nothing."""
        known = self.known(sites)
        return None if known is None else pad(known[:, :-1] @ wide(self.B).mT, (0, 0, 1, 0))

    def spread(
        self, A: Float[Tensor, "K K"], Q: Float[Tensor, "K K"]
    ) -> tuple[Float[Tensor, "K"], Float[Tensor, "K K"]]:
        """Mean and covariance of the latents half-way through a trial, when inputs are as in training.

        The inputs are taken as a process with the memory φ: then (z, u) is a linear system of its own, and
        2^r of its steps are r squarings.
        """
        B, C = wide(self.B), wide(self.covariance)
        size, phi = len(A), wide(self.memory)
        F = torch.cat([torch.cat([A, B], 1), torch.cat([torch.zeros_like(B.mT), phi * torch.eye(len(C)).to(C)], 1)])
        noise = _blocks(Q, (1.0 - phi.square()) * C)
        before = _blocks(torch.eye(size).to(C), C)
        shift = torch.cat([B @ wide(self.mean), torch.zeros_like(wide(self.mean))])
        for _ in range(max(1, round(math.log2(max(2.0, 0.5 * float(self.duration)))))):
            noise, shift, F = noise + F @ noise @ F.mT, shift + F @ shift, F @ F
        covariance = F @ before @ F.mT + noise
        return shift[:size], covariance[:size, :size]


def _blocks(first: Float[Tensor, "K K"], second: Float[Tensor, "U U"]) -> Float[Tensor, "both both"]:
    joint: Tensor = torch.block_diag(first, second)  # type: ignore[no-untyped-call]
    return joint


def wide(values: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """In double precision, where the device has it."""
    return values if values.device.type == "mps" else values.double()
