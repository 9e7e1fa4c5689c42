"""p₀ beside the empirical one: kernel densities and parametric families, against scipy.stats and integrals."""

import numpy as np
import pytest
import scipy.stats
import torch

import rpmodels as rp
from registry import made
from rpmodels import generative
from rpmodels.carriers import Factor
from rpmodels.errors import BuildError, InputError
from rpmodels.families import Categorical, DiagonalGaussian
from rpmodels.fitted import FittedRPM
from rpmodels.learning import RPMObjective
from rpmodels.mixtures import (
    CategoricalMarginal,
    GaussianMarginal,
    KernelDensity,
    MarginalByFactor,
    MomentMatched,
    Parametric,
    PerSite,
    PoissonMarginal,
    Pooled,
)
from rpmodels.mixtures.densities import quasi_random
from rpmodels.priors import CategoricalPrior, GaussianPrior
from rpmodels.recognition import Linear
from rpmodels.seeding import seeded

CPU = torch.device("cpu")
DOUBLE = torch.float64


def read(x, **options):
    """As one of two factors; the other is always there."""
    other = np.zeros((*x.shape[:2], 1)) + np.arange(len(x))[:, None, None] if x.ndim > 2 else np.arange(len(x))[:, None]
    options.setdefault("series", x.ndim > 2)
    return rp.read({"x": x, "other": other.astype(float)}, **options)


def drawn(marginal, observations, per_site=False, batches=1, fresh=False):
    """Values and weights of everything that stands for p₀."""
    parts = np.array_split(np.arange(len(observations)), batches)
    density = marginal.of("x", observations, per_site)
    batched = (observations.batch(part, DOUBLE, CPU) for part in parts)
    found = list(density.draws(batched, observations.n_sites, fresh, CPU))
    return density, torch.cat([each.values for each in found]), torch.cat([each.weights for each in found])


# ---- quasi-random numbers --------------------------------------------------------------------------


def test_sobol_points_by_their_numbers_are_those_of_the_sequence():
    engine = torch.quasirandom.SobolEngine(5, scramble=True, seed=quasi_random.SEED)
    sequence = engine.draw(200, dtype=DOUBLE)
    numbers = torch.as_tensor(np.random.default_rng(0).permutation(200))
    # The first is of single precision there.
    torch.testing.assert_close(quasi_random.points(numbers, 5), sequence[numbers], rtol=0, atol=1e-7)


def test_shifted_points_are_as_even_and_never_the_same():
    torch.manual_seed(0)
    one, two = (quasi_random.points(torch.arange(1024), 2, fresh=True) for _ in range(2))
    assert (one != two).all()
    for each in (one, two):
        assert scipy.stats.qmc.discrepancy(each.numpy()) < 1e-5  # of 1024 independent points: 3e-4
        assert ((each > 0) & (each < 1)).all()


# ---- kernel densities ------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3])
def test_the_width_falls_as_scott_says_whatever_the_batch(d):
    sizes = (100, 1000, 10_000, 100_000)
    random = np.random.default_rng(d)
    mean_widths = []
    for n in sizes:
        observations = read(random.normal(5.0, np.arange(1.0, d + 1), (n, d)))
        density, all_at_once, _ = drawn(KernelDensity(), observations)
        rows = torch.as_tensor(observations.values["x"][:, 0])[None]
        widths = density.widths(rows)[0]
        mean_widths.append(float(widths.log().mean()))
        _, in_batches, _ = drawn(KernelDensity(), observations, batches=7)
        torch.testing.assert_close(in_batches, all_at_once, rtol=1e-5, atol=1e-8)
        # What was drawn is as far away as the widths say, in sds of all the data.
        moved = (all_at_once[:, 0] - rows[0]) / torch.as_tensor(observations.values["x"][:, 0].std(0))
        assert float((moved / widths[:, None]).square().mean()) == pytest.approx(1.0, abs=6.0 / np.sqrt(n))
    slopes = np.diff(mean_widths) / np.diff(np.log(sizes))
    np.testing.assert_allclose(slopes, -1.0 / (d + 4), atol=1e-3)


