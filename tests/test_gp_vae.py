"""The sparse GP-VAE against dense Gaussians, on the plain ball, and as a user meets it."""

import functools
import json

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel
from scipy.stats import multivariate_normal
from sklearn.base import clone

import rpmodels as rp
from data import ball
from oracles import dense_gaussian, kernels
from rpmodels.baselines import SparseGPVAE
from rpmodels.families import DiagonalGaussian
from rpmodels.families.gaussian import inverse_softplus
from rpmodels.observations.scaling import Affine
from rpmodels.paper.baselines.gp_vae_model import GaussianLikelihood, SparseGPVAEModel
from rpmodels.paper.experiments import plain_ball, recovery, recovery_baselines, runner, structured_ball, textured_ball
from rpmodels.priors import GaussianProcessPrior
from rpmodels.recognition import MLP, Linear, RecognitionFactor, RelativeHead

FAST = {"n_init": 1, "max_iter": 4, "n_inducing": 8, "random_state": 0}
T, D, LENGTH = 9, 3, 1.7
BOTH = torch.tensor([-1.0, 1.0], dtype=torch.float64).reshape(2, 1, 1, 1)
"""Two draws with the mean and the variance of a standard normal: exact wherever log p(x|z) is quadratic in z."""


# ---- the ELBO of a linear decoder ---------------------------------------------------------------


class LinearGaussian:
    """x = offset + scale·(c z + d + noise), z a GP with inducing points at all times: everything has a closed form."""

    def __init__(self, seed=0):
        random = np.random.default_rng(seed)
        self.c, self.d, self.offset = random.standard_normal((3, D))
        self.scale, self.noise = random.uniform(0.5, 3.0, (2, D))
        self.kernel = kernels.rbf(LENGTH)(np.arange(T), np.arange(T))
        self.precision = float((self.c**2 / self.noise).sum())
        loading, variance = self.scale * self.c, self.scale**2 * self.noise
        offset = self.offset + self.scale * self.d
        self.mean, self.covariance = dense_gaussian.measured([self.kernel], [loading], variance, offset)
        self.x = random.multivariate_normal(self.mean, self.covariance, 4).reshape(4, T, D)

    def model(self):
        """With the sites of the true posterior, which are linear in x."""
        family = DiagonalGaussian(1)
        kernel = RBFKernel()
        kernel.lengthscale = LENGTH
        prior = GaussianProcessPrior(family, kernel, torch.arange(T, dtype=torch.float64))
        network, decoder = Linear((D,), 2), Linear((1,), D)
        units = Affine(torch.as_tensor(self.offset), torch.as_tensor(self.scale))
        likelihood = GaussianLikelihood(decoder, units, D, 1.0)
        model = SparseGPVAEModel("x", prior, RecognitionFactor(network, RelativeHead(), family), likelihood, 1).double()
        kernel.lengthscale = LENGTH  # again, in double precision
        with torch.no_grad():
            decoder[1].weight[:, 0] = torch.as_tensor(self.c)
            decoder[1].bias[:] = torch.as_tensor(self.d)
            likelihood.log_noise[:] = torch.as_tensor(np.log(self.noise - 1e-4))
            network[1].weight[0] = torch.as_tensor(self.c / self.noise / self.scale)
            network[1].weight[1] = 0.0
            centre = self.offset / self.scale + self.d
            network[1].bias[0] = -float((self.c * centre / self.noise).sum())
            network[1].bias[1] = inverse_softplus(torch.tensor(self.precision, dtype=torch.float64))
        return model

    def batch(self, x):
        observations = rp.read({"x": x}, series=True)
        return observations.batch(np.arange(len(x)), torch.float64, torch.device("cpu"))


@pytest.fixture(scope="module")
def linear():
    return LinearGaussian()


def test_with_the_exact_sites_the_elbo_is_the_log_likelihood(linear):
    likelihood, prior = linear.model().elbo(linear.batch(linear.x), BOTH)
    dense = multivariate_normal(linear.mean, linear.covariance)
    expected = [dense.logpdf(each.ravel()) for each in linear.x]
    np.testing.assert_allclose((likelihood + prior).detach().numpy(), expected, atol=1e-5)


