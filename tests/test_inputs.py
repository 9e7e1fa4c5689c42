"""Inputs u that drive linear dynamics: recovered, used by every verb, refused when they do not fit."""

import numpy as np
import pytest
import torch

import rpmodels as rp
from data import dynamics, rotation
from registry import made
from rpmodels.errors import FileError, InputError
from rpmodels.priors.driving import Inputs

A = rotation(0.5, 0.8)
B = np.array([[1.5, 0.0], [0.0, -1.0]])
SCALES = np.array([10.0, 0.1])
"""Units of the two inputs: B above is per unit of u / SCALES."""


def pushed(n=40, t=25, seed=0):
    """Latents that inputs push about, behind noisy linear measurements, and the inputs."""
    u = SCALES * np.random.default_rng((seed, 1)).standard_normal((n, t, 2))
    loadings = np.random.default_rng(7).standard_normal((2, 6))
    x, z = dynamics(A, 0.8, loadings, n, t, noise=1.0, seed=seed, drive=(u / SCALES) @ B.T)
    return x, u, z


def brief(**settings):
    options = {"network": "linear", "precision": "constant", "n_init": 1, "retries": 0, "learning_rate": 3e-2}
    return made(rp.RPLDS, 2, atoms="pooled", random_state=0, **{"max_iter": 150, **options, **settings})


@pytest.fixture(scope="module")
def fitted():
    x, u, z = pushed()
    return brief().fit(x, inputs=u), x, u, z