def test_without_adaptation_it_is_the_density_of_scipy():
    random = np.random.default_rng(0)
    x = random.gamma(2.0, 1.0, (400, 1))
    weights = random.uniform(0.2, 2.0, 400)
    observations = read(x, weights=weights)
    _, values, counts = drawn(KernelDensity(adaptive=False, draws=64), observations)
    effective = weights.sum() ** 2 / (weights**2).sum()
    truth = scipy.stats.gaussian_kde(x[:, 0], effective**-0.2 * np.sqrt(1 - 1 / effective), weights)
    for place in (-0.5, 0.5, 1.0, 3.0, 6.0):
        below = float((counts * (values[..., 0] < place)).sum() / counts.sum())
        assert below == pytest.approx(truth.integrate_box_1d(-np.inf, place), abs=1.5e-3)


def test_covariances_of_its_draws_are_those_of_scipy():
    random = np.random.default_rng(1)
    x = random.normal(size=(500, 3)) @ random.normal(size=(3, 3)) + 100.0
    _, values, _ = drawn(KernelDensity(adaptive=False, draws=32), read(x))
    truth = scipy.stats.gaussian_kde(x.T, 500 ** (-1 / 7) * np.sqrt(1 - 1 / 500))
    expected = np.cov(x.T, bias=True) + truth.covariance
    np.testing.assert_allclose(np.cov(values[:, 0].numpy().T, bias=True), expected, rtol=0.02, atol=0.02)


def test_adaptation_is_abramsons_by_a_pilot_density():
    random = np.random.default_rng(2)
    x = np.concatenate([random.normal(0, 1, 150), random.normal(8, 0.2, 50), [30.0]])[:, None]
    density, _, _ = drawn(KernelDensity(), read(x))
    width = len(x) ** -0.2
    pilot = scipy.stats.gaussian_kde(x[:, 0], width * np.sqrt(1 - 1 / len(x)))
    own = 1.0 / len(x) / np.sqrt(2 * np.pi * width**2 * x.var())  # the floor: one more kernel in every place
    p = pilot(x[:, 0]) + own
    expected = width * (p / np.exp(np.log(p).mean())) ** -0.5
    np.testing.assert_allclose(density.widths(torch.as_tensor(x)[None])[0].numpy(), expected, rtol=1e-4)
    assert expected[-1] == expected.max()


def test_every_site_has_its_own_width_or_all_have_one():
    random = np.random.default_rng(3)
    x = random.normal(0.0, [1.0, 10.0, 1.0], (300, 3))[..., None]
    present = np.ones((300, 3), bool)
    present[20:, 2] = False
    observations = read(np.where(present[..., None], x, np.nan))
    per_site, values, _ = drawn(KernelDensity(adaptive=False), observations, per_site=True)
    rows = torch.as_tensor(observations.values["x"]).transpose(0, 1)
    np.testing.assert_allclose(per_site.widths(rows)[:, 0].numpy(), np.array([300, 300, 20]) ** -0.2, rtol=1e-12)
    moved = (values[..., 0] - torch.as_tensor(observations.values["x"][..., 0])).numpy()
    assert (moved[~present] == 0).all()
    for t in range(3):
        have = present[:, t]
        assert moved[have, t].std() == pytest.approx(have.sum() ** -0.2 * x[have, t].std(), rel=0.15)
    pooled, values, _ = drawn(KernelDensity(adaptive=False), observations)
    assert float(pooled.widths(rows.reshape(1, -1, 1))[0, 0]) == pytest.approx(620**-0.2)
    cut = observations.batch(np.arange(5), DOUBLE, CPU, 2)  # a batch of shorter trials
    density = KernelDensity(adaptive=False).of("x", observations, True)
    (short,) = density.draws([cut], 2, False, CPU)
    assert short.values.shape == (5, 2, 1)