def test_missing_bins_are_marginalised(linear):
    x = linear.x.copy()
    x[:, [2, 5, 6]] = np.nan
    likelihood, prior = linear.model().elbo(linear.batch(x), BOTH)
    kept = np.repeat(~np.isnan(x[0]).any(1), D)
    dense = multivariate_normal(linear.mean[kept], linear.covariance[np.ix_(kept, kept)])
    expected = [dense.logpdf(each.ravel()[kept]) for each in x]
    np.testing.assert_allclose((likelihood + prior).detach().numpy(), expected, atol=1e-5)


def test_with_other_sites_it_is_below(linear):
    dense = multivariate_normal(linear.mean, linear.covariance)
    expected = np.array([dense.logpdf(each.ravel()) for each in linear.x])
    for parameter, change in (("weight", 0.3), ("bias", 0.5), ("bias", -0.5)):
        model = linear.model()
        with torch.no_grad():
            getattr(model.recognition.network[1], parameter).add_(change)
        likelihood, prior = model.elbo(linear.batch(linear.x), BOTH)
        assert ((likelihood + prior).detach().numpy() < expected - 1e-3).all()


def test_posterior_and_kl_are_those_of_the_dense_gaussian(linear):
    model = linear.model()
    factor, posterior = model.recognise(linear.batch(linear.x))
    prior = linear.kernel + 1e-12 * np.eye(T)
    covariance = np.linalg.inv(np.linalg.inv(prior) + linear.precision * np.eye(T))
    shift = ((linear.x - linear.mean.reshape(T, D)) / linear.scale) @ (linear.c / linear.noise)
    mean = shift @ covariance
    np.testing.assert_allclose(factor.g[..., 0].detach().numpy(), shift, atol=1e-9)
    found = model.family.moments(posterior.eta)
    np.testing.assert_allclose(found[0][..., 0].detach().numpy(), mean, atol=1e-6)
    np.testing.assert_allclose(found[1][0, :, 0].detach().numpy(), np.diag(covariance), atol=1e-6)
    inverse = np.linalg.inv(prior)
    log_dets = np.linalg.slogdet(prior)[1] - np.linalg.slogdet(covariance)[1]
    quadratic = np.einsum("nt,ts,ns->n", mean, inverse, mean)
    kl = 0.5 * (np.trace(inverse @ covariance) + quadratic - T + log_dets)
    np.testing.assert_allclose(-model.elbo(linear.batch(linear.x), BOTH)[1].detach().numpy(), kl, atol=1e-5)


def test_draws_estimate_what_the_exact_sum_gives(linear):
    model, batch = linear.model(), linear.batch(linear.x)
    exact = model.elbo(batch, BOTH)[0]
    even = model.settled_noise()
    np.testing.assert_allclose(model.elbo(batch, even)[0].detach(), exact.detach(), atol=0.02 * T)
    model.samples = 4000
    with rp.seeding.seeded(0), torch.no_grad():
        terms = model.terms(batch, 4.0)
    assert float(terms["likelihood"]) == pytest.approx(float(exact.detach().mean()), abs=0.2)
    assert float(terms["free_energy"]) == pytest.approx(float(terms["likelihood"] + terms["prior"]), abs=1e-9)


# ---- recovery -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recovered():
    data = ball(60, 25, 1)
    return data, SparseGPVAE(n_inducing=10, n_init=1, max_iter=120, random_state=0).fit(data.x[:40])


def test_the_plain_ball_is_recovered_and_new_trials_as_well(recovered):
    data, model = recovered
    mean = model.transform(data.x[:40])
    assert rp.metrics.nmse(mean, data.z[:40]) < 0.1
    assert rp.metrics.nmse(model.transform(data.x[40:]), data.z[40:], mean, data.z[:40]) < 0.1
    np.testing.assert_allclose(model.noise_, 0.3, atol=0.06)
    assert model.length_scales_.shape == (1,)
    assert model.score_ == pytest.approx(model.score(data.x[:40]), rel=1e-5)
    assert model.history_["free_energy"][-20:].mean() == pytest.approx(model.score_, abs=3.0)


def test_reconstructions_are_nearer_to_the_ball_than_its_pixels(recovered):
    data, model = recovered
    x = data.x[40:].copy()
    x[:, 10] = np.nan
    clean = np.exp(-(((np.linspace(data.z.min(), data.z.max(), 10) - data.z[40:]) / 0.3) ** 2))
    found = model.reconstruct(x)
    assert found.shape == x.shape
    assert np.square(found - clean).mean() < 0.3 * 0.3**2
    assert np.square(found[:, 10] - clean[:, 10]).mean() < 0.3**2  # from the neighbours


