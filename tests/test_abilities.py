"""What a family and a prior can do decides what they go with; what is missing is named, and only that.

The family here is none of the library's: von Mises, an angle with natural parameters (κ cos θ, κ sin θ). It knows
nothing but Φ and μ; subclasses learn one ability after the other.
"""

import itertools
from dataclasses import dataclass

import gpytorch
import numpy as np
import pytest
import torch
from scipy import special, stats

import rpmodels as rp
from rpmodels import log_weight
from rpmodels.carriers import Factor, Sites
from rpmodels.errors import BuildError
from rpmodels.families import (
    Categorical,
    DiagonalGaussian,
    Family,
    FullGaussian,
    HasDomain,
    HasStatisticCovariance,
    Reparametrised,
)
from rpmodels.fitted import FittedRPM
from rpmodels.inference import Amortised, ExactEStep, FreeInducing, FreePotentials, NaturalGradient
from rpmodels.mixtures import (
    AtomMixture,
    Exact,
    FreeInteriorBound,
    GaussHermite,
    InteriorBound,
    MonteCarlo,
    OptimalInteriorBound,
    SecondOrder,
    SharedGrid,
)
from rpmodels.priors import (
    CategoricalPrior,
    DirichletPrior,
    GaussianPrior,
    GaussianProcessPrior,
    HasLogDensity,
    IndependentSites,
    LinearDynamicsPrior,
    MarkovChainPrior,
    Posterior,
    Prior,
)

DOUBLE = torch.float64
CIRCLE = np.linspace(-np.pi, np.pi, 4000, endpoint=False)


# ---- families ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VonMises(Family):
    """Angles; t(z) = (cos z, sin z). Φ and μ, nothing else."""

    natural_size = 2
    raw_size = 2

    def _kappa(self, eta):
        return (eta.square().sum(-1) + 1e-24).sqrt()

    def log_normaliser(self, eta):
        kappa = self._kappa(eta)
        return np.log(2 * np.pi) + torch.special.i0e(kappa).log() + kappa

    def mean(self, eta):
        return self._length(eta)[..., None] * eta / self._kappa(eta)[..., None]

    def _length(self, eta):
        kappa = self._kappa(eta)
        return torch.special.i1e(kappa) / torch.special.i0e(kappa)

    def statistic(self, z):
        return torch.stack([z.cos(), z.sin()], -1)

    def to_valid(self, raw):
        return raw

    def to_potential(self, raw):
        return raw


@dataclass(frozen=True)
class PlacedVonMises(VonMises, HasDomain):
    """Every vector is valid, and it says so."""

    def valid(self, eta):
        return torch.isfinite(eta).all(-1)

    def to_raw(self, eta):
        return eta


@dataclass(frozen=True)
class WideVonMises(PlacedVonMises, HasStatisticCovariance):
    """With V_q: 1 − ρ/κ − ρ² along θ and ρ/κ across, ρ = I₁/I₀."""

    def covariance_root(self, eta_q, g):
        kappa, rho = self._kappa(eta_q), self._length(eta_q)
        along = eta_q / kappa[..., None]
        across = torch.stack([-along[..., 1], along[..., 0]], -1)
        left = (1 - rho / kappa - rho**2).sqrt() * (g * along).sum(-1)
        return torch.stack([left, (rho / kappa).sqrt() * (g * across).sum(-1)], -1)

    def basis(self):
        return torch.eye(2)


@dataclass(frozen=True)
class LogNormal(Reparametrised):
    """z = exp x with x normal: draws that are differentiable, and no Gaussian."""

    natural_size = 2
    raw_size = 2

    def log_normaliser(self, eta):
        return DiagonalGaussian(1).log_normaliser(eta)

    def mean(self, eta):
        return DiagonalGaussian(1).mean(eta)

    def statistic(self, z):
        return DiagonalGaussian(1).statistic(z.log())

    def to_valid(self, raw):
        return DiagonalGaussian(1).to_valid(raw)

    def to_potential(self, raw):
        return DiagonalGaussian(1).to_valid(raw)

    def noise_size(self):
        return 1

    def reparametrise(self, eta, noise):
        return DiagonalGaussian(1).reparametrise(eta, noise).exp()


@dataclass(frozen=True)
class FourNoises(LogNormal):
    """Draws that take more random numbers than a grid has room for."""

    def noise_size(self):
        return 4