def test_weights_and_what_is_absent():
    random = np.random.default_rng(4)
    n = 4000
    x = np.concatenate([random.normal(-3, 1, (n, 2, 3)), random.normal(3, 2, (n, 2, 3))])
    present = random.random((2 * n, 2)) > 0.4
    weights = np.concatenate([np.zeros(n), np.ones(n)])
    observations = rp.read(
        {"x": np.where(present[..., None], x, np.nan), "other": np.ones((2 * n, 2, 1))}, series=True, weights=weights
    )
    for marginal in (KernelDensity(), GaussianMarginal(), MomentMatched("Laplace")):
        _, values, counts = drawn(marginal, observations)
        counts = torch.where((values == 0).all(-1), 0.0, counts)
        mean = (counts[..., None] * values).sum((0, 1)) / counts.sum()
        sd = ((counts[..., None] * (values - mean).square()).sum((0, 1)) / counts.sum()).sqrt()
        np.testing.assert_allclose(mean.numpy(), 3.0, atol=0.12)
        np.testing.assert_allclose(sd.numpy(), 2.0 if marginal.draws > 1 else 2.05, atol=0.12)


# ---- parametric families ---------------------------------------------------------------------------

MATCHED = {
    "Normal": lambda m, v: scipy.stats.norm(m, np.sqrt(v)),
    "Laplace": lambda m, v: scipy.stats.laplace(m, np.sqrt(v / 2)),
    "Gamma": lambda m, v: scipy.stats.gamma(m**2 / v, scale=v / m),
    "LogNormal": lambda m, v: scipy.stats.lognorm(np.sqrt(np.log(1 + v / m**2)), scale=m / np.sqrt(1 + v / m**2)),
    "Gumbel": lambda m, v: scipy.stats.gumbel_r(m - np.euler_gamma * np.sqrt(6 * v) / np.pi, np.sqrt(6 * v) / np.pi),
    "Exponential": lambda m, v: scipy.stats.expon(scale=m),
    "Beta": lambda m, v: scipy.stats.beta(m * (m * (1 - m) / v - 1), (1 - m) * (m * (1 - m) / v - 1)),
}


@pytest.mark.parametrize("family", MATCHED)
def test_moments_single_out_the_member_that_scipy_has(family):
    random = np.random.default_rng(5)
    x = random.beta(2.0, 5.0, (500, 2)) if family == "Beta" else random.gamma(3.0, [0.1, 100.0], (500, 2))
    density, values, _ = drawn(MomentMatched(family, draws=4000), read(x))
    for c in range(2):
        truth = MATCHED[family](x[:, c].mean(), x[:, c].var())
        assert scipy.stats.kstest(values[:, 0, c].numpy(), truth.cdf).statistic < 0.025
        assert float(density.distribution.mean[0, c]) == pytest.approx(truth.mean(), rel=1e-6)
        assert float(density.distribution.variance[0, c]) == pytest.approx(truth.var(), rel=1e-6)


def test_a_normal_has_mean_and_covariance_of_all_the_data():
    random = np.random.default_rng(6)
    x = 1e6 + random.normal(size=(300, 4)) @ random.normal(size=(4, 4))
    density, values, _ = drawn(GaussianMarginal(shrinkage=0.0, draws=4096), read(x), batches=9)
    np.testing.assert_allclose(density.distribution.loc[0].numpy(), x.mean(0), rtol=1e-12)
    np.testing.assert_allclose(density.distribution.covariance_matrix[0].numpy(), np.cov(x.T, bias=True), rtol=1e-7)
    np.testing.assert_allclose(np.cov(values[:, 0].numpy().T), np.cov(x.T, bias=True), rtol=0.02, atol=0.02)


def test_counts_by_their_rates_at_every_site():
    random = np.random.default_rng(7)
    rates = np.array([[0.5, 3.0], [20.0, 0.0]])
    observations = read(random.poisson(rates, (400, 2, 2)))
    density, values, _ = drawn(PoissonMarginal(draws=4000), observations, per_site=True)
    np.testing.assert_allclose(density.distribution.rate.numpy(), observations.values["x"].mean(0), rtol=1e-12)
    assert values.dtype == torch.int64
    np.testing.assert_allclose(values.double().mean(0).numpy(), observations.values["x"].mean(0), rtol=0.05)
    np.testing.assert_allclose(values.double().var(0).numpy(), observations.values["x"].mean(0), rtol=0.1)
    again = drawn(PoissonMarginal(draws=4000), observations, per_site=True)[1]
    assert torch.equal(values, again)
    assert not torch.equal(values, drawn(PoissonMarginal(draws=4000), observations, True, fresh=True)[1])


