"""The one generative network of the autoencoder baselines, and the likelihood of what it generates."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rpmodels.linalg import LOG_2PI
from rpmodels.recognition import MLP

LEAST_VARIANCE = 1e-6
"""Of the noise: images that are reproduced to the last digit would have an infinite likelihood."""


class Decoder(nn.Module):
    """From codes to the means of images: one hidden layer, and the mean training image.

    A model of K codes can emit K images, which a layer of this size holds with ease; so the same one, fully
    connected, serves images of every size and is no slower than the recognition network.
    """

    mean: Tensor

    def __init__(self, n_code: int, mean: Float[Tensor, "*event"], hidden: Sequence[int] = (64,)) -> None:
        super().__init__()
        self.network = MLP((n_code,), mean.numel(), hidden)
        self.register_buffer("mean", mean)

    def forward(self, codes: Float[Tensor, "n C"]) -> Float[Tensor, "n *event"]:
        """One image for every code."""
        images: Tensor = self.mean + self.network(codes).reshape(len(codes), *self.mean.shape)
        return images


def log_likelihood(images: Float[Tensor, "n *event"], means: Float[Tensor, "n *event"]) -> Float[Tensor, "n"]:
    """Gaussian log-density of every image, with one noise variance: that of maximum likelihood in the batch.

    Its gradient in the means is the one of a variance that is learnt and has converged. A parameter that Adam moves
    by 0.001 a step would arrive after thousands of steps, and a fixed one would weigh the images against the KL
    divergence by decree.
    """
    squares = (images - means).square().flatten(1)
    variance = squares.mean().clamp_min(LEAST_VARIANCE)
    return -0.5 * (squares.sum(1) / variance + squares.shape[1] * (LOG_2PI + torch.log(variance)))
