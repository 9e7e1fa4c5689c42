"""Families, priors, approximations, E-steps, networks and kernels, added without touching the library."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.stats
import torch

import data
import rpmodels as rp
from extensions import Cautious, ClusteredPrior, RPClusters, Tent, Waves
from rpmodels import evaluation, generative, report
from rpmodels.carriers import Sites
from rpmodels.families import Categorical, FiniteSupport, Samplable
from rpmodels.fitted import FittedRPM
from rpmodels.inference import EStep, ExactEStep
from rpmodels.learning import RPMObjective, train
from rpmodels.mixtures import Exact, ExpectedLogMixture, Kind, TableMixture
from rpmodels.priors import IndependentSites, Prior
from rpmodels.seeding import seeded


@dataclass(frozen=True)
class Bernoulli(FiniteSupport, Samplable):
    """z in {0, 1} with the minimal statistic t(z) = [z, 1 − z] through one raw number."""

    natural_size = 2
    raw_size = 1
    n_states = 2

    def log_normaliser(self, eta):
        return torch.logsumexp(eta, -1)

    def mean(self, eta):
        return torch.softmax(eta, -1)

    def statistic(self, z):
        return torch.stack([z, 1 - z], -1).double()

    def to_valid(self, raw):
        return torch.cat([raw, torch.zeros_like(raw)], -1)

    to_potential = to_valid

    def values(self):
        return torch.tensor([1, 0])

    def log_probabilities(self, eta):
        return torch.log_softmax(eta, -1)

    def potential(self, values):
        return values

    def sample(self, eta, generator):
        return (torch.rand(eta.shape[:-1], generator=generator, dtype=eta.dtype) < self.mean(eta)[..., 0]).long()


class CoinPrior(Prior):
    """A coin whose bias is a parameter learned by gradient."""

    def __init__(self):
        super().__init__()
        self.log_odds = torch.nn.Parameter(torch.zeros(1))

    @property
    def family(self):
        return Bernoulli()

    def _eta(self):
        return torch.cat([self.log_odds, torch.zeros_like(self.log_odds)])[None]

    def reference(self, sites, shared):
        return self._eta()

    def condition(self, potentials, sites):
        eta = self._eta()
        return IndependentSites(self.family, eta, self.family.log_normaliser(eta), potentials, sites)

    couples_sites = False

    def sample(self, sites, generator):
        return Bernoulli().sample(self._eta().expand(*sites.exists.shape, -1), generator)

    def parameter_kl(self):
        return self.log_odds.new_zeros(())


class Sampled(ExpectedLogMixture):
    """⟨log F⟩ by sampling states."""

    kind = Kind.ESTIMATE

    def check(self, family):
        pass

    def summarise(self, atoms):
        return Exact().summarise(atoms)

    def __call__(self, eta_q, mixture, local):
        assert isinstance(mixture, TableMixture)
        probabilities = mixture.family.mean(eta_q)
        generator = torch.Generator().manual_seed(0)
        flat = probabilities.reshape(-1, probabilities.shape[-1])
        drawn = torch.multinomial(flat, 20_000, True, generator=generator)
        ratio = mixture.log_ratio().expand(probabilities.shape).reshape(flat.shape)
        return ratio.gather(-1, drawn).mean(-1).reshape(eta_q.shape[:-1])


class FreePotentials(EStep):
    """q from potentials that are parameters of every trial."""

    def check(self, prior, mixture, relative):
        pass

    def initial_parameters(self, prior, sites, potentials):
        return {"potentials": torch.zeros_like(potentials())}

    def for_new_data(self):
        return ExactEStep()

    def __call__(self, step, approximation):
        return step.prior.condition(step.local.e_step["potentials"], step.sites)


def toy_data():
    random = np.random.default_rng(0)
    z = random.random(300) < 0.7
    return rp.read({name: (2.0 * z + random.standard_normal(300))[:, None] for name in "ab"}), z


def toy_model(**parts):
    torch.manual_seed(0)
    return rp.RPM(CoinPrior(), {name: torch.nn.Linear(1, 1) for name in "ab"}, **parts)


def test_a_new_family_and_prior_train_with_everything_else():
    observations, z = toy_data()
    fitted = train(toy_model(), observations, max_iter=300, learning_rate=0.03, batch_size=None, random_state=0)
    (inferred,) = fitted.posterior(observations)
    states = inferred.posterior.mu[:, 0].argmax(-1).numpy()
    matched = max((states == z).mean(), (states != z).mean())
    assert matched > 0.85
    assert fitted.record.history["free_energy"][-1] > 0.1
    drawn, atoms = generative.sample(fitted, 50, torch.Generator().manual_seed(0))
    assert drawn.shape == (50, 1)
    assert set(atoms) == {"a", "b"}


def test_a_new_approximation_agrees_with_the_exact_one():
    observations, _ = toy_data()
    energies = []
    for approximation in (Exact(), Sampled()):
        model = toy_model(expected_log_mixture=approximation)
        model.prepare(observations)
        fitted = FittedRPM.collected(model, observations)
        energies.append(fitted.free_energies(observations, in_training=True).total)
    assert (energies[0] - energies[1]).abs().max() < 0.05


def test_a_new_e_step_with_parameters_of_every_trial_reaches_the_exact_bound():
    observations, _ = toy_data()
    models = [toy_model(e_step=each) for each in (ExactEStep(), FreePotentials())]
    for model in models:
        model.prepare(observations)
    exact, free = (RPMObjective(model, observations) for model in models)
    batch = observations.batch(np.arange(300), torch.float32, torch.device("cpu"))
    optimiser = torch.optim.Adam(free.local_parameters(), 0.3)
    for _ in range(400):
        optimiser.zero_grad()
        (-free.evaluate(batch).energy.total.sum()).backward()
        optimiser.step()
    assert list(free.local.take(batch.index).e_step) == ["potentials"]
    gap = exact.evaluate(batch).energy.total - free.evaluate(batch).energy.total
    assert (gap > -1e-5).all()
    assert gap.max() < 1e-3
    # New data have no parameters of their own.
    new = observations.subset(np.arange(5))
    torch.testing.assert_close(
        *(each.fitted(observations).free_energies(new).total for each in (exact, free)), rtol=0, atol=1e-6
    )


def test_states_of_the_library_family_are_its_values():
    assert Categorical(3).values().tolist() == [0, 1, 2]


# ---- docs/extending.md: parts of somebody else's, through everything that there is ----------------------


def clustered_data(n=60, seed=0):
    random = np.random.default_rng(seed)
    z = random.choice([-2.0, 0.0, 2.0], n) + 0.3 * random.standard_normal(n)
    return {name: z[:, None] * random.normal(size=3) + 0.4 * random.standard_normal((n, 3)) for name in "ab"}


def clusters(**options):
    """An estimator with a prior, an E-step and networks that the library does not have."""
    with seeded(0):  # a checkpoint is of the same networks
        parts = {"network": Waves(3, 2), "inference": rp.Inference(e_step=Cautious())}
    few = {"max_iter": 20, "n_init": 2, "random_state": 0, "search": rp.Search(retries=0)}
    return RPClusters(**{"n_latents": 1, **parts, **few, **options})


@pytest.fixture(scope="module")
def clustered():
    x = clustered_data()
    return clusters().fit(x), x


def test_the_posterior_under_a_mixture_is_that_of_a_grid(generator):
    prior, sites = ClusteredPrior(3).double(), Sites.single(1)
    g = torch.tensor([[[1.5, -0.4]]], dtype=torch.float64)
    found = prior.condition(g, sites)
    z = np.linspace(-12, 12, 20_001)
    p = sum(scipy.stats.norm(m, 0.4).pdf(z) for m in (-1.5, 0.0, 1.5)) / 3
    np.testing.assert_allclose(prior.log_density(torch.tensor(z)[:, None, None, None], sites).detach()[:, 0], np.log(p))
    joint = p * np.exp(1.5 * z - 0.4 * z**2)
    q = joint / joint.sum()
    np.testing.assert_allclose(found.mu[0, 0].detach(), [(q * z).sum(), (q * z**2).sum()], rtol=1e-6)
    step = z[1] - z[0]
    assert float(found.kl.detach()) == pytest.approx((q * np.log(q / step / p)).sum(), abs=1e-6)
    many = prior.condition(g.expand(20_000, -1, -1), Sites.single(20_000))
    drawn = many.sample(generator).detach()[:, 0, 0].numpy()
    assert abs(drawn.mean() - (q * z).sum()) < 5 * drawn.std() / 20_000**0.5


def test_log_w_under_a_mixture_is_one_number(clustered):
    model, x = clustered
    few = {name: each[:5] for name, each in x.items()}
    exact = model.log_weight(few, method="quadrature", nodes=200)
    drawn = model.log_weight(few, draws=400)
    assert (np.abs(exact.values - drawn.values) < 5 * drawn.standard_error + 1e-3).all()
    assert np.ptp(exact.values) > 5 * drawn.standard_error.max()


def test_parts_of_ones_own_go_through_everything(clustered, tmp_path):
    model, x = clustered
    assert len(model.restarts_) == 2
    assert not torch.equal(model.model_.prior.means, ClusteredPrior(3).means)  # learned
    model.save(tmp_path / "mine.rpm")
    own = {"prior": ClusteredPrior(3), "e_step": Cautious(), "network": Waves(3, 2)}
    again = rp.load(tmp_path / "mine.rpm", **own)
    np.testing.assert_array_equal(again.transform(x), model.transform(x))
    assert np.isfinite(evaluation.cross_validate(clusters(max_iter=3, n_init=1), x, cv=2).held_out).all()
    assert evaluation.stability(clusters(max_iter=3, n_init=1), x, n_runs=2).agreement.shape == (2, 2)
    assert "RPClusters" in evaluation.compare_baselines(x, estimator=clusters(max_iter=3, n_init=1), cv=2).values
    assert all(each.text for each in evaluation.diagnose(model, x).findings)
    page = report.model_page(model, x, "clusters")
    assert page.count("<img") + page.count("<svg") >= 5


class KilledError(Exception):
    """In the place of a killed process."""


def test_a_fit_of_own_parts_that_was_killed_goes_on(clustered, tmp_path):
    model, x = clustered

    def killed(state):
        if state.step == 15:
            raise KilledError

    with pytest.raises(KilledError):
        clusters(training=rp.Training(callbacks=[killed])).fit(x, checkpoint=tmp_path, checkpoint_every=0.0)
    again = clusters().fit(x, checkpoint=tmp_path, checkpoint_every=0.0)
    np.testing.assert_array_equal(again.transform(x), model.transform(x))


def test_a_kernel_of_ones_own_is_handed_in_again(tmp_path):
    trials = data.waves((9, 7, 9, 8), 3, period=2.0, noise=0.3, random=np.random.default_rng(0))
    few = {"max_iter": 3, "n_init": 1, "n_inducing": 4, "random_state": 0, "search": rp.Search(retries=0)}
    model = rp.RPGPFA(1, kernel=Tent(), **few).fit(trials)
    assert float(model.model_.prior.kernel.lengthscale.detach()) != float(Tent().lengthscale.detach())
    model.save(tmp_path / "tent.rpm")
    with pytest.raises(rp.RPModelsError, match="kernel"):
        rp.load(tmp_path / "tent.rpm")
    again = rp.load(tmp_path / "tent.rpm", kernel=Tent())
    for one, other in zip(again.transform(trials), model.transform(trials), strict=True):
        np.testing.assert_array_equal(one, other)