class CirclePrior(Prior):
    """Uniform on the circle, or peaked."""

    def __init__(self, family, kappa=0.0):
        super().__init__()
        self._family = family
        self.register_buffer("eta", torch.tensor([[kappa, 0.0]], dtype=DOUBLE))

    @property
    def family(self):
        return self._family

    def reference(self, sites, shared):
        return self.eta

    def condition(self, potentials, sites):
        return IndependentSites(self.family, self.eta, self.family.log_normaliser(self.eta), potentials, sites)

    couples_sites = False

    def sample(self, sites, generator):
        return 2 * np.pi * torch.rand(sites.exists.shape, generator=generator, dtype=DOUBLE)

    def parameter_kl(self):
        return self.eta.new_zeros(())


def random(seed, *shape, scale=1.0):
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def circular(family):
    """Posteriors of 3 × 2 sites, and a mixture of five atoms and everyone's own."""
    mixture = AtomMixture(family, random(0, 1, 2), True, random(1, 1, 5, 2, scale=2.0), random(2, 1, 5))
    own = Factor(random(3, 3, 2, 2, scale=2.0), torch.tensor([[True, True], [True, False], [True, True]]))
    return random(4, 3, 2, 2, scale=1.5), mixture.with_own(own, mixture.reference)


class Integrated:
    """q and log F/r on a fine grid of angles."""

    def __init__(self, eta_q, mixture):
        t = np.stack([np.cos(CIRCLE), np.sin(CIRCLE)])
        reference, g = mixture.reference.numpy(), mixture.g.numpy()[0]

        def log_density(eta):
            eta = np.asarray(eta)
            return eta @ t - np.log(2 * np.pi * special.i0(np.linalg.norm(eta, axis=-1)))[..., None]

        self.t, self.q = t, np.exp(log_density(eta_q.numpy()))
        counts = np.exp(mixture.log_count.numpy()[0])
        own = mixture.own.present.numpy()[..., None] * np.exp(log_density(reference + mixture.own.g.numpy()))
        summed = (counts[:, None] * np.exp(log_density(reference + g))).sum(0) + own
        total = counts.sum() + mixture.own.present.numpy()[..., None]
        self.log_ratio = np.log(summed / total) - log_density(reference)[0]

    def mean(self, values):
        return (self.q * values).sum(-1) * 2 * np.pi / len(CIRCLE)

    def covariance(self):
        mean = np.stack([self.mean(each) for each in self.t], -1)
        second = np.stack([[self.mean(a * b) for a in self.t] for b in self.t])
        return np.moveaxis(second, (0, 1), (-2, -1)) - mean[..., :, None] * mean[..., None, :]


# ---- approximations ------------------------------------------------------------------------------


def test_the_closed_bound_takes_any_family():
    eta_q, mixture = circular(VonMises())
    InteriorBound().check(VonMises())
    value = InteriorBound()(eta_q, mixture, {}).numpy()
    truth = Integrated(eta_q, mixture)
    np.testing.assert_allclose(value, np.log(truth.mean(np.exp(truth.log_ratio))), atol=1e-9)
    gap = value - truth.mean(truth.log_ratio)
    assert (gap > 1e-3).all()


def test_the_closed_bound_of_discrete_latents():
    family = Categorical(3)
    mixture = AtomMixture(family, random(0, 1, 3), True, random(1, 1, 5, 3), torch.zeros(1, 5, dtype=DOUBLE))
    eta_q = random(2, 4, 2, 3)
    probabilities = special.softmax(eta_q.numpy(), -1)
    atoms = special.softmax((mixture.reference + mixture.g[0]).numpy(), -1).mean(0)
    ratio = atoms / special.softmax(mixture.reference[0].numpy())
    InteriorBound().check(family)
    value = InteriorBound()(eta_q, mixture, {}).numpy()
    np.testing.assert_allclose(value, np.log(probabilities @ ratio), atol=1e-10)
    assert (value >= probabilities @ np.log(ratio)).all()


