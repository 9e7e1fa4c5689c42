"""Layers of our own against torch's."""

import numpy as np
import pytest
import torch
from torch import nn

import rpmodels as rp
from rpmodels.estimators import regularisation
from rpmodels.recognition import ConvolutionalNetwork
from rpmodels.recognition.dropout import Dropout
from rpmodels.seeding import seeded


@pytest.mark.parametrize("shape", [(1001, 7), (3,), (0, 4)], ids=str)
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_dropout_is_torchs_in_all_but_time(shape, p, dtype):
    layer, x = Dropout(p), torch.full(shape, 2.0, dtype=dtype, requires_grad=True)
    with seeded(0):
        y = layer(x)
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    kept = y != 0
    if p < 1:
        torch.testing.assert_close(y[kept], torch.full_like(y[kept], 2 / (1 - round(256 * p) / 256)))
    if x.numel() > 1000:
        assert abs(kept.double().mean() - (1 - p)) < 0.02
        neighbours = (kept[:, :-1] & kept[:, 1:]).double().mean()
        assert abs(neighbours - (1 - p) ** 2) < 0.03
    (slope,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(slope, y.detach() / 2)
    with seeded(0):
        torch.testing.assert_close(layer(x), y)
    assert layer.eval()(x) is x
    assert isinstance(layer, nn.Dropout)


def test_large_images_are_seen_from_every_second_place_and_a_few_trials_a_step():
    small, large = (ConvolutionalNetwork((3, side, side), 4) for side in (32, 64))
    assert [network.features[0].stride for network in (small, large)] == [(1, 1), (2, 2)]
    for side in (48, 49, 50, 51, 64, 65):
        assert ConvolutionalNetwork((side, side + 3), 4)(torch.zeros(2, side, side + 3)).shape == (2, 4)
    frames = np.zeros((50, 40, 32, 32), np.float32)
    seen = rp.read({"video": frames, "other": np.zeros((50, 40, 2))}, series=True)
    plain = rp.read({"other": np.zeros((50, 40, 2))}, series=True)
    assert regularisation.batch_size("auto", seen, 1_000, 20) == 5
    assert regularisation.batch_size("auto", plain, 1_000, 20) == 25
    assert regularisation.batch_size(7, seen, 1_000, 20) == 7