def test_the_unit_of_x_shifts_the_elbo_and_nothing_else():
    x = ball().x.astype(np.float64)
    plain, scaled = (SparseGPVAE(dtype="float64", **FAST).fit(each) for each in (x, 7.0 + 10.0 * x))
    np.testing.assert_allclose(scaled.transform(7.0 + 10.0 * x), plain.transform(x), atol=1e-8)
    assert scaled.score_ == pytest.approx(plain.score_ - x[0].size * np.log(10.0), abs=1e-6)
    np.testing.assert_allclose(scaled.noise_, 10.0 * plain.noise_, rtol=1e-8)


# ---- as a user meets it -------------------------------------------------------------------------


def test_results_have_the_form_of_the_data():
    data = ball()
    model = SparseGPVAE(2, **FAST).fit(data.x, times=data.times)
    posterior = model.posterior(data.x, times=data.times)
    assert posterior.mean.shape == (8, 20, 2)
    assert posterior.covariance.shape == (8, 20, 2, 2)
    assert (posterior.variance > 0).all()
    np.testing.assert_array_equal(model.transform({"x": data.x}), posterior.mean)
    assert model.score_samples(data.x).shape == (8,)
    assert len(model.history_["step"]) == model.n_iter_ == 4
    assert model.restarts_[0].kind == "random"
    trials = [x[:length] for x, length in zip(data.x, (20, 5, 9, 20, 3, 20, 20, 7), strict=True)]
    lists = SparseGPVAE(**FAST).fit(trials)
    assert [len(each) for each in lists.transform(trials)] == [len(each) for each in trials]
    assert [each.shape for each in lists.reconstruct(trials)] == [each.shape for each in trials]
    images = np.random.default_rng(0).random((4, 6, 5, 5)).astype(np.float32)
    assert SparseGPVAE(network="linear", **FAST).fit(images).reconstruct(images).shape == images.shape
    named = SparseGPVAE(**FAST).fit({"pixels": data.x})
    assert named.transform({"pixels": data.x}).shape == (8, 20, 1)
    assert SparseGPVAE(window=10, **FAST).fit(data.x[0]).transform(data.x[0]).shape == (20, 1)


def test_padding_and_gaps_leave_everything_else_unchanged():
    data = ball()
    model = SparseGPVAE(**FAST).fit(data.x)
    short = [data.x[0], data.x[1][:12]]
    whole, padded = data.x[:2].copy(), data.x[:2].copy()
    padded[1, 12:] = np.nan
    means, gappy = model.transform(short), model.transform(padded)
    np.testing.assert_allclose(means[0], model.transform(whole)[0], atol=1e-5)
    np.testing.assert_allclose(gappy[0], means[0], atol=1e-5)
    np.testing.assert_allclose(gappy[1, :12], means[1], atol=1e-5)
    np.testing.assert_allclose(model.score_samples(padded), model.score_samples(short), rtol=1e-5)
    there = np.isfinite(padded).all(-1)
    np.testing.assert_array_equal(model.transform(whole, presence={"x": there}), gappy)
    # In training as well: what stands where nothing was recorded is not seen.
    fits = [SparseGPVAE(**FAST).fit(padded), SparseGPVAE(**FAST).fit(whole, presence={"x": there})]
    np.testing.assert_array_equal(*(each.transform(whole) for each in fits))
    assert fits[0].score_ == fits[1].score_


def test_a_state_is_reproduced_and_parameters_are_kept():
    x = ball().x
    options = {**FAST, "n_init": 2, "max_iter": 8}
    steps = []
    one, same, other = (
        SparseGPVAE(**{**options, "random_state": seed}, callbacks=[lambda state: steps.append(state.step)]).fit(x)
        for seed in (0, 0, 1)
    )
    assert steps[-1] == 8
    np.testing.assert_array_equal(one.transform(x), same.transform(x))
    assert not np.array_equal(one.transform(x), other.transform(x))
    assert len(one.restarts_) == 2
    copied = clone(one)
    assert copied.get_params() == one.get_params()
    assert not hasattr(copied, "model_")


def test_a_module_may_be_the_decoder_and_is_not_changed():
    decoder = MLP((1,), 10, (4,))
    before = [each.clone() for each in decoder.parameters()]
    SparseGPVAE(decoder=decoder, **FAST).fit(ball().x)
    assert all(torch.equal(*pair) for pair in zip(before, decoder.parameters(), strict=True))
    assert len(SparseGPVAE(decoder="linear", **FAST).fit(ball().x).model_.likelihood.decoder) == 2


