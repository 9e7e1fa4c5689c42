"""RPLDS and the verbs of time for smooth latents: filter, forecast, stream; forms, files, bad input."""

import numpy as np
import pytest

import rpmodels as rp
from data import dynamics, rotation
from registry import made
from rpmodels.errors import InputError

ANGLE, MODULUS = 0.4, 0.95


def turning(n=40, t=40, seed=0):
    """A noisy rotation behind noisy linear measurements: in the model."""
    loadings = np.random.default_rng(7).standard_normal((2, 6))
    return dynamics(rotation(ANGLE, MODULUS), MODULUS, loadings, n, t, noise=0.7, seed=seed)


def wandering(n, t, seed):
    """One latent with memory 0.9 behind noisy linear measurements: in the model."""
    return dynamics(np.array([[0.9]]), 0.9, np.array([[1.0, -0.5, 0.3, 0.8]]), n, t, noise=0.7, seed=seed)


def brief(**settings):
    options = {
        "network": "linear",
        "precision": "constant",
        "max_iter": 100,
        "n_init": 1,
        "retries": 0,
        "random_state": 0,
    }
    return made(rp.RPLDS, **{"n_latents": 2, **options, "atoms": "per_time", "learning_rate": 3e-2, **settings})


@pytest.fixture(scope="module")
def fitted():
    x, z = turning(40, 30)
    return brief(max_iter=80).fit(x), x, z


@pytest.fixture(scope="module")
def smooth():
    x, z = turning(30, 20)
    options = {"network": "linear", "precision": "constant", "n_init": 1, "retries": 0}
    return made(rp.RPGPFA, 2, max_iter=60, atoms="per_time", random_state=0, **options).fit(x), x, z


def test_latents_and_dynamics_are_found(fitted):
    model, x, z = fitted
    assert rp.metrics.nmse(model.transform(x), z) < 0.2
    angle = np.abs(np.angle(model.eigenvalues_))
    np.testing.assert_allclose(angle, ANGLE, rtol=0.1)
    assert np.abs(np.abs(model.eigenvalues_) - MODULUS).max() < 0.06
    np.testing.assert_allclose(
        np.sort(np.abs(np.linalg.eigvals(model.A_))), np.sort(np.abs(model.eigenvalues_)), rtol=1e-4
    )
    np.testing.assert_allclose(model.time_constants_, -1 / np.log(np.abs(model.eigenvalues_)))
    assert 0 < float(model.score(x)) < model.score(x).ceiling


def test_forecast_bands_cover_what_comes():
    x, z = wandering(100, 20, 0)
    model = brief(n_latents=1, weight_decay=0.0).fit(x)
    new, truth = wandering(300, 30, 3)
    ahead = model.forecast(new[:, :20], 10)
    assert ahead.mean.shape == (300, 10, 1)
    np.testing.assert_array_equal(ahead.times[0], np.arange(20, 30))
    mapped = rp.metrics.linear_map(model.transform(x), z)
    mean, variance = rp.metrics.aligned(ahead.mean, ahead.covariance, *mapped)
    assert 0.85 <= rp.metrics.coverage(mean, variance, truth[:, 20:]) <= 0.95
    low, high = ahead.bands(0.9)
    inside = (mean - 1.6449 * np.sqrt(variance), mean + 1.6449 * np.sqrt(variance))
    assert np.corrcoef((high - low).ravel(), (inside[1] - inside[0]).ravel())[0, 1] > 0.99


@pytest.mark.soak
def test_forecast_bands_of_two_latents():
    # A hundred steps are too few: A is still changing, and its memory too long.
    x, z = turning(60, 30, 1001)
    model = brief(atoms="pooled", max_iter=250).fit(x)
    new, truth = turning(300, 40, 6001)
    ahead = model.forecast(new[:, :30], 10)
    moments = rp.metrics.aligned(ahead.mean, ahead.covariance, *rp.metrics.linear_map(model.transform(x), z))
    assert 0.85 <= rp.metrics.coverage(*moments, truth[:, 30:]) <= 0.95


def test_few_small_images_are_regularised_more():
    images = np.random.default_rng(0).standard_normal((10, 20, 12, 12))

    def recognition(*shape):
        observations = rp.read({"x": images.reshape(10, 20, *shape)}, series=True)
        return rp.RPLDS(2).build(observations)[0].recognition[0]

    rates = [recognition(*shape).input_dropout.p for shape in ((12, 12), (4, 36), (144,))]
    assert rates == [0.4, 0.4, 0.3]
    assert not recognition(144).network.hidden


