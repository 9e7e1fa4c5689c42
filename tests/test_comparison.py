"""Decoders, alignment, stability and comparisons, against numbers that are known."""

import sys
import types
import warnings
from importlib.machinery import ModuleSpec

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold

import rpmodels as rp
from data import views
from rpmodels.errors import MissingPackageError, RPModelsError
from rpmodels.evaluation import (
    Decoder,
    TrialFolds,
    align_latents,
    align_states,
    compare_baselines,
    decode,
    stability,
)
from rpmodels.evaluation.clusterings import (
    CanonicalClusters,
    Clusters,
    GaussianHMM,
    MixtureOfComponents,
    WeightedClusters,
)
from rpmodels.evaluation.comparison import scaled_bins
from rpmodels.evaluation.decoding import READINGS
from rpmodels.evaluation.methods import WIDTHS, ContrastOverTime, Smoothed


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
    noise = {name: np.random.default_rng(j).standard_normal((100, 2)) for j, name in enumerate("ab")}
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
    brief = {"search": rp.Search(retries=0), "training": rp.Training(finish="none")}
    model = rp.RPFA(1, max_iter=80, n_init=1, learning_rate=2e-2, **brief)
    found = compare_baselines(x, z, estimator=model, cv=2)
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
    assert set(found.values) == {"RPGPFA", "PCA", "FA", "PCA, smoothed", "FA, smoothed", "GPFA"}
    np.testing.assert_allclose(found.values["RPGPFA"]["agreement"], 1.0)
    assert found.values["PCA"]["agreement"].shape == (4,)


def test_states_are_compared_with_k_means():
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=120)
    x = {name: 5.0 * np.eye(3)[z] + rng.standard_normal((120, 3)) for name in "ab"}
    model = rp.RPCategorical(3, max_iter=30, n_init=1, training=rp.Training(finish="none"))
    found = compare_baselines(x, z, estimator=model, cv=2)
    peers = {"k-means", "Gaussian mixture", "k-means, weighted", "CCA, k-means"}
    assert set(found.values) == {"RPCategorical", *peers}
    assert min(each["accuracy"].min() for each in found.values.values()) > 0.9
    alike = compare_baselines(x, estimator=model, cv=2)  # without labels: the share of equal states
    np.testing.assert_array_equal(alike.values["RPCategorical"]["agreement"], 1.0)
    assert alike.values["k-means"]["agreement"].min() > 0.9


# ---- what is chosen by behaviour ----------------------------------------------------------------------


def slow_then_fast(seed=0):
    """Trials whose behaviour is slow, behind white noise, but for the last six: there it is what every bin says."""
    random = np.random.default_rng(seed)
    x, y = [], []
    for number in range(24):
        noise = random.standard_normal((60, 4))
        slow = 3.0 * gaussian_filter1d(random.standard_normal(60), 8.0)
        x.append(slow[:, None] + noise)
        y.append(slow[:, None] if number < 18 else x[-1][:, :1])
    return x, y, np.arange(18), np.arange(18, 24)


def by_hand(width, x, y, known, new, kind):
    """PCA of smoothed bins, fitted on some trials and read on others, written once more."""
    bins = [gaussian_filter1d(each, width, axis=0) if width else each for each in x]
    model = PCA(1).fit(np.concatenate([bins[n] for n in known]))
    z = [model.transform(each) for each in bins]
    decoder = Decoder(kind).fit([z[n] for n in known], [y[n] for n in known])
    return decoder.score([z[n] for n in new], [y[n] for n in new])


def test_smoothing_is_chosen_on_training_trials_alone():
    x, y, known, new = slow_then_fast()

    class OneFold:
        def split(self, X, y=None, groups=None):
            yield known, new

    bins = scaled_bins(rp.read({"x": x}, series=True), known)
    inner = [(known[a], known[b]) for a, b in KFold(3, shuffle=True, random_state=0).split(known)]
    model = rp.RPGPFA(1, max_iter=2, n_init=1, search=rp.Search(retries=0), n_inducing=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rp.RPModelsWarning)  # so short a fit learns nothing
        found = compare_baselines(x, y, estimator=model, cv=OneFold(), methods=["PCA, smoothed"]).values
    assert list(found) == ["RPGPFA", "PCA, smoothed"]
    for kind in ("ridge", "knn"):
        inside = [np.mean([by_hand(width, bins, y, *each, kind) for each in inner]) for width in WIDTHS]
        outside = [by_hand(width, bins, y, known, new, kind) for width in WIDTHS]
        assert np.argmax(outside) < np.argmax(inside)  # who looks at the test would choose otherwise
        assert found["PCA, smoothed"][kind][0] == pytest.approx(outside[int(np.argmax(inside))], abs=1e-6)


def test_every_reading_has_a_width_of_its_own():
    x, y, known, _ = slow_then_fast()
    bins, behaviour = ([each[n] for n in known] for each in (x, y))
    readings = {"slow": READINGS["ridge"], "upside down": lambda *parts: -READINGS["ridge"](*parts)}
    chosen = Smoothed("PCA, smoothed", PCA).chosen(bins, behaviour, readings, 1, 0)
    assert chosen["slow"].smoothing >= 5.0
    assert chosen["upside down"].smoothing == 0.0


def test_labels_too_few_to_choose_by_are_no_failure():
    x, *_ = slow_then_fast()
    labels = [np.array(["a", "b"])[[n % 2]] for n in range(4)]
    chosen = Smoothed("PCA, smoothed", PCA).chosen([each[:1] for each in x[:4]], labels, READINGS, 1, 0)
    assert {each.smoothing for each in chosen.values()} == {5.0}


# ---- who is asked for -------------------------------------------------------------------------------


