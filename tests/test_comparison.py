"""Decoders, alignment, stability and comparisons, against numbers that are known."""

import warnings

import numpy as np
import pytest

import rpmodels as rp
from data import views
from rpmodels.errors import RPModelsError
from rpmodels.evaluation import (
    Decoder,
    TrialFolds,
    align_latents,
    align_states,
    compare_baselines,
    decode,
    stability,
)
from rpmodels.evaluation.comparison import scaled_bins


def trials(seed=0, n=12):
    """Latents of unequal trials, and behaviour that is linear in them."""
    rng = np.random.default_rng(seed)
    latents = [rng.standard_normal((int(t), 2)) for t in rng.integers(15, 30, n)]
    return latents, [each @ [[1.0], [-2.0]] + 3.0 for each in latents]


# ---- decoders ---------------------------------------------------------------------------------------


def test_linear_behaviour_is_decoded_by_ridge():
    latents, behaviour = trials()
    assert decode(latents, behaviour).mean > 0.9999


def test_the_score_is_r_squared_on_the_other_trials():
    rng = np.random.default_rng(1)
    latents, behaviour = trials()
    noisy = [each + rng.standard_normal(each.shape) for each in behaviour]
    decoder = Decoder().fit(latents[:8], noisy[:8])
    predicted, truth = (np.concatenate(each) for each in (decoder.predict(latents[8:]), noisy[8:]))
    expected = 1 - np.square(truth - predicted).sum() / np.square(truth - truth.mean()).sum()
    assert decoder.score(latents[8:], noisy[8:]) == pytest.approx(expected)


def test_what_is_not_linear_is_decoded_by_neighbours():
    latents, _ = trials(n=40)
    ring = [np.abs(each[:, :1]) for each in latents]
    assert decode(latents, ring, kind="knn").mean > 0.8
    assert decode(latents, ring).mean < 0.2


def test_noise_decodes_to_nothing():
    rng = np.random.default_rng(5)
    latents, behaviour = trials()
    assert decode(latents, [rng.standard_normal(each.shape) for each in behaviour]).mean < 0.1


@pytest.mark.parametrize("kind", ["ridge", "knn"])
def test_labels_give_an_accuracy(kind):
    latents, behaviour = trials(n=30)
    labels = [np.where(each[:, 0] > 3.0, "high", "low") for each in behaviour]
    found = decode(latents, labels, kind=kind)
    assert found.is_accuracy
    assert found.mean > 0.9
    assert "accuracy" in repr(found)


def test_one_label_for_a_whole_trial():
    latents, _ = trials(n=20)
    kinds = np.arange(20) % 2
    shifted = [each + 6.0 * kind for each, kind in zip(latents, kinds, strict=True)]
    assert decode(shifted, kinds).mean > 0.95


def test_arrays_are_trials_too():
    rng = np.random.default_rng(0)
    latents = rng.standard_normal((10, 20, 2))
    decoder = Decoder().fit(latents, latents[..., :1])
    assert decoder.predict(latents).shape == (10, 20, 1)
    assert decoder.score(latents, latents[..., :1]) > 0.9999


def test_unknown_behaviour_is_left_out():
    latents, behaviour = trials()
    behaviour[0][:] = np.nan
    assert decode(latents, behaviour, cv=TrialFolds(3)).mean > 0.99


def test_no_trial_is_on_both_sides():
    """Behaviour that only tells trials apart: neighbours within a trial would give it away."""
    rng = np.random.default_rng(0)
    offsets = rng.standard_normal((20, 1))
    latents = [np.full((15, 2), number) + 0.01 * rng.standard_normal((15, 2)) for number in range(20)]
    behaviour = [np.full((15, 1), float(each)) for each in offsets[:, 0]]
    assert decode(latents, behaviour, kind="knn").mean < 0.5


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda z, y: Decoder("svm").fit(z, y), "ridge"),
        (lambda z, y: decode(z, y[:-1]), "12 trials"),
        (lambda z, y: Decoder().fit(z, [each[:-1] for each in y]), "trial 0"),
        (lambda z, y: Decoder().predict(z), "fit"),
        (lambda z, y: decode(z, np.zeros(12, int)), "two different labels"),
        (lambda z, y: Decoder().fit([each[:1] for each in z[:4]], ["a", "b", "a", "b"]), "3 times at least, .* got 2"),
    ],
)
def test_bad_calls_of_decoders(call, words):
    with pytest.raises((RPModelsError, ValueError), match=words):
        call(*trials())


# ---- alignment --------------------------------------------------------------------------------------