class Uniform(Parametric):
    """Between zero and six times the mean: a statistic and a member."""

    def statistic(self, rows):
        return rows

    def distribution(self, mean):
        return torch.distributions.Uniform(0.0, 6.0 * mean + 1.0, validate_args=False)


def test_draws_of_counts_in_few_bits_are_not_cut_off():
    counts = np.random.default_rng(4).poisson(240.0, (400, 1)).clip(0, 255).astype(np.uint8)
    _, values, _ = drawn(PoissonMarginal(draws=4096), read(counts))
    assert float(values.double().mean()) == pytest.approx(float(counts.mean()), abs=1.0)
    assert float(values.double().std()) == pytest.approx(float(counts.mean()) ** 0.5, rel=0.05)
    assert values.max() > 255


def test_a_family_of_one_parameter_has_no_need_of_a_variance():
    for family, constant in (("Exponential", 2.0), ("Poisson", 3.0)):
        density, _, _ = drawn(MomentMatched(family), read(np.full((20, 1), constant)))
        assert float(density.distribution.mean) == pytest.approx(constant, abs=1e-7)


def test_a_family_of_ones_own_is_a_statistic_and_a_member():
    x = np.random.default_rng(8).uniform(0, 4, (500, 2))
    _, values, _ = drawn(Uniform(), read(x))
    for c in range(2):
        truth = scipy.stats.uniform(0, 6 * x[:, c].mean() + 1)
        assert scipy.stats.kstest(values[:, 0, c].numpy(), truth.cdf).statistic < 0.005


# ---- F_j -------------------------------------------------------------------------------------------


def linear_mixture(values, weights, slope, offset, variance, z):
    """log F(z)/r(z) of f(z|x) = N(z; slope·x + offset, variance), over drawn rows, r = N(0, 4)."""
    family = DiagonalGaussian(1)
    reference = torch.tensor([[0.0, -0.125]], dtype=DOUBLE)
    centre = values.double() @ torch.as_tensor(slope) + offset
    eta = torch.stack([centre / variance, torch.full_like(centre, -0.5 / variance)], -1)
    factor = Factor(eta - reference, torch.ones_like(weights, dtype=torch.bool))
    atoms = Pooled().collect(family, reference, factor, weights)
    return atoms.log_ratio(torch.stack([torch.as_tensor(z), torch.as_tensor(z) ** 2], -1)[None, None])[0, 0].numpy()


def test_the_mixture_of_a_kernel_density_is_the_integral():
    """(1/N) Σ_n N(z; ax_n + b, s² + a² h²λ_n² v), every kernel integrated by itself."""
    random = np.random.default_rng(9)
    slope, offset, variance = np.array([0.6]), 0.2, 0.05
    worst = []
    for n in (100, 1000, 10_000):
        x = random.gamma(2.0, 1.0, (n, 1))
        density, values, weights = drawn(KernelDensity(), read(x))
        widths = density.widths(torch.as_tensor(x)[None])[0].numpy() * x.std()
        z = np.linspace(0.3, 3.0, 31)
        sds = np.sqrt(variance + slope[0] ** 2 * widths**2)
        truth = scipy.stats.norm(slope[0] * x[:, 0] + offset, sds).pdf(z[:, None]).mean(1)
        found = linear_mixture(values, weights, slope, offset, variance, z)
        worst.append(np.abs(found - np.log(truth) + scipy.stats.norm(0, 2).logpdf(z)).max())
    assert worst[0] > worst[1] > worst[2]
    assert worst[2] < 0.03


@pytest.mark.parametrize(
    "marginal", [KernelDensity(), GaussianMarginal(), MomentMatched("Normal")], ids=lambda m: type(m).__name__
)
def test_every_p0_tends_to_the_true_marginal(marginal):
    """f(z|x) = N(z; ax + b, s²) and x normal: F = ∫ p₀ f is normal too."""
    mean, sds = np.array([1.0, -2.0]), np.array([1.0, 1.4])
    slope, offset, variance = np.array([0.6, -0.4]), 0.2, 0.3
    m, v = slope @ mean + offset, (slope**2) @ sds**2 + variance
    z = m + np.sqrt(v) * np.linspace(-2.5, 2.5, 41)
    truth = scipy.stats.norm(m, np.sqrt(v)).logpdf(z) - scipy.stats.norm(0, 2).logpdf(z)
    worst = []
    for n in (100, 30_000):
        far = []
        for seed in range(3):
            x = np.random.default_rng(seed).normal(mean, sds, (n, 2))
            _, values, weights = drawn(marginal, read(x))
            far.append(np.abs(linear_mixture(values, weights, slope, offset, variance, z) - truth).max())
        worst.append(np.mean(far))
    assert worst[1] < 0.5 * worst[0]
    assert worst[1] < 0.1


