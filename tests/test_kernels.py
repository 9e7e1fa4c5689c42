"""Compiled loops against the same in torch: values and gradients, both precisions, any K, masks, failures, switch."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

import rpmodels as rp
from rpmodels import kernels, linalg
from rpmodels.errors import NumericalError
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.learning import RPMObjective
from rpmodels.linalg.block_tridiagonal import Chain, smoothed
from rpmodels.mixtures.channel_sums import log_sums, slopes
from rpmodels.mixtures.fused import log_sum_normalisers
from rpmodels.priors.chain import Messages

pytest.importorskip("numba")

CLOSE = {torch.float32: 1e-5, torch.float64: 1e-10}
DTYPES = pytest.mark.parametrize("dtype", list(CLOSE), ids=str)


def both(way, parts, dtype):
    """Values and gradients of a random sum of them: compiled, and in torch in double precision."""
    found = []
    for on, kind in ((True, dtype), (False, torch.float64)):
        given = [each.to(kind).requires_grad_() for each in parts]
        with kernels.switched(on):
            assert kernels.serve(*given) is on
            values = way(*given)
            random = torch.Generator().manual_seed(1)
            outer = [torch.randn(each.shape, generator=random, dtype=torch.float64) for each in values]
            loss = sum((each * other.to(kind)).sum() for each, other in zip(values, outer, strict=True))
            found.append([*values, *torch.autograd.grad(loss, given, allow_unused=True)])
    return zip(*found, strict=True)


def assert_same(way, parts, dtype):
    for one, other in both(way, parts, dtype):
        if other is None or not other.numel():
            continue
        assert one.dtype is dtype
        scale = float(other.detach().abs().max()) or 1.0
        assert float((one.double() - other).detach().abs().max()) <= CLOSE[dtype] * scale


def members(family, *shape, random):
    """Natural parameters that are not nearly singular."""
    size = family.latents // family.groups
    unit = torch.eye(size, dtype=torch.float64).expand(family.groups, size, size)
    narrow = family.natural(torch.zeros(family.latents, dtype=torch.float64), family.spread(unit))
    raw = 0.5 * torch.randn(*shape, family.raw_size, generator=random, dtype=torch.float64)
    return family.to_valid(raw) + narrow


# ---- pairs ---------------------------------------------------------------------------------------------

FAMILIES = [*(DiagonalGaussian(k) for k in (1, 2, 3, 8)), *(FullGaussian(k) for k in range(1, 9))]


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@DTYPES
@settings(max_examples=4, deadline=None, derandomize=True)
@given(n=some.integers(8, 70), t=some.integers(1, 3), atoms=some.integers(8, 40), shared=some.booleans())
def test_pairs(family, dtype, n, t, atoms, shared):
    """Some atoms have no weight; lanes are full, or partly so."""
    random = torch.Generator().manual_seed(n)
    g = members(family, 1 if shared else t, atoms, random=random)
    weight = torch.randn(*g.shape[:2], generator=random, dtype=torch.float64)
    weight[:, ::3] = -torch.inf
    assert_same(
        lambda *given: [log_sum_normalisers(family, *given)], [members(family, n, t, random=random), g, weight], dtype
    )


@pytest.mark.parametrize("family", [DiagonalGaussian(2), FullGaussian(2)], ids=str)
def test_more_pairs_than_a_block_and_finite_differences(family):
    random = torch.Generator().manual_seed(0)
    parts = [members(family, 1500, 1, random=random), members(family, 1, 70, random=random)]
    parts.append(torch.randn(1, 70, generator=random, dtype=torch.float64))
    assert_same(lambda *given: [log_sum_normalisers(family, *given)], parts, torch.float64)
    few = [parts[0][:9].clone(), parts[1][:, :8].clone(), parts[2][:, :8].clone()]
    with kernels.switched(True):
        torch.autograd.gradcheck(
            lambda *given: log_sum_normalisers(family, *given), [each.requires_grad_() for each in few]
        )


@pytest.mark.parametrize("family", [DiagonalGaussian(1), FullGaussian(2)], ids=str)
def test_sites_without_atoms_have_nothing_and_no_gradient(family):
    random = torch.Generator().manual_seed(0)
    a = members(family, 9, 2, random=random).requires_grad_()
    g = members(family, 2, 8, random=random)
    weight = torch.zeros(2, 8, dtype=torch.float64)
    weight[1] = -torch.inf
    with kernels.switched(True):
        total = log_sum_normalisers(family, a, g, weight)
    assert bool(torch.isneginf(total[:, 1]).all())
    (by,) = torch.autograd.grad(total[:, 0].sum(), a)
    assert bool(torch.isfinite(by).all())
    assert not by[:, 1].any()


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("n", [7, 300])
@DTYPES
def test_normalisers(family, n, dtype):
    """Lanes are full, or partly so; whoever differentiates twice gets the covariance of the statistic."""
    eta = members(family, n, 6, random=torch.Generator().manual_seed(n))
    assert_same(lambda eta: [family.log_normaliser(eta)], [eta], dtype)
    some = eta[:2].to(dtype).requires_grad_()
    found = []
    for on in (True, False):
        with kernels.switched(on):
            (slope,) = torch.autograd.grad(family.log_normaliser(some.repeat(5, 1, 1)).sum(), some, create_graph=True)
            found.append(torch.autograd.grad(slope.square().sum(), some)[0])
    assert float((found[0] - found[1]).abs().max() / found[1].abs().max()) < CLOSE[dtype]


@pytest.mark.parametrize("latents", range(1, 9))
@DTYPES
def test_parameters_of_full_gaussians(latents, dtype):
    family, random = FullGaussian(latents), torch.Generator().manual_seed(latents)
    mean, covariance = family.moments(members(family, 7, 6, random=random))
    assert_same(lambda m, S: [family.natural(m, 0.5 * (S + S.mT))], [mean, covariance], dtype)


# ---- matrices and chains ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 16])
@DTYPES
def test_inverses_and_log_determinants(size, dtype):
    random = torch.Generator().manual_seed(size)
    root = torch.randn(3, 100, size, size, generator=random, dtype=torch.float64) / size**0.5
    matrices = root @ root.mT + torch.eye(size, dtype=torch.float64)

    def way(m):
        return linalg.inverse_and_log_det(0.5 * (m + m.mT), "a matrix")

    assert_same(way, [matrices], dtype)
    assert_same(lambda m: way(m)[:1], [matrices], dtype)
    assert_same(lambda m: way(m)[1:], [matrices], dtype)


def chain(count, times, size, seed=0):
    random = torch.Generator().manual_seed(seed)
    root = torch.randn(times, count, size, size, generator=random, dtype=torch.float64) / size**0.5
    below = 0.3 * torch.randn(times - 1, count, size, size, generator=random, dtype=torch.float64) / size**0.5
    shift = torch.randn(times, count, size, 1, generator=random, dtype=torch.float64)
    return [root @ root.mT + 2.0 * torch.eye(size, dtype=torch.float64), shift, below]


def smooth(J, h, below):
    return smoothed(Chain(torch.cat([0.5 * (J + J.mT), h], -1), below, "a chain"))


@pytest.mark.parametrize("size", range(1, 9))
@DTYPES
@settings(max_examples=4, deadline=None, derandomize=True)
@given(count=some.integers(4, 20), times=some.integers(1, 12))
def test_chains(size, dtype, count, times):
    assert_same(smooth, chain(count, times, size), dtype)


@pytest.mark.parametrize("which", range(4))
def test_chains_of_which_some_moments_are_asked_for(which):
    assert_same(lambda *given: [smooth(*given)[which]], chain(5, 6, 3), torch.float64)


def test_chains_against_dense_matrices_and_finite_differences():
    J, h, below = chain(4, 5, 2)
    dense = torch.stack([torch.block_diag(*J[:, n]) for n in range(4)])
    for t in range(4):
        here, after = slice(2 * t, 2 * t + 2), slice(2 * t + 2, 2 * t + 4)
        dense[:, after, here], dense[:, here, after] = below[t], below[t].mT
    with kernels.switched(True):
        q = smooth(J, h, below)
        covariance = torch.linalg.inv(dense)
        mean = (covariance @ h[..., 0].transpose(0, 1).reshape(4, 10, 1))[..., 0]
        torch.testing.assert_close(q.mean.transpose(0, 1).reshape(4, 10), mean, atol=1e-12, rtol=0)
        torch.testing.assert_close(q.covariance[2], covariance[:, 4:6, 4:6], atol=1e-12, rtol=0)
        torch.testing.assert_close(q.pairwise[1], covariance[:, 4:6, 2:4], atol=1e-12, rtol=0)
        torch.testing.assert_close(q.log_det, torch.logdet(dense), atol=1e-12, rtol=0)
        torch.autograd.gradcheck(lambda *given: tuple(smooth(*given)), [x.requires_grad_() for x in (J, h, below)])


@DTYPES
@settings(max_examples=10, deadline=None, derandomize=True)
@given(count=some.integers(1, 6), times=some.integers(1, 9), states=some.integers(2, 6), seed=some.integers(0, 99))
def test_messages_of_unequal_trials(dtype, count, times, states, seed):
    random = torch.Generator().manual_seed(seed)
    potentials = 5.0 * torch.randn(count, times, states, generator=random, dtype=dtype)
    lengths = torch.randint(1, times + 1, (count, 1), generator=random)
    there = torch.arange(times) < lengths
    initial, transition = (
        torch.log_softmax(torch.randn(*shape, generator=random), -1) for shape in ((states,), (states, states))
    )
    found = []
    for on in (True, False):
        with kernels.switched(on):
            found.append(Messages.passed(initial, transition, potentials, there))
    for name in ("past", "future", "after", "log_partition", "marginals"):
        one, other = (getattr(each, name) for each in found)
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("way", [log_sums, slopes])
@DTYPES
@settings(max_examples=6, deadline=None, derandomize=True)
@given(n=some.integers(1, 5), t=some.integers(1, 4), channels=some.integers(1, 40), shared=some.booleans())
def test_sums_over_values_of_channels(way, dtype, n, t, channels, shared):
    """Channels have as many values as the richest, some of them without any weight."""
    random = torch.Generator().manual_seed(channels)
    u, a, b, values = (
        torch.randn(*shape, generator=random, dtype=torch.float64)
        for shape in ((n, t, 3, channels), (channels, 6), (channels, 6), (1 if shared else t, channels, 6))
    )
    values[:, ::2, 4:] = -torch.inf
    assert_same(lambda *given: [way(*given)], [u, a, b.exp(), values], dtype)


# ---- whole models ------------------------------------------------------------------------------------------


def energy_and_gradients(estimator, observations, dtype, on):
    model, _ = estimator.build(observations)
    model.prepare(observations)
    with kernels.switched(on):
        objective = RPMObjective(model, observations).train()
        batch = observations.batch(np.arange(len(observations)), dtype, model.device)
        torch.manual_seed(0)
        energy = objective(batch)["free_energy"]
        parameters = [each for each in objective.parameters() if each.requires_grad]
        return energy.detach(), torch.autograd.grad(energy, parameters, allow_unused=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "make",
    [
        lambda **engine: rp.RPGPFA(1, n_inducing=5, random_state=0, **engine),
        lambda **engine: rp.RPGPFA(2, n_inducing=5, random_state=0, **engine,
                                   recognition=rp.Recognition(covariance="full")),
        lambda **engine: rp.RPHMM(3, random_state=0, **engine),
        lambda **engine: rp.RPLDS(2, random_state=0, **engine),
    ],
    ids=["gpfa", "full", "hmm", "lds"],
)  # fmt: skip
def test_a_step_is_the_same(make, dtype):
    """Unequal trials, some of their times missing."""
    random = np.random.default_rng(0)
    trials = [random.normal(size=(length, 4)) for length in [9] * 9 + [6, 7, 8]]
    trials[0][3] = np.nan
    observations = rp.read({"x": trials, "y": [each[:, :2] for each in trials]}, series=True)
    estimator = make(engine=rp.Engine(dtype=dtype))
    kind = getattr(torch, dtype)
    one, other = (energy_and_gradients(estimator, observations, kind, on) for on in (True, False))
    tolerance = 1e-4 if dtype == "float32" else 1e-9  # of what a whole step rounds
    torch.testing.assert_close(one[0], other[0], rtol=tolerance, atol=tolerance)
    for mine, theirs in zip(one[1], other[1], strict=True):
        if theirs is not None:
            assert float((mine - theirs).abs().max()) <= tolerance * max(1.0, float(theirs.abs().max()))


# ---- failures and the switch -----------------------------------------------------------------------------


def failure(way):
    with pytest.raises(NumericalError) as raised:
        way()
    return str(raised.value)


def test_what_is_not_positive_definite_fails_in_the_same_words():
    J, h, below = chain(5, 6, 2)
    J[3, 2] -= 100.0 * torch.eye(2)
    matrices = torch.eye(3).repeat(40, 1, 1)
    matrices[7, 1, 1] = -1.0
    family = FullGaussian(2)
    eta = members(family, 40, 1, random=torch.Generator().manual_seed(0))
    eta[5, 0, 2:] *= -1.0
    for way in (
        lambda: smooth(J, h, below),
        lambda: linalg.inverse_and_log_det(matrices, "a matrix"),
        lambda: family.log_normaliser(eta),
    ):
        texts = []
        for on in (True, False):
            with kernels.switched(on):
                texts.append(failure(way))
        assert texts[0] == texts[1]


def test_a_jitter_helps_a_singular_matrix_as_it_does_in_torch():
    matrices = torch.eye(2, dtype=torch.float64).repeat(40, 1, 1)
    matrices[3] = 1.0
    with kernels.switched(True):
        inverted, _ = linalg.inverse_and_log_det(matrices, "a matrix")
    assert bool(torch.isfinite(inverted).all())


def test_other_precisions_and_installations_go_by_torch(monkeypatch):
    with kernels.switched(True):
        assert not kernels.serve(torch.zeros(2, dtype=torch.float16))
        assert not kernels.serve(torch.zeros(2), torch.zeros(2, dtype=torch.float64))
        assert kernels.status().startswith("compiled by Numba")
        monkeypatch.setattr(kernels, "_installed", lambda: False)
        assert not kernels.serve(torch.zeros(2))
        assert "pip install" in kernels.status()


def test_the_environment_turns_them_off():
    told = "import sys, rpmodels as rp; rp.show_versions(); print('numba' in sys.modules)"
    environment = {**os.environ, kernels.SWITCH: "0"}
    answer = subprocess.run([sys.executable, "-c", told], env=environment, capture_output=True, text=True, check=True)
    assert f"{kernels.SWITCH}=0" in answer.stdout
    assert answer.stdout.strip().endswith("False")


def test_exp_and_log_are_right_to_the_last_digits_and_at_their_ends():
    arithmetic = kernels.loops("arithmetic")
    exp, log = arithmetic.exp, arithmetic.log

    @arithmetic.njit
    def each(x, y, z):
        for i in range(len(x)):
            y[i], z[i] = exp(x[i]), log(x[i])

    for kind in (np.float32, np.float64):
        x = np.concatenate([np.random.default_rng(0).uniform(-80, 80, 1000), np.geomspace(1e-30, 1e30, 1000)])
        x = np.where(x > 80, 80 / x, x).astype(kind)
        y, z = np.empty_like(x), np.empty_like(x)
        each(x, y, z)
        wide = x.astype(np.longdouble)
        assert np.all(np.abs(y / np.exp(wide) - 1) < 2 * np.finfo(kind).eps)
        above = x > 0
        assert np.all(np.abs(z[above] - np.log(wide[above])) <= 3 * np.finfo(kind).eps * np.abs(np.log(wide[above])))
        ends = np.array([-np.inf, -1e4, -1.0, 0.0, 1.0, 1e4, np.inf, np.nan], kind)
        y, z = np.empty_like(ends), np.empty_like(ends)
        each(ends, y, z)
        np.testing.assert_allclose(y, [0, 0, np.exp(-1.0), 1, np.e, np.inf, np.inf, np.nan], rtol=1e-6)
        np.testing.assert_allclose(z, [np.nan, np.nan, np.nan, -np.inf, 0, np.log(1e4), np.inf, np.nan], rtol=1e-6)