def test_the_optimal_bound_takes_a_family_with_a_domain_and_a_covariance():
    eta_q, mixture = circular(WideVonMises())
    truth = Integrated(eta_q, mixture)
    OptimalInteriorBound().check(WideVonMises())
    optimal = OptimalInteriorBound()(eta_q, mixture, {}).numpy()
    exact, closed = truth.mean(truth.log_ratio), InteriorBound()(eta_q, mixture, {}).numpy()
    assert (optimal > exact).all()
    assert (optimal < closed - 1e-4).all()
    nearby = [eta_q + random(seed, *eta_q.shape, scale=0.5) for seed in range(10)]
    for a in nearby:  # η̃ as parameters: a bound wherever it is, and nowhere below the optimum
        assert (FreeInteriorBound()(eta_q, mixture, {"auxiliary": a}).numpy() >= optimal - 1e-9).all()
    start = FreeInteriorBound().initial_parameters(WideVonMises(), lambda: eta_q)
    np.testing.assert_allclose(FreeInteriorBound()(eta_q, mixture, start).numpy(), closed, atol=1e-12)


def test_second_order_takes_a_family_with_a_covariance():
    eta_q, mixture = circular(WideVonMises())
    SecondOrder().check(WideVonMises())
    truth = Integrated(eta_q, mixture)
    mu = np.stack([truth.mean(each) for each in truth.t], -1)
    reference = mixture.reference[0].numpy()
    for n, site in itertools.product(range(3), range(2)):
        own = bool(mixture.own.present[n, site])
        g = np.concatenate([mixture.g[0].numpy(), mixture.own.g[n, site].numpy()[None][: int(own)]])
        counts = np.concatenate([np.exp(mixture.log_count[0].numpy()), np.ones(int(own))])
        logs = np.log(special.i0(np.linalg.norm(reference + g, axis=-1)) / special.i0(np.linalg.norm(reference)))
        terms = np.log(counts / counts.sum()) + g @ mu[n, site] - logs
        shares = special.softmax(terms)
        spread = np.einsum("m,mi,mj->ij", shares, g, g) - np.outer(shares @ g, shares @ g)
        expected = special.logsumexp(terms) + 0.5 * np.trace(truth.covariance()[n, site] @ spread)
        assert float(SecondOrder()(eta_q, mixture, {})[n, site]) == pytest.approx(expected, abs=1e-8)


def test_draws_take_a_reparametrised_family():
    """The latent is exp x, so all that counts is the mixture of normals in x."""
    family = LogNormal()
    reference = torch.tensor([[0.0, -0.5]], dtype=DOUBLE)
    g = family.to_valid(random(1, 1, 5, 2))
    mixture = AtomMixture(family, reference, True, g, torch.zeros(1, 5, dtype=DOUBLE))
    eta_q = reference + family.to_valid(random(2, 3, 1, 2))
    x = np.linspace(-12, 12, 8001)

    def density(eta):
        variance = -0.5 / eta[..., 1:].numpy()
        return stats.norm.pdf(x, eta[..., :1].numpy() * variance, np.sqrt(variance))

    log_ratio = np.log(density(reference + g[0]).mean(0)) - np.log(density(reference[0]))
    expected = (density(eta_q) * log_ratio).sum(-1) * (x[1] - x[0])
    for approximation, tolerance in ((GaussHermite(64), 1e-4), (MonteCarlo(20_000, fresh=False), 0.03)):
        approximation.check(family)
        np.testing.assert_allclose(approximation(eta_q, mixture, {}).numpy(), expected, atol=tolerance)
    with pytest.raises(BuildError, match=r"at most 3 .*random numbers behind a draw.* got 4"):
        GaussHermite().check(FourNoises())


REFUSED = [
    (Exact(), VonMises(), "FiniteSupport"),
    (OptimalInteriorBound(), VonMises(), "HasDomain"),
    (OptimalInteriorBound(), PlacedVonMises(), "HasStatisticCovariance"),
    (FreeInteriorBound(), VonMises(), "HasDomain"),
    (FreeInteriorBound(), PlacedVonMises(), "HasStatisticCovariance"),
    (SecondOrder(), PlacedVonMises(), "HasStatisticCovariance"),
    (MonteCarlo(), WideVonMises(), "Reparametrised"),
    (GaussHermite(), WideVonMises(), "Reparametrised"),
    (SharedGrid(), WideVonMises(), "Gaussian"),
    (SharedGrid(), LogNormal(), "Gaussian"),
]


@pytest.mark.parametrize(("approximation", "family", "missing"), REFUSED)
def test_an_approximation_names_what_is_missing(approximation, family, missing):
    with pytest.raises(BuildError, match=rf"{type(family).__name__} .*\({missing}\)") as refusal:
        approximation.check(family)
    assert "continuous" not in str(refusal.value)  # which all of these are