# ---- whole models ----------------------------------------------------------------------------------


def views(n, seed=0):
    random = np.random.default_rng(seed)
    z = random.standard_normal((n, 1))
    return {name: z @ [[1.0, -0.5]] + 0.6 * random.standard_normal((n, 2)) for name in "ab"}


def pattern(marginal=None, atoms=None, dtype=DOUBLE):
    """With fixed networks that say what is true of `views`."""
    family = DiagonalGaussian(1)
    with seeded(0):
        networks = {name: Linear((2,), 2) for name in "ab"}
    with torch.no_grad():
        for each in networks.values():
            each[1].weight.copy_(torch.tensor([[2.8, -1.4], [0.0, 0.0]]))
            each[1].bias.copy_(torch.tensor([0.0, 3.4]))
    return rp.RPM(
        GaussianPrior(family), networks, e_step=rp.inference.Amortised(), expected_log_mixture=rp.mixtures.SharedGrid(),
        atoms=atoms or Pooled(), marginal=marginal, scaling="none", dtype=dtype,
    )  # fmt: skip


def fitted(marginal, data, **options):
    model = pattern(marginal, **options)
    observations = rp.read(data, series=False)
    model.prepare(observations)
    return FittedRPM.collected(model, observations), observations


def test_the_model_with_a_kernel_density_tends_to_the_empirical_one():
    new = rp.read(views(40, 99), series=False)
    apart = []
    for n in (100, 1000, 10_000):
        one, two = (fitted(marginal, views(n))[0].free_energies(new).values for marginal in (None, KernelDensity()))
        apart.append(np.abs(one - two).mean())
    assert apart[0] > 2.0 * apart[1] > 4.0 * apart[2]


def test_widths_and_draws_are_the_same_in_a_step_in_the_end_and_for_new_data(monkeypatch):
    """Observations are moved by as much, whatever is beside them."""
    monkeypatch.setattr(quasi_random, "normals", lambda numbers, size, fresh: torch.ones(len(numbers), size).double())
    observations = rp.read(views(500), series=False)
    model = pattern(KernelDensity())
    model.prepare(observations)
    seen = []
    hooks = [each.network.register_forward_pre_hook(lambda _, x: seen.append(x[0])) for _, each in model.recognisers()]
    objective = RPMObjective(model, observations).train()
    batch = observations.batch(np.arange(30), DOUBLE, CPU)
    objective(batch)
    of_the_step = {tuple(row) for row in torch.cat(seen).numpy().round(5).tolist()}
    seen.clear()
    FittedRPM.collected(model, observations)
    of_the_end = {tuple(row) for row in torch.cat(seen).numpy().round(5).tolist()}
    for each in hooks:
        each.remove()
    x = torch.cat([batch.inputs[name][:, 0] for name in "ab"]).numpy().round(5).tolist()
    assert of_the_step - {tuple(row) for row in x} <= of_the_end
    assert len(of_the_end) == 1000


def test_what_is_seen_is_no_atom_and_has_no_ceiling():
    data = views(60)
    for marginal in (KernelDensity(), GaussianMarginal(), MarginalByFactor(["a"], [KernelDensity(draws=2)])):
        model, observations = fitted(marginal, data)
        new = rp.read(views(5, 1), series=False)
        energies = model.free_energies(new)
        alone = [model.free_energies(new.subset(np.array([n]))).values for n in range(5)]
        np.testing.assert_allclose(energies.values, np.concatenate(alone), rtol=0, atol=1e-9)
        assert torch.isinf(energies.log_atoms).all()
        assert all(each.mixtures["a"].own is None for each in model.posterior(new))
        assert model.ceiling(observations) == np.inf
        assert "no ceiling" in repr(model.score(new))
    by_name = model.atoms("b")
    assert not by_name.drawn
    assert by_name.g.shape[1] == 60
    assert model.atoms("a").g.shape[1] == 120


