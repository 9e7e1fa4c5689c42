"""The in-place reduction over pairs against the dense formula: values, gradients, blocks, and sites without atoms."""

import pytest
import torch

from rpmodels import kernels
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.mixtures import fused
from rpmodels.mixtures.fused import log_sum_normalisers

FAMILIES = [DiagonalGaussian(1), DiagonalGaussian(3), *(FullGaussian(latents) for latents in (1, 2, 3, 4, 5, 8))]
CLOSE = {"atol": 1e-10, "rtol": 1e-10}


@pytest.fixture(autouse=True)
def without_kernels():
    """Those are compared with this in test_kernels."""
    with kernels.switched(False):
        yield


def problem(family, shared, n=5, t=3, atoms=7, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)

    def members(*shape):
        raw = torch.randn(*shape, family.raw_size, generator=generator, dtype=torch.float64)
        return family.to_valid(scale * raw)

    g = members(1 if shared else t, atoms)
    weight = torch.randn(*g.shape[:2], generator=generator, dtype=torch.float64)
    return family, members(n, t), g, weight


def plain(family, a, g, weight):
    return torch.logsumexp(family.log_normaliser(a[:, :, None] + g[None]) + weight[None], -1)


def both(family, parts):
    """Values and gradients of either way."""
    outer = torch.randn(parts[0].shape[:2], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = []
    for way in (log_sum_normalisers, plain):
        value = way(family, *parts)
        found.append([value, *torch.autograd.grad((value * outer.to(value)).sum(), parts)])
    return zip(*found, strict=True)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("block", [1, 13, 2**18])
def test_values_and_gradients(family, shared, block, monkeypatch):
    monkeypatch.setattr(fused, "BLOCK", block)
    monkeypatch.setattr(fused, "ATOMS", max(1, block // 4))
    family, *parts = problem(family, shared)
    for one, other in both(family, [each.requires_grad_() for each in parts]):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("latents", [2, 3, 4, 8])
def test_asymmetric_matrices_and_correlated_latents(latents):
    """Only the symmetric part of a potential's matrix counts, and its gradient is symmetric; S is far from diagonal."""
    family, a, g, weight = problem(FullGaussian(latents), True)
    common = torch.randn(latents, 1, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    a[..., latents:] -= 30.0 * (common @ common.T).flatten()
    skew = torch.randn(latents, latents, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    g[..., latents:] += (skew - skew.T).flatten()
    parts = [each.requires_grad_() for each in (a, g, weight)]
    for one, other in both(family, parts):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("latents", [1, 2, 5])
def test_against_the_gradient_of_a_joint_density_by_numbers(latents):
    """By numerical differences, without any family's own gradients."""
    family, *parts = problem(FullGaussian(latents), False, n=2, t=2, atoms=3)
    parts = [each.requires_grad_() for each in parts]
    assert torch.autograd.gradcheck(lambda *each: log_sum_normalisers(family, *each), parts)


def test_buffers_are_bounded_however_many_numbers_a_pair_has(monkeypatch):
    monkeypatch.setattr(fused, "NUMBERS", 1000)
    made = []
    work = fused._Blocks
    monkeypatch.setattr(fused, "_Blocks", lambda *args: made.append(work(*args)) or made[-1])
    family, *parts = problem(FullGaussian(8), True, atoms=50)
    torch.testing.assert_close(log_sum_normalisers(family, *parts), plain(family, *parts), **CLOSE)
    assert sum(each.numel() for each in made[0]._buffers) <= 1000


@pytest.mark.parametrize("family", [DiagonalGaussian(2), FullGaussian(2)], ids=str)
@pytest.mark.parametrize("shared", [True, False])
def test_atoms_without_weight_and_sites_without_atoms(family, shared):
    family, a, g, weight = problem(family, shared)
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


@pytest.mark.parametrize("family", [DiagonalGaussian(2), *(FullGaussian(latents) for latents in (2, 4, 8))], ids=str)
def test_single_precision_is_as_good_as_it_can_be(family):
    # Members that are far from singular: of others any algebra in single precision has lost digits.
    family, *parts = problem(family, True, n=40, t=2, atoms=500, scale=0.3)
    parts = [each.requires_grad_() for each in parts]
    single = [each.detach().float().requires_grad_() for each in parts]
    outer = torch.randn(40, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64) / 80
    exact, rounded = plain(family, *parts), log_sum_normalisers(family, *single)
    torch.testing.assert_close(rounded.double(), exact, atol=1e-5, rtol=1e-5)
    expected = torch.autograd.grad((exact * outer).sum(), parts)
    found = torch.autograd.grad((rounded * outer.float()).sum(), single)
    for one, other in zip(found, expected, strict=True):
        assert float((one - other).abs().max()) <= 1e-5 * max(1.0, float(other.abs().max()))