def test_only_what_is_asked_for_is_computed(monkeypatch, capsys):
    x, z = views(60, width=3, noise=0.2)
    monkeypatch.setattr("rpmodels.evaluation.methods.Canonical.latents", None)
    model = rp.RPFA(1, max_iter=2, n_init=1, search=rp.Search(retries=0), training=rp.Training(finish="none"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rp.RPModelsWarning)
        for asked in (["RPFA", "FA"], "FA"):
            assert list(compare_baselines(x, z, estimator=model, cv=2, methods=asked).values) == ["RPFA", "FA"]
        assert "compare_baselines" not in capsys.readouterr().err
        found = compare_baselines(x, z, estimator=model, cv=2, n_seeds=2, methods=[], verbose=1)
    assert list(found.values) == ["RPFA"]
    assert "/4 [" in capsys.readouterr().err


def test_unknown_methods_are_told_what_there_is():
    x, _ = views(20, width=3)
    with pytest.raises(RPModelsError, match=r"methods: expected one of PCA, FA, .*GPFA, .*CCA; got 'UMAP'"):
        compare_baselines(x, estimator=rp.RPFA(1), methods=["PCA", "UMAP"])
    with pytest.raises(RPModelsError, match=r"methods: expected one of k-means, .*; got 'PCA'"):
        compare_baselines(x, estimator=rp.RPCategorical(2), methods=["PCA"])


def test_what_the_data_are_not_fit_for_is_refused():
    model = rp.RPFA(1, max_iter=2, n_init=1, search=rp.Search(retries=0), training=rp.Training(finish="none"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rp.RPModelsWarning)
        with pytest.raises(RPModelsError, match=r"methods: expected one of PCA, FA, CCA; got 'GPFA'"):
            compare_baselines(views(20, width=3)[0], estimator=model, methods=["GPFA"])


# ---- single methods ---------------------------------------------------------------------------------


class FakeCEBRA:
    """Remembers what it was told, and embeds by the first columns."""

    def __init__(self, output_dimension, max_iterations, **options):
        self.size, self.steps, self.options = output_dimension, max_iterations, options

    def fit(self, x):
        FakeCEBRA.last, self.seen = self, len(x)

    def transform(self, x):
        return x[:, : self.size]


def test_contrast_over_time_where_it_is_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "cebra", None)
    with pytest.raises(MissingPackageError, match="CEBRA-time needs the package cebra"):
        compare_baselines(trials()[0], estimator=rp.RPGPFA(1), methods=["CEBRA-time"])
    package = types.ModuleType("cebra")
    package.CEBRA, package.__spec__ = FakeCEBRA, ModuleSpec("cebra", None)
    monkeypatch.setitem(sys.modules, "cebra", package)
    x, _ = trials()
    found = ContrastOverTime().latents(x[:5], x, 2, 0).values
    assert FakeCEBRA.last.steps == 5_000
    assert FakeCEBRA.last.seen == sum(map(len, x[:5]))
    assert FakeCEBRA.last.options["conditional"] == "time"
    assert [each.shape for each in found] == [(len(each), 2) for each in x]


def right(method, x, z, size):
    """Share of held-out rows in the right state, half of the trials being learnt from."""
    half = len(x) // 2
    states = method.latents(x[:half], x, size, 0).states
    matching = rp.metrics.match_states(np.concatenate(z[:half]), np.concatenate(states[:half]), size)
    return float((matching[np.concatenate(states[half:])] == np.concatenate(z[half:])).mean())


def rows_of(z, random, narrow, wide):
    """Two factors side by side: one narrow and clear, one wide with clusters of its own."""
    own = random.integers(3, size=len(z))
    sides = [3.0 * np.eye(3)[z], 2.0 * np.eye(3)[own].repeat(wide // 3, 1)]
    joined = np.concatenate(sides, 1)
    return list((joined + narrow * random.standard_normal(joined.shape))[:, None]), list(z[:, None])


def test_a_wide_factor_does_not_drown_a_narrow_one_that_weighs_the_same():
    random = np.random.default_rng(0)
    x, z = rows_of(random.integers(3, size=400), random, 0.3, 30)
    assert right(Clusters("k-means"), x, z, 3) < 0.6
    assert right(WeightedClusters([3, 30]), x, z, 3) > 0.95


def test_canonical_variates_leave_out_what_one_factor_has_for_itself():
    random = np.random.default_rng(0)
    z, own = random.integers(3, size=(2, 600))
    one = np.concatenate([np.eye(3)[z], 4.0 * np.eye(3)[own]], 1)
    x = np.concatenate([one, np.eye(3)[z]], 1)
    x = list((x + 0.2 * random.standard_normal(x.shape))[:, None])
    assert right(Clusters("k-means"), x, list(z[:, None]), 3) < 0.6
    assert right(CanonicalClusters([6, 3]), x, list(z[:, None]), 3) > 0.95


def test_a_mixture_knows_long_clusters():
    random = np.random.default_rng(0)
    z = random.integers(2, size=600)
    x = random.standard_normal((600, 2)) * [2.0, 0.3] + np.outer(z, [1.0, 2.5])
    x, z = list(x[:, None]), list(z[:, None])
    assert right(Clusters("k-means"), x, z, 2) < 0.85
    assert right(MixtureOfComponents(), x, z, 2) > 0.95


def test_a_hidden_markov_model_uses_what_came_before():
    pytest.importorskip("hmmlearn")
    random = np.random.default_rng(0)
    z = [np.cumsum(random.random(200) < 0.05) % 3 for _ in range(8)]
    x = [1.6 * np.eye(3)[each] + random.standard_normal((200, 3)) for each in z]
    assert right(GaussianHMM(), x, z, 3) > right(Clusters("k-means"), x, z, 3) + 0.1


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