def test_rotations_and_reflections_are_undone():
    rng = np.random.default_rng(0)
    latents = [rng.standard_normal((t, 3)) for t in (5, 9)]
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    turned = [each @ rotation + 4.0 for each in latents]
    for aligned, expected in zip(align_latents(turned, latents), latents, strict=True):
        np.testing.assert_allclose(aligned, expected, atol=1e-12)
    whole = np.stack([latents[1], latents[1] + 1.0])
    np.testing.assert_allclose(align_latents(whole @ rotation, whole), whole, atol=1e-12)


def test_states_are_put_into_order():
    rng = np.random.default_rng(0)
    reference = np.eye(4)[rng.integers(4, size=50)]
    order = np.array([2, 0, 3, 1])
    np.testing.assert_array_equal(align_states(reference[:, order], reference), reference)


# ---- stability --------------------------------------------------------------------------------------


def test_runs_that_find_the_same_agree():
    x, _ = views(200, width=3, noise=0.2)
    found = stability(rp.RPFA(1, max_iter=80, n_init=1, search=rp.Search(retries=0), learning_rate=2e-2), x, n_runs=3)
    assert found.mean > 0.9
    assert len(found.scores) == 3
    aligned = np.stack(found.latents)[..., 0]
    assert np.corrcoef(aligned).min() > 0.9  # signs are aligned as well
    assert "stability" in repr(found)


def test_runs_on_noise_do_not():
    noise = {name: np.random.default_rng(j).standard_normal((60, 3)) for j, name in enumerate("ab")}
    with pytest.warns(rp.RPModelsWarning):
        found = stability(rp.RPFA(2, max_iter=20, search=rp.Search(retries=0), n_init=1), noise, n_runs=3)
    assert found.mean < 0.9


def test_states_of_several_runs_are_matched():
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=150)
    x = {name: 6.0 * np.eye(3)[z] + rng.standard_normal((150, 3)) for name in "ab"}
    found = stability(rp.RPCategorical(3, max_iter=60, n_init=1, learning_rate=2e-2), x, n_runs=2)
    assert found.mean > 0.95
    assert (found.latents[0].argmax(1) == found.latents[1].argmax(1)).mean() > 0.95


# ---- comparisons ------------------------------------------------------------------------------------


def test_a_table_is_compared_with_decompositions():
    x, z = views(120, width=3, noise=0.2)
    found = compare_baselines(x, z, estimator=rp.RPFA(1, max_iter=80, n_init=1, learning_rate=2e-2), cv=2)
    assert set(found.values) == {"RPFA", "PCA", "FA", "CCA"}
    for measures in found.values.values():
        assert set(measures) == {"ridge", "knn"}
        assert measures["ridge"].shape == (2,)
        assert measures["ridge"].min() > 0.8
    assert "RPFA" in repr(found)


def test_series_are_compared_with_gpfa_through_the_same_scaling():
    ball = rp.datasets.plain_ball(n_trials=8, n_times=15, random_state=0)
    trials_ = [each[: 12 + n % 3] for n, each in enumerate(ball.x)]
    model = rp.RPGPFA(1, max_iter=15, n_init=1, search=rp.Search(retries=0), n_inducing=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rp.RPModelsWarning)  # so short a fit learns little
        found = compare_baselines(trials_, estimator=model, cv=2, n_seeds=2)
    assert set(found.values) == {"RPGPFA", "PCA", "FA", "PCA, smoothed", "GPFA"}
    np.testing.assert_allclose(found.values["RPGPFA"]["agreement"], 1.0)
    assert found.values["PCA"]["agreement"].shape == (4,)


def test_states_are_compared_with_k_means():
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=120)
    x = {name: 5.0 * np.eye(3)[z] + rng.standard_normal((120, 3)) for name in "ab"}
    model = rp.RPCategorical(3, max_iter=60, n_init=2)
    found = compare_baselines(x, z, estimator=model, cv=2)
    assert set(found.values) == {"RPCategorical", "k-means"}
    assert min(each["accuracy"].min() for each in found.values.values()) > 0.9
    alike = compare_baselines(x, estimator=model, cv=2)  # without labels: the share of equal states
    np.testing.assert_array_equal(alike.values["RPCategorical"]["agreement"], 1.0)
    assert alike.values["k-means"]["agreement"].min() > 0.9


def test_outliers_are_clipped_for_all():
    x = np.random.default_rng(0).standard_normal((50, 2))
    x[0, 0] = 1e6
    bins = scaled_bins(rp.read({"x": x}), np.arange(50))
    assert np.abs(np.concatenate(bins)).max() < 10


@pytest.mark.parametrize(
    ("options", "words"),
    [({"y": np.zeros(5)}, "120 trials"), ({"n_seeds": 0}, "n_seeds"), ({"times": np.arange(5)}, "RPFA takes none")],
)
def test_bad_calls_of_comparisons(options, words):
    with pytest.raises((RPModelsError, ValueError), match=words):
        compare_baselines(views(120, width=3, noise=0.2)[0], **options)
