"""Dropout that costs less than the layers it follows."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

LEVELS = 256


class Dropout(nn.Dropout):
    """As torch's, four times as fast on a CPU, where drawing one number per unit takes longer than a small network.

    Every unit takes one byte of a random word, so the probability is rounded to 1/256. `usual` is the probability that
    it was made with; a search may raise `p` above it for a while.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)
        self.usual = p

    def forward(self, input: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Units set to zero with probability p while training, the others scaled up to keep the mean."""
        dropped = round(self.p * LEVELS)
        if not self.training or dropped == 0:
            return input
        if input.device.type != "cpu" or dropped == LEVELS:
            return super().forward(input)
        words = torch.empty((input.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        bytes_of_units = words.view(torch.uint8)[: input.numel()].view(input.shape)
        # Compared right into floats: a boolean and its conversion take eight times as long.
        kept = torch.ge(bytes_of_units, dropped, out=torch.empty(input.shape, dtype=input.dtype))
        return input * kept.mul_(LEVELS / (LEVELS - dropped))