def test_far_from_all_data_log_w_has_no_bound_where_p0_is_continuous():
    """With an own atom f/F is at most N + 1; without one it goes on growing."""
    far = {name: np.array([[30.0, -15.0]]) for name in "ab"}
    new = rp.read(far, series=False)
    empirical, smooth = (fitted(marginal, views(60))[0].score(new) for marginal in (None, KernelDensity()))
    assert empirical <= empirical.ceiling == pytest.approx(2 * np.log(61))
    assert smooth > 10 * empirical.ceiling


def test_labels_with_their_frequencies_are_the_empirical_model():
    random = np.random.default_rng(0)
    states = random.integers(3, size=200)
    data = {name: np.array(list("uvwx"))[(states + random.integers(2, size=200)) % 4] for name in "ab"}
    weights = random.uniform(0.5, 2.0, 200)
    found = []
    for marginal in (None, CategoricalMarginal()):
        with seeded(1):
            networks = {name: rp.recognition.LookupTable(4, 3) for name in "ab"}
        model = rp.RPM(CategoricalPrior.uniform(3), networks, atoms=Pooled(), marginal=marginal, dtype=DOUBLE)
        observations = rp.read(data, series=False, weights=weights)
        model.prepare(observations)
        found.append(FittedRPM.collected(model, observations).free_energies(observations, in_training=True).values)
        batch = observations.batch(np.arange(10), DOUBLE, CPU)
        mixture = RPMObjective(model, observations).eval().evaluate(batch).mixtures["a"]
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-12)
    # A batch of ten sees F over all the data.
    codes = observations.values["a"][:, 0]
    counts = np.bincount(codes, weights)
    table = torch.softmax(networks["a"](torch.arange(4)), -1).detach().numpy()
    expected = counts @ table / counts.sum()
    np.testing.assert_allclose(mixture.log_ratio()[0, 0].exp().detach().numpy() / 3, expected, atol=1e-12)


def test_labels_at_every_site_with_smoothing():
    labels = np.array([["u", "v"], ["u", "u"], ["w", "v"]])
    observations = rp.read({"x": labels, "other": np.ones((3, 2, 1))}, series=True)
    density = CategoricalMarginal(0.5).of("x", observations, True)
    np.testing.assert_allclose(density.counts.numpy(), [[2.5, 0.5, 1.5], [1.5, 2.5, 0.5]])
    (found,) = density.draws([], 1, False, CPU)
    assert found.values.shape == (3, 1)
    mixture = PerSite().collect(
        Categorical(2), torch.zeros(2, 2), Factor(torch.zeros(3, 2, 2), torch.ones(3, 2, dtype=torch.bool)),
        density.counts.mT.float(),
    )  # fmt: skip
    np.testing.assert_allclose(mixture.log_count.exp().numpy(), density.counts.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    "marginal",
    [
        "kernel_density",
        GaussianMarginal(draws=50),
        MomentMatched("Laplace", 50),
        {"a": KernelDensity(0.2), "b": "gaussian"},
    ],
    ids=["name", "normal", "moments", "by factor"],
)
def test_files_hold_them(marginal, tmp_path):
    model = made(rp.RPFA, 1, n_init=1, max_iter=3, random_state=0, marginal=marginal).fit(views(40))
    model.save(tmp_path / "model")
    again = rp.load(tmp_path / "model")
    np.testing.assert_array_equal(model.score_samples(views(7, 1)), again.score_samples(views(7, 1)))
    assert again.score(views(7, 1)).ceiling == np.inf


class OwnFamily(torch.distributions.Laplace):
    """As many have one."""