def test_the_spread_that_inputs_make():
    """Against many simulated trials of a process with memory, looked at half-way."""
    random = np.random.default_rng(0)
    n, t, memory, offset = 20_000, 32, 0.6, 0.7
    noise = random.standard_normal((n, t, 1))
    u = np.empty((n, t, 1))
    u[:, 0] = noise[:, 0]
    for time in range(1, t):
        u[:, time] = memory * u[:, time - 1] + np.sqrt(1 - memory**2) * noise[:, time]
    u += offset
    inputs = Inputs(2, 1).double()
    inputs.B.data = torch.tensor([[0.5], [-0.3]]).double()
    inputs.learn(torch.tensor(u), torch.ones(n, t, dtype=torch.bool))
    assert float(inputs.memory) == pytest.approx(memory, abs=0.01)
    mean, covariance = inputs.spread(torch.tensor(A), torch.eye(2).double() - torch.tensor(A @ A.T))
    z = random.standard_normal((n, 2))
    for time in range(t // 2):
        driven = (u[:, time] / inputs.scales.numpy()) @ inputs.B.detach().numpy().T
        z = z @ A.T + driven + 0.6 * random.standard_normal((n, 2))
    np.testing.assert_allclose(mean.detach(), z.mean(0), atol=0.05)
    np.testing.assert_allclose(covariance.detach(), np.cov(z.T), atol=0.1)


def test_what_inputs_do_is_recovered(fitted):
    """B in the basis of the truth, through the linear map from latents to truth."""
    model, x, u, z = fitted
    mean = model.transform(x, inputs=u)
    assert rp.metrics.nmse(mean, z) < 0.1
    weights, _ = rp.metrics.linear_map(mean, z)
    found = weights.T @ model.B_ * SCALES
    np.testing.assert_allclose(found, B, atol=0.25)
    np.testing.assert_allclose(np.abs(model.eigenvalues_), 0.8, atol=0.06)
    np.testing.assert_allclose(np.abs(np.angle(model.eigenvalues_)), 0.5, atol=0.06)


def test_inputs_make_forecasts_better(fitted):
    model, x, u, z = fitted
    x, u, z = pushed(60, 30, seed=1)
    seen, steps = 24, 6
    past, ahead = u[:, :seen], u[:, seen:]
    line = rp.metrics.linear_map(model.transform(x, inputs=u), z)
    truth = z[:, seen:]

    def error(forecast):
        aligned, _ = rp.metrics.aligned(forecast.mean, forecast.covariance, *line)
        return np.square(aligned - truth).mean() / truth.var()

    known = error(model.forecast(x[:, :seen], steps, inputs=past, inputs_ahead=ahead))
    unknown = error(model.forecast(x[:, :seen], steps, inputs=past))
    alone = brief().fit(x[:, :seen])
    line = rp.metrics.linear_map(alone.transform(x[:, :seen]), z[:, :seen])
    without = error(alone.forecast(x[:, :seen], steps))
    assert known < 0.45 < min(unknown, without), (known, unknown, without)


def test_forecast_goes_on_as_missing_steps_would(fitted):
    model, x, u, _ = fitted
    gone = x[:3].copy()
    gone[:, 15:] = np.nan
    smoothed = model.posterior(gone, inputs=u[:3])
    ahead = model.forecast(x[:3, :15], 10, inputs=u[:3, :15], inputs_ahead=u[:3, 15:])
    np.testing.assert_allclose(ahead.mean, smoothed.mean[:, 15:], atol=1e-4)
    np.testing.assert_allclose(ahead.covariance, smoothed.covariance[:, 15:], atol=1e-4)


def test_filter_knows_no_future_and_stream_is_filter(fitted):
    model, x, u, _ = fitted
    x, u = x[:2].copy(), u[:2].copy()
    before = model.filter(x, inputs=u)
    x[:, 12:], u[:, 12:] = 0.0, 99.0
    np.testing.assert_allclose(model.filter(x, inputs=u).mean[:, :12], before.mean[:, :12], atol=1e-5)
    stream = model.stream()
    for t in range(12):
        mean, covariance = stream.update(x[0, t], inputs=u[0, t])
        np.testing.assert_allclose(mean, before.mean[0, t], atol=1e-4)
        np.testing.assert_allclose(covariance, before.covariance[0, t], atol=1e-4)
    for wrong in (None, [1.0], [np.nan, 1.0]):
        with pytest.raises(InputError, match="inputs: expected 2 finite numbers, as in training"):
            stream.update(x[0, 0], inputs=wrong)


def test_files_lists_and_recordings(fitted, tmp_path):
    model, x, u, _ = fitted
    model.save(tmp_path / "driven")
    again = rp.load(tmp_path / "driven")
    np.testing.assert_array_equal(again.transform(x, inputs=u), model.transform(x, inputs=u))
    np.testing.assert_array_equal(again.B_, model.B_)
    lengths = [25, 10, 17]
    parts = model.transform(
        [x[n, :length] for n, length in enumerate(lengths)], inputs=[u[n, :length] for n, length in enumerate(lengths)]
    )
    for n, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        alone = model.transform(x[n, :length], inputs=u[n, :length])
        np.testing.assert_allclose(part, alone, atol=1e-5)
    score = model.score_samples(x[:3], inputs=u[:3])
    np.testing.assert_allclose(score[1:2], model.score_samples(x[1:2], inputs=u[1:2]), atol=1e-3)


def test_checkpoints_know_the_inputs(tmp_path):
    x, u, _ = pushed(8, 10)
    options = {"max_iter": 5}
    brief(**options).fit(x, inputs=u, checkpoint=tmp_path / "c")
    with pytest.raises(FileError, match="the data"):
        brief(**options).fit(x, inputs=2 * u, checkpoint=tmp_path / "c")


def test_one_input_may_be_flat_and_long_trials_are_cut():
    x, u, _ = pushed(4, 40)
    model = brief(max_iter=5, window=15, finish="none").fit(list(x), inputs=[each[:, 0] for each in u])
    assert model.B_.shape == (2, 1)


def test_bad_inputs_are_refused(fitted):
    model, x, u, _ = fitted
    message = r"inputs\[0\]: expected \(25, U\), one row for every time of the trial, got shape \(24, 2\)"
    with pytest.raises(InputError, match=message):
        brief().fit(x, inputs=u[:, :-1])
    with pytest.raises(InputError, match=r"inputs: expected one array \(T_n, U\) for each of the 40 trials, got 39"):
        brief().fit(x, inputs=u[:-1])
    with pytest.raises(InputError, match="inputs: expected one row for each of the 25 times of the recording, got 24"):
        model.transform(x[0], inputs=u[0, :-1])
    holes = u.copy()
    holes[3, 4] = np.nan
    with pytest.raises(InputError, match=r"inputs\[3\]: expected finite numbers .* got row 4 is not"):
        brief().fit(x, inputs=holes)
    with pytest.raises(InputError, match=r"inputs\[0\]: expected numbers"):
        brief().fit(x, inputs=[["a"]] * 40)
    with pytest.raises(InputError, match="the same number of inputs in every trial, got 1 and 2"):
        brief().fit(x, inputs=[u[0, :, :1], *u[1:]])
    for wrong in (None, u[..., :1]):
        with pytest.raises(InputError, match="inputs: expected 2 numbers at every time, as in training"):
            model.transform(x, inputs=wrong)
    with pytest.raises(InputError, match=r"inputs_ahead: expected finite numbers of shape \(40, 3, 2\) or \(3, 2\)"):
        model.forecast(x, 3, inputs=u, inputs_ahead=u[:, :2])
    alone = brief(max_iter=2, finish="none").fit(x)
    with pytest.raises(InputError, match="inputs_ahead: expected None, as the model was fitted without inputs"):
        alone.forecast(x, 3, inputs_ahead=u[:, :3])


@pytest.mark.parametrize("model", [rp.RPLDS(1), rp.RPHMM(2)])
def test_series_of_one_step_are_refused(model):
    x = np.random.default_rng(0).standard_normal((20, 1, 3))
    with pytest.raises(InputError, match=r"expected trials of two times or more, .* got 20 of at most 1"):
        model.fit({"a": x, "b": x})