@pytest.mark.parametrize(
    ("options", "data", "words"),
    [
        ({"n_latents": 0}, {}, "n_latents"),
        ({"samples": 0}, {}, "samples"),
        ({"start_noise": 0.0}, {}, "start_noise"),
        ({"dropout": 1.0}, {}, "dropout"),
        ({"n_init": 0}, {}, "n_init"),
        ({"decoder": "cnn"}, {}, "decoder: expected one of auto, linear"),
        ({"decoder": MLP((1,), 9)}, {}, r"decoder: expected .*\(2, 10\)"),
        ({"kernel": "round"}, {}, "kernel"),
        ({}, {"second": np.zeros((8, 20, 3))}, "one factor of numbers, got 2: x, second"),
        ({}, {"x": [np.zeros(20, int)] * 8}, r"x \(labels\)"),
        ({}, {"x": np.full((8, 20, 3), np.nan)}, "Everything is missing"),
    ],
)
def test_bad_input_gets_a_sentence(options, data, words):
    with pytest.raises(rp.RPModelsError, match=words):
        SparseGPVAE(**{**FAST, **options}).fit({"x": ball().x, **data})


def test_new_data_must_match_and_a_fit_must_be_there():
    x = ball().x
    with pytest.raises(rp.RPModelsError, match="fit"):
        SparseGPVAE().transform(x)
    model = SparseGPVAE(**FAST).fit(x)
    with pytest.raises(rp.RPModelsError, match=r"\(10,\)"):
        model.transform(x[..., :4])
    with pytest.raises(rp.RPModelsError, match="Unknown factor 'y'"):
        model.score({"y": x})


# ---- its rows in the experiments ----------------------------------------------------------------

SMALL = {"n_trials": 6, "n_times": 12, "n_inducing": 6}


@pytest.fixture
def brief(monkeypatch):
    """Fits of a few steps."""
    monkeypatch.setattr(recovery_baselines, "SparseGPVAE", functools.partial(SparseGPVAE, max_iter=4, n_init=1))
    monkeypatch.setattr(recovery_baselines, "GPFA", functools.partial(rp.baselines.GPFA, max_iter=2))
    monkeypatch.setattr(recovery, "RPGPFA", functools.partial(rp.RPGPFA, max_iter=4, n_init=1))
    return monkeypatch


@pytest.mark.parametrize(
    ("module", "methods"),
    [
        (textured_ball, ("interior", "sGP-VAE-1D", "sGP-VAE-2D", "GPFA")),
        (structured_ball, ("sGP-VAE-2D", "GPFA")),
        (plain_ball, ("GPFA",)),
    ],
)
def test_experiments_have_the_baselines_beside_ours(module, methods, brief, tmp_path):
    experiment = module.EXPERIMENT
    brief.setattr(type(experiment), "presets", {"quick": module.Settings(**SMALL)})
    folder = runner.run_experiment(experiment, "quick", seeds=1, methods=methods, out=tmp_path / "out")
    rows = json.loads((folder / "metrics.json").read_text())["rows"]
    found = {(row["model"], row["metric"]): row for row in rows if not row["condition"]}
    models = {model for model, _ in found}
    assert models == {"RP-GPFA" if method == "interior" else method for method in methods}
    for model in models:
        assert {"nmse", "nmse_heldout", "free_energy_paper", "fit_seconds"} <= {m for name, m in found if name == model}
        assert (model == "GPFA") != ((model, "coverage_90") in found)
    drawn = {path.stem for path in folder.glob("*.png") if path.stat().st_size > 5000}
    assert drawn >= ({"nmse"} if methods == ("GPFA",) else {"nmse", "recovery", "learning_curves"})


@pytest.mark.parametrize("module", [textured_ball, structured_ball])
def test_the_papers_table_stands_beside_the_rows(module):
    settings = module.Settings()
    reported = module.EXPERIMENT.paper(settings)
    rows = module.EXPERIMENT.rows(settings)
    assert {slug for slug, _ in reported} <= {row.slug for row in rows}
    assert reported["sGP-VAE-1D", "nmse"] == "≥ 0.99"
    assert reported["sGP-VAE-2D", "free_energy_paper"].startswith("2")