# ---- E-steps -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("e_step", "family", "missing"),
    [
        (ExactEStep(), VonMises(), r"VonMises .*\(FiniteSupport\)"),
        (NaturalGradient(), WideVonMises(), r"WideVonMises .*\(Gaussian\)"),
        (FreePotentials(), VonMises(), r"VonMises .*\(HasDomain\)"),
        (FreePotentials(), WideVonMises(), r"natural gradients on new data.* WideVonMises .*\(Gaussian\)"),
        (FreeInducing(), WideVonMises(), "inducing points, and CirclePrior has none"),
    ],
)
def test_an_e_step_names_what_is_missing(e_step, family, missing):
    with pytest.raises(BuildError, match=missing):
        e_step.check(CirclePrior(family), circular(family)[1], True)


def noisy_angles(n=200):
    generator = np.random.default_rng(0)
    angle = generator.uniform(-np.pi, np.pi, n)
    seen = np.stack([np.cos(angle), np.sin(angle)], -1)
    return rp.read({name: seen + 0.3 * generator.standard_normal((n, 2)) for name in "ab"}), seen


def test_an_angle_is_found_with_parts_that_take_any_family():
    observations, truth = noisy_angles()
    torch.manual_seed(0)
    networks = {name: torch.nn.Linear(2, 2) for name in "ab"}
    parts = {"e_step": Amortised(), "expected_log_mixture": InteriorBound(), "dtype": DOUBLE}
    model = rp.RPM(CirclePrior(VonMises()), networks, **parts)
    Amortised().check(model.prior, circular(VonMises())[1], True)
    fitted = rp.train(model, observations, max_iter=150, learning_rate=0.05, batch_size=None, random_state=0)
    assert fitted.record.history["free_energy"][-1] > 0.5
    (inferred,) = fitted.posterior(observations)
    found = inferred.posterior.mu[:, 0].numpy()
    # The zero and the direction of the angle are free: the best turn and mirroring of the plane.
    left, _, right = np.linalg.svd((found / np.linalg.norm(found, axis=-1, keepdims=True)).T @ truth)
    turned = found @ left @ right
    error = np.angle(np.exp(1j * (np.arctan2(*turned.T[::-1]) - np.arctan2(*truth.T[::-1]))))
    assert np.sqrt(np.mean(error**2)) < 0.3


# ---- priors --------------------------------------------------------------------------------------


def test_priors_and_targets_name_what_is_missing():
    family = WideVonMises()
    kernel, places = gpytorch.kernels.RBFKernel(), torch.linspace(0, 1, 3)
    for build in (GaussianPrior, LinearDynamicsPrior, lambda each: GaussianProcessPrior(each, kernel, places)):
        with pytest.raises(BuildError, match="prior of Gaussian latents, and WideVonMises is another family"):
            build(family)
    networks = {name: torch.nn.Linear(2, 2) for name in "ab"}
    parts = {"e_step": Amortised(), "expected_log_mixture": InteriorBound()}
    with pytest.raises(BuildError, match=r"targets some of the latents .*WideVonMises .*\(HasTargets\)"):
        rp.RPM(CirclePrior(family), networks, targets={"a": [0]}, **parts)
    with pytest.raises(BuildError, match=r"WideVonMises has none \(Samplable\)"):
        CirclePrior(family).condition(random(0, 2, 1, 2), Sites.single(2)).draw(torch.Generator())


def ragged(lengths=(4, 2, 3), spacing=1.0, own_times=False):
    exists = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    times = spacing * torch.arange(max(lengths), dtype=DOUBLE).expand(len(lengths), -1)
    return Sites(times + 0.3 * torch.arange(len(lengths))[:, None] * own_times, exists)


STATES = {
    "categorical": lambda: CategoricalPrior.fixed(torch.tensor([0.5, 0.3, 0.2])),
    "chain": lambda: MarkovChainPrior.fixed(
        torch.tensor([0.2, 0.5, 0.3]), torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.3, 0.4], [0.5, 0.0, 0.5]])
    ),
    "dirichlet": lambda: DirichletPrior.fixed(3, [0.3, 1.0, 2.5]),
}


def path_probability(name, prior, path):
    """One factor after the other."""
    total, counts = 1.0, np.zeros(3)
    for t, z in enumerate(path):
        if name == "categorical":
            total *= [0.5, 0.3, 0.2][z]
        elif name == "chain":
            total *= prior.probabilities[z] if t == 0 else prior.transitions[path[t - 1], z]
        else:  # a Pólya urn: every ball drawn is put back with another of its colour
            alpha = np.array([0.3, 1.0, 2.5])
            total *= (alpha + counts)[z] / (alpha + counts).sum()
            counts[z] += 1
    return float(total)


