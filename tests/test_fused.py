"""The in-place reduction over pairs against the plain formula: values, gradients, blocks, and sites without atoms."""

import pytest
import torch

from rpmodels.families import DiagonalGaussian
from rpmodels.mixtures import fused
from rpmodels.mixtures.fused import log_sum_normalisers


def problem(latents, shared, n=5, t=3, atoms=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    family = DiagonalGaussian(latents)

    def members(*shape):
        raw = torch.randn(*shape, 2 * latents, generator=generator, dtype=torch.float64)
        return family.to_valid(raw)

    g = members(1 if shared else t, atoms)
    weight = torch.randn(*g.shape[:2], generator=generator, dtype=torch.float64)
    return family, members(n, t), g, weight


def plain(family, a, g, weight):
    return torch.logsumexp(family.log_normaliser(a[:, :, None] + g[None]) + weight[None], -1)


@pytest.mark.parametrize("latents", [1, 3])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("block", [1, 13, 2**18])
def test_values_and_gradients(latents, shared, block, monkeypatch):
    monkeypatch.setattr(fused, "BLOCK", block)
    monkeypatch.setattr(fused, "ATOMS", max(1, block // 4))
    family, *parts = problem(latents, shared)
    parts = [each.requires_grad_() for each in parts]
    torch.testing.assert_close(log_sum_normalisers(family, *parts), plain(family, *parts))
    outer = torch.randn(5, 3, dtype=torch.float64)
    got, expected = (
        torch.autograd.grad((f(family, *parts) * outer).sum(), parts) for f in (log_sum_normalisers, plain)
    )
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("shared", [True, False])
def test_atoms_without_weight_and_sites_without_atoms(shared):
    family, a, g, weight = problem(2, shared)
    weight[:, 1:3] = -torch.inf
    if not shared:
        weight[1] = -torch.inf
    kept = [each.requires_grad_() for each in (a, g, weight)]
    total = log_sum_normalisers(family, *kept)
    if not shared:
        assert torch.isneginf(total[:, 1]).all()
    gradients = torch.autograd.grad(torch.where(torch.isfinite(total), total, 0.0).sum(), kept)
    assert all(torch.isfinite(each).all() for each in gradients)
    assert (gradients[1][:, 1:3] == 0).all()
    some = torch.tensor([0, 3, 4, 5, 6])
    sites = [0, 1, 2] if shared else [0, 2]
    fewer = plain(
        family,
        a[:, sites],
        g[:, some] if shared else g[sites][:, some],
        weight[:, some] if shared else weight[sites][:, some],
    )
    torch.testing.assert_close(total[:, sites], fewer)


def test_single_precision_is_as_good_as_it_can_be():
    family, *parts = problem(2, True, n=40, t=2, atoms=500)
    exact = plain(family, *parts)
    torch.testing.assert_close(
        log_sum_normalisers(family, *(each.float() for each in parts)).double(), exact, atol=1e-5, rtol=1e-5
    )