@pytest.mark.parametrize("kind", ["fitted", "smooth"])
def test_the_filter_knows_no_future(kind, request):
    model, x, _ = request.getfixturevalue(kind)
    filtered = model.filter(x[:3])
    changed = x[:3].copy()
    changed[:, 12:] = 5.0
    again = model.filter(changed)
    np.testing.assert_allclose(again.mean[:, :12], filtered.mean[:, :12], atol=1e-5)
    np.testing.assert_allclose(again.covariance[:, :12], filtered.covariance[:, :12], atol=1e-5)
    whole = model.smooth(x[:3])
    np.testing.assert_allclose(filtered.mean[:, -1], whole.mean[:, -1], atol=1e-4)
    assert (whole.variance.sum(-1) <= filtered.variance.sum(-1) + 1e-5).all()


def test_the_stream_is_the_filter(fitted):
    model, x, _ = fitted
    filtered = model.filter(x[0])
    stream = model.stream()
    for t in range(6):
        mean, covariance = stream.update(x[0, t])
        np.testing.assert_allclose(mean, filtered.mean[t], atol=1e-4)
        np.testing.assert_allclose(covariance, filtered.covariance[t], atol=1e-4)


def test_forecasts_of_smooth_latents(smooth):
    model, x, _ = smooth
    ahead = model.forecast(x, 8)
    at = model.posterior(x, at=np.arange(20, 28))
    np.testing.assert_allclose(ahead.mean, at.mean, atol=1e-5)
    np.testing.assert_allclose(ahead.covariance, at.covariance, atol=1e-5)
    assert (np.diff(ahead.variance, axis=1) >= -1e-4).all()
    ragged = model.set_params(inference__atoms="pooled").forecast([x[0], x[1][:20]], 3)
    assert [each.shape for each in ragged.mean] == [(3, 2), (3, 2)]


def test_forms(fitted):
    model, x, _ = fitted
    pooled = brief(atoms="pooled", max_iter=5).fit(list(x[:10]))
    ragged = [x[0], x[1][:20]]
    assert [each.shape for each in pooled.transform(ragged)] == [(30, 2), (20, 2)]
    assert [each.shape for each in pooled.filter(ragged).mean] == [(30, 2), (20, 2)]
    assert [each.shape for each in pooled.forecast(ragged, 4).covariance] == [(4, 2, 2)] * 2
    assert pooled.forecast(x[0], 4).mean.shape == (4, 2)
    low, high = pooled.forecast(ragged, 4).bands()
    assert (high[1] > low[1]).all()
    assert model.posterior(x[:2]).sample(2)[0].shape == (2, 30, 2)


def test_a_file_keeps_it(fitted, tmp_path):
    model, x, _ = fitted
    model.save(tmp_path / "turn")
    loaded = rp.load(tmp_path / "turn")
    np.testing.assert_array_equal(loaded.transform(x), model.transform(x))
    np.testing.assert_array_equal(loaded.eigenvalues_, model.eigenvalues_)


def test_bad_input_is_refused(fitted):
    model, x, _ = fitted
    with pytest.raises(InputError, match="equally spaced"):
        brief(max_iter=1, atoms="pooled").fit(list(x[:5]), times=[np.sort(np.random.default_rng(0).random(30))] * 5)
    with pytest.raises(InputError, match="memory"):
        brief(memory=1.5).fit(x)
    with pytest.raises(InputError, match="steps"):
        model.forecast(x, 0)
    with pytest.raises(InputError, match="trials of two times or more"):
        brief().fit(x[:, :1])


def test_steps_that_are_not_those_of_the_fit_are_noticed():
    data = rp.datasets.rotating_spot(6, 12, side=4, random_state=0)
    model = rp.RPLDS(1, max_iter=3, n_init=1, search=rp.Search(retries=0), network="linear", random_state=0).fit(
        data.x, times=data.times / 10
    )
    model.transform(data.x, times=5 + data.times / 10)
    with pytest.warns(rp.RPModelsWarning, match="time step of 0.2, those of the fit one of 0.1"):
        model.transform(data.x[:, ::2], times=data.times[::2] / 10)