@pytest.mark.parametrize("name", STATES)
def test_the_density_of_discrete_latents_by_enumeration(name):
    prior = STATES[name]().double()
    sites = ragged()
    assert isinstance(prior, HasLogDensity)
    paths = torch.tensor(list(itertools.product(range(3), repeat=4)))
    found = prior.log_density(paths[:, None].expand(-1, 3, -1), sites).exp().numpy()
    assert found.shape == (81, 3)
    for n, length in enumerate((4, 2, 3)):
        expected = [path_probability(name, prior, path[:length]) for path in paths.tolist()]
        np.testing.assert_allclose(found[:, n], expected, atol=1e-10)
    np.testing.assert_allclose(found.sum(0), [1.0, 9.0, 3.0], atol=1e-9)  # every short path as often as it is padded


def test_the_density_under_variational_bayes_is_that_of_the_mean():
    prior = CategoricalPrior.dirichlet(3, 0.7)
    prior.update({"states": torch.tensor([[5.0, 2.0, 1.0]], dtype=DOUBLE)}, 1.0)
    mean = np.array([5.7, 2.7, 1.7]) / 10.1
    found = prior.log_density(torch.tensor([[0], [2]]), Sites.single(2)).numpy()
    np.testing.assert_allclose(found, np.log(mean[[0, 2]]), atol=1e-10)


@pytest.mark.parametrize("family", [DiagonalGaussian(2), FullGaussian(2)])
def test_the_density_of_a_gaussian_prior(family):
    prior = GaussianPrior(family, learned=True).double()
    with torch.no_grad():
        prior.raw.copy_(random(0, family.raw_size))
    eta, sites = prior.reference(Sites.single(1), True)[0].detach(), ragged()
    normal = stats.multivariate_normal(family.moments(eta)[0].numpy(), family.covariance(eta).numpy())
    z = random(1, 5, 3, 4, 2)
    expected = (normal.logpdf(z.numpy()) * sites.exists.numpy()).sum(-1)
    np.testing.assert_allclose(prior.log_density(z, sites).detach().numpy(), expected, atol=1e-10)


@pytest.mark.parametrize("own_times", [False, True])
@pytest.mark.parametrize("family", [DiagonalGaussian(2), FullGaussian(2)])
def test_the_density_of_a_gaussian_process(family, own_times):
    kernel = gpytorch.kernels.RBFKernel(batch_shape=torch.Size([2]))
    kernel.lengthscale = torch.tensor([[[0.8]], [[1.7]]])
    mean = gpytorch.means.ConstantMean(batch_shape=torch.Size([2]))
    mean.constant.data = torch.tensor([0.5, -1.0])
    places = torch.linspace(0, 3, 3)  # fewer than times: the density is that of the process all the same
    prior = GaussianProcessPrior(family, kernel, places, mean=mean, time_scale=2.0, time_origin=1.0).double()
    sites, z = ragged(own_times=own_times), random(2, 5, 3, 4, 2)
    found = prior.log_density(z, sites).detach().numpy()
    for n, length in enumerate((4, 2, 3)):
        t = sites.times[n, :length].numpy() / 2.0
        expected = np.zeros(5)
        for k, scale in enumerate((0.8, 1.7)):
            covariance = np.exp(-0.5 * np.square((t[:, None] - t) / scale))
            normal = stats.multivariate_normal(np.full(length, [0.5, -1.0][k]), covariance)
            expected += normal.logpdf(z[:, n, :length, k].numpy())
        np.testing.assert_allclose(found[:, n], expected, rtol=1e-6)


def test_the_density_of_linear_dynamics():
    prior = LinearDynamicsPrior(FullGaussian(2), n_inputs=1, memory=0.8, rotation=0.6).double()
    with torch.no_grad():
        prior.inputs.B.copy_(random(0, 2, 1))
    u, z = random(1, 3, 4, 1), random(2, 5, 3, 4, 2)
    sites = Sites(ragged().times, ragged().exists, u)
    found = prior.log_density(z, sites).detach().numpy()
    A, B = prior.dynamics().detach().numpy(), prior.inputs.B.detach().numpy()
    for n, length in enumerate((4, 2, 3)):
        means = [np.zeros(2)]
        for t in range(1, length):
            means.append(A @ means[-1] + B @ u[n, t - 1].numpy())
        power = [np.linalg.matrix_power(A, lag) for lag in range(length)]
        blocks = [[power[s - t] if s >= t else power[t - s].T for t in range(length)] for s in range(length)]
        normal = stats.multivariate_normal(np.concatenate(means), np.block(blocks))
        np.testing.assert_allclose(found[:, n], normal.logpdf(z[:, n, :length].flatten(1).numpy()), rtol=1e-8)


