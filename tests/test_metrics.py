"""Metrics against small cases worked out by hand."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from rpmodels import datasets, metrics, plots
from rpmodels.errors import InputError


def test_matching_is_one_to_one_and_carried_to_new_data():
    truth = np.array([0, 0, 1, 1, 2, 2, 2])
    states = np.array([2, 2, 0, 0, 1, 1, 0])
    matching = metrics.match_states(truth, states, 3)
    assert matching.tolist() == [1, 2, 0]
    assert (matching[states] == truth).mean() == pytest.approx(6 / 7)


def test_two_classes_in_one_state_cannot_both_be_right():
    truth = np.array([0, 1, 2, 2])
    states = np.array([0, 0, 1, 2])
    matching = metrics.match_states(truth, states, 3)
    assert sorted(matching.tolist()) == [0, 1, 2]
    assert (matching[states] == truth).mean() == 0.5


def test_more_states_than_classes_leave_some_unmatched_or_extra():
    matching = metrics.match_states(np.array([0, 0, 1]), np.array([0, 1, 3]), 4)
    assert matching[3] == 1
    assert metrics.confusion(np.array([0, 0, 1]), np.array([0, 1, 3]), 4).sum() == 3


def test_entropy_of_the_average():
    assert metrics.entropy_of_average(np.eye(4)) == pytest.approx(np.log(4))
    assert metrics.entropy_of_average(np.array([[1.0, 0.0], [1.0, 0.0]])) == 0.0


@pytest.fixture
def recovered():
    """Estimates (N, T, K) and a truth (N, T, D) that depends on them, with noise and an offset."""
    random = np.random.default_rng(0)
    estimate = random.standard_normal((6, 20, 3)) + 1
    truth = estimate @ random.standard_normal((3, 2)) + [5, -2] + 0.5 * random.standard_normal((6, 20, 2)) * [1, 4]
    return estimate, truth


def sklearn_nmse(estimate, truth, fit_estimate, fit_truth):
    regression = LinearRegression().fit(fit_estimate.reshape(-1, 3), fit_truth.reshape(-1, 2))
    predicted = regression.predict(estimate.reshape(-1, 3))
    return 1 - r2_score(truth.reshape(-1, 2), predicted, multioutput="variance_weighted")


def test_nmse_is_one_minus_the_pooled_r2(recovered):
    estimate, truth = recovered
    assert metrics.nmse(estimate, truth) == pytest.approx(sklearn_nmse(estimate, truth, estimate, truth))
    held_out = metrics.nmse(estimate[4:], truth[4:], estimate[:4], truth[:4])
    assert held_out == pytest.approx(sklearn_nmse(estimate[4:], truth[4:], estimate[:4], truth[:4]))
    assert held_out > metrics.nmse(estimate[4:], truth[4:])
    regression = LinearRegression().fit(estimate.reshape(-1, 3), truth.reshape(-1, 2))
    coefficients, intercept = metrics.linear_map(estimate, truth)
    np.testing.assert_allclose(coefficients, regression.coef_.T)
    np.testing.assert_allclose(intercept, regression.intercept_)


def test_nmse_is_0_for_an_affine_copy_and_1_for_what_is_unrelated(recovered):
    estimate, truth = recovered
    assert metrics.nmse(2 * truth[..., ::-1] + 3, truth) == pytest.approx(0, abs=1e-12)
    assert metrics.nmse(np.zeros_like(estimate), truth) == pytest.approx(1)


def test_nmse_of_trials_of_any_length(recovered):
    estimate, truth = recovered
    assert metrics.nmse(list(estimate), truth) == metrics.nmse(estimate, truth)
    lengths = range(20, 14, -1)
    short, true = ([trial[:t] for trial, t in zip(data, lengths, strict=True)] for data in recovered)
    together = metrics.nmse(np.concatenate(short), np.concatenate(true))
    assert metrics.nmse(short, true) == pytest.approx(together)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (lambda e, t: (e, t[:5]), "truth: expected 6 trial"),
        (lambda e, t: (e, t[:, :7]), r"truth, trial 0: expected shape \(20, 2\)"),
        (lambda e, t: (e[0, :, 0], t[0, :, 0]), r"estimate: expected an array \(…, K\)"),
        (lambda e, t: ([], t), "estimate: expected an array"),
        (lambda e, t: (e[:, :0], t[:, :0]), "estimate: expected at least one time point"),
        (lambda e, t: ([e[0], e[1, :, :2]], t[:2]), "estimate: expected the same last axis"),
        (lambda e, t: (np.where(e > 2, np.nan, e), t), "estimate: expected finite values"),
        (lambda e, t: (e, t, e), "fit_estimate, fit_truth: expected both or neither, got fit_estimate only"),
        (lambda e, t: (e, t, e[..., :2], t), r"fit_estimate, fit_truth: expected last axes \[3, 2\]"),
        (lambda e, t: (e, np.full_like(t, 0.1)), "truth: expected values that vary"),
    ],
)
def test_nmse_says_what_does_not_fit(recovered, arguments, text):
    with pytest.raises(InputError, match=text):
        metrics.nmse(*arguments(*recovered))


def test_aligned_posteriors_are_those_of_mapped_samples():
    random = np.random.default_rng(0)
    root = random.standard_normal((4, 3, 3))
    mean, covariance = random.standard_normal((4, 3)), root @ root.swapaxes(-1, -2)
    coefficients, intercept = random.standard_normal((3, 2)), np.array([1.0, -1.0])
    samples = mean + np.einsum("nkl,snl->snk", root, random.standard_normal((50_000, 4, 3)))
    mapped = samples @ coefficients + intercept
    middle, variance = metrics.aligned(mean, covariance, coefficients, intercept)
    np.testing.assert_allclose(middle, mapped.mean(0), atol=5 * np.sqrt(variance.max() / 50_000))
    np.testing.assert_allclose(variance, mapped.var(0), rtol=0.04)
    with pytest.raises(InputError, match="mean, covariance: expected"):
        metrics.aligned(mean, covariance[:3], coefficients, intercept)


def test_coverage_is_the_level_when_the_posterior_is_right():
    random = np.random.default_rng(0)
    mean, variance = random.standard_normal((100, 200, 2)), random.uniform(0.1, 3, (100, 200, 2))
    truth = mean + np.sqrt(variance) * random.standard_normal(mean.shape)
    for level in (0.5, 0.9, 0.99):
        assert metrics.coverage(mean, variance, truth, level) == pytest.approx(level, abs=0.01)
    # Half the sd: ±1.645/2 sd hold 0.589 of a normal.
    assert metrics.coverage(mean, variance / 4, truth) == pytest.approx(0.589, abs=0.01)
    at, past = np.array([1.6448, -1.6448]), np.array([1.6449, -1.6449])
    assert metrics.coverage(np.zeros(2), np.ones(2), at) == 1
    assert metrics.coverage(np.zeros(2), np.ones(2), past) == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((np.zeros(3), np.ones(3), np.zeros(2)), "expected one shape"),
        ((np.zeros(3), -np.ones(3), np.zeros(3)), "variance: expected values ≥ 0"),
        ((np.zeros(3), np.ones(3), np.full(3, np.inf)), "truth: expected finite"),
        ((np.zeros(3), np.ones(3), np.zeros(3), 1.0), "level: expected a number > 0 and < 1"),
    ],
)
def test_coverage_says_what_does_not_fit(arguments, text):
    with pytest.raises(InputError, match=text):
        metrics.coverage(*arguments)


def test_plots_of_a_trial_draw_on_the_axes_they_get():
    series = datasets.textured_ball(n_trials=2, random_state=0)
    figure, (above, below) = plt.subplots(2, layout="constrained")
    assert plots.trial_image(series.x[0], series.times, above) is above
    assert plots.latent_recovery(series.times, series.z[0] + 0.1, np.full(50, 0.2), series.z[0], below) is below
    figure.canvas.draw()
    assert above.get_xlabel() == below.get_xlabel() == "time"
    mean, truth = below.lines
    np.testing.assert_allclose(mean.get_ydata() - truth.get_ydata(), 0.1)
    assert truth.get_linestyle() == "--"
    shade = below.collections[0].get_paths()[0].vertices[:, 1]
    assert shade.max() == pytest.approx(series.z[0].max() + 0.5)
    drawn = above.collections[0].get_array()
    np.testing.assert_array_equal(drawn, series.x[0].T)
    # The legend stands beside the axes, not on the lines.
    assert below.get_legend().get_window_extent().x0 >= below.get_window_extent().x1
    plt.close(figure)


def test_plots_of_a_trial_make_their_own_axes():
    series = datasets.lorenz(n_trials=1, n_times=20, n_channels=5, random_state=0)
    axes = plots.latent_recovery(series.times, series.z[0], np.full((20, 3), 0.1), series.z[0])
    assert len(axes.lines) == 6
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["posterior mean", "± 2 sd", "truth"]
    image = plots.trial_image(series.x[0], series.times)
    assert image is not axes
    for each in (axes, image):
        plt.close(each.figure)


def test_region_coverage_is_the_level_when_the_posterior_is_right():
    random = np.random.default_rng(0)
    root = random.standard_normal((20_000, 3, 3)) + 2 * np.eye(3)
    mean, covariance = random.standard_normal((20_000, 3)), root @ root.swapaxes(-1, -2)
    truth = mean + (root @ random.standard_normal((20_000, 3, 1)))[..., 0]
    for level in (0.5, 0.9, 0.99):
        assert metrics.region_coverage(mean, covariance, truth, level) == pytest.approx(level, abs=0.01)
    # A circle of radius √(−2 log 0.1) holds nine tenths of a normal in the plane.
    edge = np.sqrt(-2 * np.log(0.1))
    at = np.array([[edge - 1e-6, 0.0], [0.0, -edge - 1e-6]])
    assert metrics.region_coverage(np.zeros((2, 2)), np.tile(np.eye(2), (2, 1, 1)), at) == 0.5
    with pytest.raises(InputError, match="mean, covariance, truth"):
        metrics.region_coverage(mean, covariance[:, :2], truth)


def test_a_rotation_leaves_intervals_as_wide_as_they_are():
    """Where a posterior is right, and half as wide as it should be, raw coverage says so and that by a map does not."""
    random = np.random.default_rng(0)
    z = random.standard_normal((20_000, 2))
    turn = np.linalg.qr(random.standard_normal((2, 2)))[0]
    noisy = z + 0.5 * random.standard_normal(z.shape)
    mean, covariance = (noisy / 1.25) @ turn.T, np.broadcast_to(0.2 * np.eye(2), (20_000, 2, 2))
    line = metrics.rotation(mean, z)
    np.testing.assert_allclose(line[0], turn, atol=0.02)
    np.testing.assert_array_equal(line[1], 0.0)
    for level in (0.5, 0.9):
        assert metrics.coverage(*metrics.aligned(mean, covariance, *line), z, level) == pytest.approx(level, abs=0.01)
    # Latents on a scale of their own: the map stretches both, the rotation neither.
    small, thin = 0.5 * mean, 0.25 * covariance
    stretched = metrics.coverage(*metrics.aligned(small, thin, *metrics.linear_map(small, z)), z)
    assert stretched == pytest.approx(0.9, abs=0.01)
    assert metrics.coverage(*metrics.aligned(small, thin, *metrics.rotation(small, z)), z) < 0.7
    with pytest.raises(InputError, match="truth: expected 2 latents"):
        metrics.rotation(mean, z[:, :1])