@pytest.mark.parametrize("marginal", [Uniform(), MomentMatched(OwnFamily)], ids=["protocol", "class"])
def test_ones_own_is_named_by_a_file_and_handed_in(marginal, tmp_path):
    data = {name: np.abs(each) for name, each in views(40).items()}
    model = made(rp.RPFA, 1, n_init=1, max_iter=3, random_state=0, marginal=marginal).fit(data)
    model.save(tmp_path / "model")
    with pytest.raises(rp.errors.FileError, match="your own"):
        rp.load(tmp_path / "model")
    again = rp.load(tmp_path / "model", marginal=marginal)
    np.testing.assert_array_equal(model.transform(data), again.transform(data))


def test_series_with_one_mixture_for_all_times_have_no_more_atoms_than_draws():
    x = {name: np.random.default_rng(3).normal(size=(6, 9, 2)) for name in "ab"}
    observations = rp.read(x, series=True)
    for marginal, count in ((GaussianMarginal(draws=50), 50), (KernelDensity(draws=2), 2 * 6 * 9)):
        model = pattern(marginal)
        model.prepare(observations)
        assert FittedRPM.collected(model, observations).atoms("a").g.shape == (1, count, 2)
        apart = pattern(marginal, PerSite())
        apart.prepare(observations)
        assert FittedRPM.collected(apart, observations).atoms("a").g.shape == (9, count // (9 if count > 50 else 1), 2)
        step = RPMObjective(model, observations).train().evaluate(observations.batch(np.arange(2), DOUBLE, CPU))
        assert step.mixtures["a"].g.shape[1] == (50 if count == 50 else 2 * 2 * 9)


def test_there_are_no_weights_of_observations_where_atoms_are_draws():
    model, _ = fitted(KernelDensity(), views(20))
    with pytest.raises(BuildError, match="draws from its p₀"):
        generative.conditional_weights(model, "a", torch.zeros(1, 1, 1).double())


# ---- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marginal", "x", "message"),
    [
        (KernelDensity(), np.arange(20) % 3, "labels or integers"),
        (KernelDensity(), np.array(list("abcd" * 5)), "labels or integers"),
        (GaussianMarginal(), np.array(list("abcd" * 5)), "labels or integers"),
        (GaussianMarginal(), np.arange(20)[:, None] % np.array([3, 4]), "labels or integers"),
        (
            MomentMatched("Gamma"),
            1 + np.arange(20, dtype=np.uint8)[:, None] % np.array([3, 4], np.uint8),
            "or integers",
        ),
        (CategoricalMarginal(), np.ones((20, 2)) * np.arange(20)[:, None], "holds numbers"),
    ],
)
def test_factors_that_a_p0_is_not_for(marginal, x, message):
    with pytest.raises(BuildError, match=message):
        made(rp.RPFA, 1, n_init=1, max_iter=2, marginal=marginal).fit({"x": x, "other": views(20)["a"]})


def test_other_refusals():
    x = views(20)["a"]
    with pytest.raises(BuildError, match=r"never gives"):
        PoissonMarginal().of("x", read(x), False)
    with pytest.raises(BuildError, match=r"Beta has no member"):
        MomentMatched("Beta").of("x", read(x + 5), False)
    with pytest.raises(BuildError, match=r"Gamma p₀ never gives|no member"):
        MomentMatched("Gamma").of("x", read(x + 0.5), False)
    with pytest.raises(BuildError, match=r"StudentT has the parameters df, loc, scale"):
        MomentMatched("StudentT")
    with pytest.raises(InputError, match=r"family: expected a class of torch.distributions"):
        MomentMatched("Magic")
    with pytest.raises(InputError, match="draws"):
        KernelDensity(draws=0)
    with pytest.raises(InputError, match="Unknown factor 'c'"):
        pattern(MarginalByFactor(["c"], [KernelDensity()]))
    with pytest.raises(BuildError, match="takes at most 21201"):
        made(rp.RPFA, 1, n_init=1, max_iter=2, network="linear", marginal="kernel_density").fit(
            {"x": np.random.default_rng(0).normal(size=(8, 21300)), "other": views(8)["a"]}
        )


def test_a_population_has_a_p0_of_its_own():
    counts = np.random.default_rng(0).poisson(2.0, (30, 10, 4))
    options = {"n_init": 1, "max_iter": 2, "random_state": 0}
    with pytest.raises(BuildError, match="is a population"):
        made(rp.RPGPFA, 1, factors={"x": rp.Population()}, marginal="poisson", **options).fit(counts)