# ---- log W -----------------------------------------------------------------------------------------


class TwoBumps(Prior):
    """A mixture of two normals; q is a normal all the same, that of the moment-matched prior."""

    means, sd = torch.tensor([-1.6, 1.6], dtype=DOUBLE), 0.6

    def __init__(self):
        super().__init__()
        self.register_buffer("eta", torch.tensor([[0.0, -0.5 / (1.6**2 + 0.6**2)]], dtype=DOUBLE))

    family = DiagonalGaussian(1)
    couples_sites = False

    def reference(self, sites, shared):
        return self.eta

    def bumps(self, z):
        each = -0.5 * ((z - self.means) / self.sd).square() - np.log(self.sd * np.sqrt(2 * np.pi))
        return torch.logsumexp(each, -1) - np.log(2)

    def condition(self, potentials, sites):
        return BumpyPosterior(self, self.eta + potentials)

    def sample(self, sites, generator):
        raise NotImplementedError

    def parameter_kl(self):
        return self.eta.new_zeros(())


class BumpyPosterior(Posterior):
    eta = None

    def __init__(self, prior, eta):
        self.prior, self.eta = prior, eta

    @property
    def mu(self):
        return self.prior.family.mean(self.eta)

    @property
    def kl(self):
        return torch.zeros_like(self.eta[:, 0, 0])  # log W does not read it

    def draw(self, generator):
        z = self.prior.family.sample(self.eta, generator)
        log_q = self.prior.family.log_density(self.eta, self.prior.family.statistic(z))
        return z, (self.prior.bumps(z) - log_q).sum(-1)


class TwoBumpsOfKnownDensity(TwoBumps, HasLogDensity):
    def log_density(self, z, sites):
        return self.bumps(z).sum(-1)


def two_bumps(prior):
    generator = np.random.default_rng(3)
    z = generator.choice([-1.6, 1.6], 30) + 0.6 * generator.standard_normal(30)
    observations = rp.read({name: (z + generator.standard_normal(30))[:, None] for name in "ab"})
    torch.manual_seed(0)
    networks = {name: torch.nn.Linear(1, 2) for name in "ab"}
    parts = {"e_step": Amortised(), "expected_log_mixture": InteriorBound(), "dtype": DOUBLE}
    model = rp.RPM(prior, networks, **parts)
    model.prepare(observations)
    return FittedRPM.collected(model, observations), observations


def test_log_w_by_quadrature_takes_the_density_of_the_prior():
    model, observations = two_bumps(TwoBumpsOfKnownDensity())
    exact = log_weight.by_quadrature(model, observations, 100).values
    (inferred,) = model.posterior(observations)
    x = np.linspace(-15, 15, 6001)
    total = np.log(stats.norm.pdf(x[:, None], [-1.6, 1.6], 0.6).mean(-1)) + np.zeros((30, 1))

    def log_normal(eta):
        variance = -0.5 / eta[..., 1:].numpy()
        return stats.norm.logpdf(x, eta[..., :1].numpy() * variance, np.sqrt(variance))

    for name, factor in inferred.factors.items():
        atoms = inferred.mixtures[name]
        f = log_normal(atoms.reference[0] + factor.g[:, 0])
        everyone = special.logsumexp(log_normal(atoms.reference[0] + atoms.g[0]), axis=0)
        total = total + f - (np.logaddexp(everyone, f) - np.log(31))
    np.testing.assert_allclose(exact, special.logsumexp(total, axis=-1) + np.log(x[1] - x[0]), atol=1e-4)
    sampled = log_weight.importance(model, observations, 4000, torch.Generator().manual_seed(0))
    assert (np.abs(sampled.values - exact) < 5 * sampled.standard_error + 1e-3).all()


def test_log_w_by_quadrature_refuses_a_prior_without_a_density():
    model, observations = two_bumps(TwoBumps())
    with pytest.raises(BuildError, match=r"TwoBumps does not compute it \(HasLogDensity\)"):
        log_weight.by_quadrature(model, observations, 10)
