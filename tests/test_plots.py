"""Plots draw what they say: their lines and bars against numbers worked out independently."""

from types import SimpleNamespace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from scipy.stats import norm

import rpmodels as rp
from data import views
from registry import made
from rpmodels import plots
from rpmodels.errors import InputError
from rpmodels.estimators import Latents
from rpmodels.evaluation import Gap, GapRow, overviews

BRIEF = {"max_iter": 12, "random_state": 0, "n_init": 2, "finish": "none"}


def labelled(axes):
    return dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))


@pytest.fixture(scope="module")
def table():
    return views(latents=2, width=3, noise=0.3)[0]


@pytest.fixture(scope="module")
def factor_analysis(table):
    return made(rp.RPFA, 2, covariance="full", retries=0, **BRIEF).fit(table)


@pytest.fixture(scope="module")
def categorical(table):
    labels = np.where(table["a"][:, 0] > 0, "up", "down")
    return made(rp.RPCategorical, 3, prior="learned", **BRIEF).fit({**table, "label": labels})


@pytest.fixture(scope="module")
def series():
    return rp.datasets.plain_ball(n_trials=5, n_times=12, n_pixels=6, random_state=0)


@pytest.fixture(scope="module")
def gpfa(series):
    halves = {"left": slice(0, 3), "right": slice(3, 6)}
    model = made(rp.RPGPFA, 2, factors=halves, targets={"right": (1,)}, atoms="per_time", retries=0, **BRIEF)
    return model.fit(series.x, times=series.times)


@pytest.fixture(autouse=True)
def nothing_global():
    """No figure is left open by the library beyond the test's own, and no setting changes."""
    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before


# ---- training ----------------------------------------------------------------------------------


def test_a_learning_curve_is_the_history(factor_analysis):
    history = factor_analysis.history_
    for source in (factor_analysis, history, dict(history)):
        lines = labelled(plots.learning_curve(source))
        for name in ("free energy", "prior", "recognition", "mixture"):
            np.testing.assert_array_equal(lines[name].get_xdata(), history["step"])
            np.testing.assert_array_equal(lines[name].get_ydata(), history[name.replace(" ", "_")])
        assert "parameters" not in lines
        assert any("ceiling" in name for name in lines) == (source is factor_analysis)


def test_a_ceiling_that_is_asked_for_is_in_sight_and_the_models_own_leaves_the_curves_their_room(factor_analysis):
    history = factor_analysis.history_
    asked = plots.learning_curve(history, ceiling=1e4)
    assert asked.get_ylim()[1] >= 1e4
    np.testing.assert_array_equal(labelled(asked)["ceiling 1e+04"].get_ydata(), [1e4, 1e4])
    score = SimpleNamespace(ceiling=1e4)
    own = plots.learning_curve(SimpleNamespace(history_=history, score_=score))
    assert own.get_ylim()[1] < 100
    assert "ceiling 1e+04 (above)" in labelled(own)
    none = plots.learning_curve(SimpleNamespace(history_=history, score_=SimpleNamespace(ceiling=np.inf)))
    assert not any("ceiling" in name for name in labelled(none))


def test_a_trained_model_and_variational_bayes_have_learning_curves(table):
    model = rp.RPCategorical(2, prior=1.0, max_iter=3, n_init=1, random_state=0).fit(table)
    lines = labelled(plots.learning_curve(model))
    np.testing.assert_array_equal(lines["parameters"].get_ydata(), model.history_["parameters"])
    rpm = rp.RPM(rp.priors.CategoricalPrior.uniform(2), {n: rp.recognition.MLP((3,), 2) for n in "ab"})
    fitted = rp.train(rpm, rp.read(table), max_iter=3)
    assert len(labelled(plots.learning_curve(fitted))["free energy"].get_xdata()) == 3


def attempt(kind, seed, *values, again=False):
    return SimpleNamespace(kind=kind, seed=seed, free_energies=list(values), again=again)


def test_restarts_stand_at_the_comparison_where_they_were_judged():
    every = [
        attempt("as given", 10, 0.1),
        attempt("random", 20, 0.3, 0.5, 0.7, 0.8),
        attempt("random", 30, -np.inf),
        attempt("random + move", 21, 0.9, 1.1),
        attempt("random + move + move", 23, 1.0),
    ]
    axes = plots.restarts(every)
    lines = labelled(axes)
    assert list(lines) == ["1: as given", "2: random", "4: random + move", "5: random + move + move"]
    places = {name: line.get_xdata().tolist() for name, line in lines.items()}
    assert list(places.values()) == [[1], [1, 2, 3, 4], [4, 5], [5]]
    assert lines["2: random"].get_ydata().tolist() == [0.3, 0.5, 0.7, 0.8]
    widths = {name: line.get_linewidth() for name, line in lines.items()}
    assert max(widths, key=widths.get) == "4: random + move"


def test_restarts_of_a_fit_and_of_a_single_start(factor_analysis):
    lines = labelled(plots.restarts(factor_analysis))
    kept = [each.free_energies for each in factor_analysis.restarts_ if each.free_energies]
    assert [line.get_ydata().tolist() for line in lines.values()] == kept
    alone = plots.restarts([attempt("as given", 1)])
    assert "one start only" in alone.texts[0].get_text()


def test_scores_are_bars_up_to_their_ceilings(factor_analysis, table):
    held_out = factor_analysis.score(table)
    axes = plots.score_ceiling({"training": factor_analysis, "new": held_out})
    ceilings, scores = ([bar.get_width() for bar in each] for each in axes.containers)
    assert ceilings == pytest.approx([factor_analysis.score_.ceiling, held_out.ceiling])
    assert scores == pytest.approx([float(factor_analysis.score_), float(held_out)])
    assert labelled(axes)["median"].get_xdata() == pytest.approx([factor_analysis.score_.median, held_out.median])
    assert [each.get_text() for each in axes.get_yticklabels()] == ["training", "new"]
    assert plots.score_ceiling(factor_analysis).get_yticklabels()[0].get_text() == "RPFA"
    with pytest.raises(InputError, match=r"scores\['score'\]: expected a Score or a fitted estimator"):
        plots.score_ceiling(0.3)


# ---- latents -----------------------------------------------------------------------------------


def band(axes, number=0):
    vertices = axes.collections[number].get_paths()[0].vertices
    return vertices[:, 1].min(), vertices[:, 1].max()


def test_trajectories_are_the_posterior_of_one_trial(gpfa, series):
    posterior = gpfa.posterior(series.x, times=series.times + 0.0)
    axes = plots.trajectories(posterior, trial=3)
    lines = labelled(axes)
    np.testing.assert_array_equal(lines["latent 1"].get_ydata(), posterior.mean[3, :, 1])
    np.testing.assert_array_equal(lines["latent 0"].get_xdata(), series.times)
    sd = np.sqrt(posterior.variance[3, :, 1])
    limits = (posterior.mean[3, :, 1] - 2 * sd).min(), (posterior.mean[3, :, 1] + 2 * sd).max()
    assert band(axes, 1) == pytest.approx(limits, rel=1e-5)
    one = plots.trajectories(posterior, trial=3, latents=[1])
    assert one.get_ylabel() == "latent 1"
    np.testing.assert_array_equal(labelled(one)["posterior mean"].get_ydata(), posterior.mean[3, :, 1])


def test_trajectories_of_arrays_and_lists_with_their_truth(series):
    variance = np.full_like(series.z, 0.04)
    axes = plots.trajectories(series.z + 1, variance, truth=series.z, trial=2)
    lines = labelled(axes)
    np.testing.assert_array_equal(lines["truth"].get_ydata(), series.z[2, :, 0])
    np.testing.assert_array_equal(lines["posterior mean"].get_ydata(), series.z[2, :, 0] + 1)
    assert band(axes) == pytest.approx((series.z[2].min() + 0.6, series.z[2].max() + 1.4))
    short = [each[: 5 + n] for n, each in enumerate(series.z)]
    clocks = [10.0 + np.arange(5 + n) for n in range(5)]
    listed = plots.trajectories(short, [np.ones_like(each) for each in short], times=clocks, trial=4)
    np.testing.assert_array_equal(labelled(listed)["posterior mean"].get_xdata(), clocks[4])
    flat = plots.trajectories(np.arange(4.0), np.ones(4), times=[0.0, 2.0, 4.0, 6.0])
    np.testing.assert_array_equal(labelled(flat)["posterior mean"].get_xdata(), [0, 2, 4, 6])
    with pytest.raises(InputError, match="variance: expected one for every mean"):
        plots.trajectories(series.z)


def test_clouds_have_a_colour_bar_for_numbers_and_a_legend_for_groups(factor_analysis, table):
    posterior = factor_analysis.posterior(table)
    covariate = table["a"][:, 0]
    axes = plots.latents_2d(posterior, covariate, label="weight (g)", dimensions=(1, 0))
    cloud = axes.collections[0]
    np.testing.assert_array_equal(cloud.get_offsets(), posterior.mean[:, ::-1])
    np.testing.assert_array_equal(cloud.get_array(), covariate)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("latent 1", "latent 0")
    assert axes.get_figure().axes[1].get_ylabel() == "weight (g)"
    words = np.where(covariate > 0, "up", "down")
    groups = labelled(plots.latents_2d(posterior.mean, words, label="side"))
    np.testing.assert_array_equal(groups["up"].get_offsets(), posterior.mean[words == "up"])
    assert set(groups) == {"up", "down"}
    assert len(labelled(plots.latents_2d(posterior.mean, np.arange(60) % 3))) == 3
    assert not labelled(plots.latents_2d(posterior.mean, np.arange(60)))
    assert not plots.latents_2d(posterior).get_legend_handles_labels()[0]


def test_clouds_in_space_and_of_trials():
    random = np.random.default_rng(0)
    trials = [random.standard_normal((n, 4)) for n in (3, 5)]
    axes = plots.latents_3d(trials, [np.arange(3) / 2, np.arange(5) / 2], dimensions=(3, 0, 1))
    assert axes.name == "3d"
    points = np.concatenate(trials)[:, [3, 0, 1]]
    np.testing.assert_allclose(np.array(axes.collections[0]._offsets3d).T, points)
    assert axes.get_zlabel() == "latent 1"
    flat = plots.latents_2d(random.standard_normal((4, 5, 2)), np.zeros((4, 5)))
    assert len(flat.collections[0].get_offsets()) == 20
    with pytest.raises(InputError, match="colour: expected 8 values"):
        plots.latents_3d(trials, np.arange(7))
    with pytest.raises(InputError, match="latents from 0 to 3"):
        plots.latents_2d(trials, dimensions=(0, 4))
    with pytest.raises(InputError, match="dimensions: expected 2 of them"):
        plots.latents_2d(trials, dimensions=(0, 1, 2))
    with pytest.raises(InputError, match='projection="3d"'):
        plots.latents_3d(trials, ax=plt.subplots()[1])


# ---- factors and posterior ---------------------------------------------------------------------


def test_densities_of_the_factors_and_the_posterior(factor_analysis, table):
    axes = plots.factors_and_posterior(factor_analysis, table, 7, latent=1)
    lines = labelled(axes)
    assert {"prior", "factor a", "factor b", "posterior"} == set(lines)
    posterior = factor_analysis.posterior(table)
    expected = {"posterior": (posterior.mean[7, 1], posterior.variance[7, 1])}
    for name in "ab":
        mean, covariance = factor_analysis.recognise(table[name], name)
        expected[f"factor {name}"] = mean[7, 1], covariance[7, 1, 1]
    for name, (mean, variance) in expected.items():
        z, density = lines[name].get_data()
        np.testing.assert_allclose(density, norm.pdf(z, mean, np.sqrt(variance)), rtol=1e-3, atol=1e-5)


def test_bars_of_the_factors_and_the_posterior(categorical, table):
    X = {"a": table["a"], "label": np.array(["up", "down"] * 30)}
    axes = plots.factors_and_posterior(categorical, X, 4)
    heights = {each.get_label(): [bar.get_height() for bar in each] for each in axes.containers}
    assert list(heights) == ["factor a", "factor label", "posterior"]  # b is absent
    assert heights["posterior"] == pytest.approx(categorical.predict_proba(X)[4], abs=1e-6)
    assert heights["factor a"] == pytest.approx(categorical.recognise(X["a"], "a")[4], abs=1e-6)


def test_paths_of_the_factors_and_the_posterior(gpfa, series):
    presence = {"left": np.arange(12)[None] + np.arange(5)[:, None] != 6}
    axes = plots.factors_and_posterior(gpfa, series.x, 2, latent=0, times=series.times, presence=presence)
    lines = labelled(axes)
    assert set(lines) == {"factor left ± 2 sd", "posterior ± 2 sd"}  # the right half speaks of latent 1 only
    posterior = gpfa.posterior(series.x, times=series.times, presence=presence)
    np.testing.assert_allclose(lines["posterior ± 2 sd"].get_ydata(), posterior.mean[2, :, 0], rtol=1e-5)
    drawn = lines["factor left ± 2 sd"].lines[0].get_ydata()
    mean = gpfa.recognise(series.x[..., :3], "left", times=series.times)[0][2, :, 0]
    assert np.flatnonzero(np.isnan(drawn)).tolist() == [4]
    np.testing.assert_allclose(np.delete(drawn, 4), np.delete(mean, 4), rtol=1e-4)
    assert len(labelled(plots.factors_and_posterior(gpfa, series.x, latent=1, times=series.times))) == 3
    with pytest.raises(InputError, match="observation: expected one from 0 to 4"):
        plots.factors_and_posterior(gpfa, series.x, 5, times=series.times)


# ---- diagnostics -------------------------------------------------------------------------------


def direct_mixture(model, factor, latent, site, z):
    """F_j at z as a plain average of normals, from the atoms themselves."""
    atoms = model.model_.atoms(factor)
    eta = atoms.reference[site % len(atoms.reference)] + atoms.g[site % len(atoms.g)]
    mean = atoms.family.moments(eta)[0][:, latent]
    variance = torch.diagonal(atoms.family.covariance(eta), dim1=-2, dim2=-1)[:, latent]
    return np.mean([norm.pdf(z, float(m), float(v) ** 0.5) for m, v in zip(mean, variance, strict=True)], axis=0)


def test_a_mixture_is_a_density_and_that_of_its_atoms(factor_analysis):
    for factor, latent in (("a", 0), ("b", 1)):
        lines = labelled(plots.mixture_against_prior(factor_analysis, factor, latent))
        z, density = lines[f"mixture of factor {factor}"].get_data()
        assert np.trapezoid(density, z) == pytest.approx(1, abs=1e-4)
        np.testing.assert_allclose(density, direct_mixture(factor_analysis, factor, latent, 0, z), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(lines["prior"].get_ydata(), norm.pdf(z), rtol=1e-4, atol=1e-6)


def test_a_mixture_per_time_and_its_average(gpfa):
    sites = []
    for site in range(12):
        axes = plots.mixture_against_prior(gpfa, "right", 1, site)
        z, density = labelled(axes)["mixture of factor right"].get_data()
        np.testing.assert_allclose(density, direct_mixture(gpfa, "right", 0, site, z), rtol=1e-4, atol=1e-6)
        sites.append((z, density))
    assert axes.get_title() == "site 11 (time 11)"
    z, average = labelled(plots.mixture_against_prior(gpfa, "right", 1))["mixture of factor right"].get_data()
    assert np.trapezoid(average, z) == pytest.approx(1, abs=1e-4)
    each = [np.interp(z, *site, left=0, right=0) for site in sites]
    np.testing.assert_allclose(average, np.mean(each, axis=0), atol=5e-3)
    with pytest.raises(InputError, match=r"latent: expected one of those that factor 'right' speaks of, \(1,\)"):
        plots.mixture_against_prior(gpfa, "right", 0)
    with pytest.raises(InputError, match="site: expected None, or one from 0 to 11"):
        plots.mixture_against_prior(gpfa, "left", 0, 12)


def test_the_prior_of_absolute_factors_is_not_what_they_are_relative_to(series):
    settings = {"head": "absolute", "e_step": "free", "atoms": "pooled", "retries": 0, "n_init": 1, "max_iter": 4}
    model = made(rp.RPGPFA, 1, random_state=0, **settings).fit(series.x, times=series.times)
    lines = labelled(plots.mixture_against_prior(model, "x"))
    z, density = lines["prior"].get_data()
    np.testing.assert_allclose(density, norm.pdf(z), rtol=1e-3, atol=1e-6)
    z, density = lines["mixture of factor x"].get_data()
    assert np.trapezoid(density, z) == pytest.approx(1, abs=1e-3)


def test_weights_count_in_a_mixture(table):
    weights = np.r_[np.zeros(30), np.ones(30)]
    model = made(rp.RPFA, 2, retries=0, **BRIEF).fit(table, sample_weight=weights)
    z, density = labelled(plots.mixture_against_prior(model, "a"))["mixture of factor a"].get_data()
    mean, covariance = (each[30:] for each in model.recognise(table["a"], "a"))
    expected = norm.pdf(z[:, None], mean[:, 0], np.sqrt(covariance[:, 0, 0])).mean(1)
    np.testing.assert_allclose(density, expected, rtol=1e-3, atol=1e-5)


def test_a_mixture_of_states_is_the_average_recognition(categorical, table):
    axes = plots.mixture_against_prior(categorical, "a")
    heights = [bar.get_height() for bar in axes.containers[0]]
    assert heights == pytest.approx(categorical.recognise(table["a"], "a").mean(0), abs=1e-6)
    prior = [segment[0, 1] for segment in labelled(axes)["prior"].get_segments()]
    assert prior == pytest.approx(categorical.prior_, abs=1e-6)
    with pytest.raises(InputError, match="nothing"):
        plots.mixture_against_prior(categorical, "nothing")


def test_calibration_is_the_coverage_at_every_level():
    random = np.random.default_rng(0)
    mean, variance = random.standard_normal((40, 5, 2)), random.uniform(0.5, 2, (40, 5, 2))
    truth = mean + 1.3 * np.sqrt(variance) * random.standard_normal(mean.shape)
    lines = labelled(plots.calibration(mean, variance, truth))
    levels, shares = lines["intervals"].get_data()
    np.testing.assert_allclose(levels, np.linspace(0.05, 0.95, 19))
    assert shares == pytest.approx([rp.metrics.coverage(mean, variance, truth, float(level)) for level in levels])
    assert (shares < levels)[5:].all()  # too narrow
    np.testing.assert_array_equal(*lines["as it should be"].get_data())
    with pytest.raises(InputError, match="one shape"):
        plots.calibration(mean, variance, truth[0])
    with pytest.raises(InputError, match="variances > 0"):
        plots.calibration(mean, 0 * variance, truth)


def test_the_null_of_a_shuffle_test(factor_analysis, table):
    test = rp.evaluation.shuffle_test(factor_analysis, table, n_shuffles=9)
    axes = plots.shuffle_null(test)
    assert sum(bar.get_height() for bar in axes.containers[0]) == 9
    (line,) = axes.lines
    np.testing.assert_array_equal(line.get_xdata(), [test.score, test.score])
    assert f"p = {test.p_value:.2g}" in line.get_label()
    assert "p = 0.2" in plots.shuffle_null(2.0, [1.0, 1.5, 0.5, 1.0]).lines[0].get_label()


def test_a_confusion_matrix_has_rows_that_sum_to_one():
    table = np.array([[8, 2], [1, 3], [0, 0]])
    axes = plots.confusion_matrix(table)
    np.testing.assert_allclose(axes.images[0].get_array(), [[0.8, 0.2], [0.25, 0.75], [0, 0]])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("state", "class")


# ---- all of them -------------------------------------------------------------------------------


@pytest.fixture
def population():
    counts = np.random.default_rng(0).poisson(1.0, (20, 8, 8)).astype(float)
    return rp.RPGPFA(1, random_state=0, max_iter=2).fit(counts), counts


def chain_latents():
    shares = np.random.default_rng(0).dirichlet(np.ones(3), (4, 6))
    return Latents(shares, probabilities=shares, states=shares.argmax(-1), times=np.arange(6))


@pytest.fixture
def calls(factor_analysis, categorical, table, series, population):
    z = series.z[0]
    return {
        "belonging": (overviews(*population)[0],),
        "calibration": (series.z, np.ones_like(series.z), series.z + 1),
        "confusion_matrix": (np.eye(12),),
        "consistency": (np.eye(3) + 0.1,),
        "factors_and_posterior": (factor_analysis, table),
        "gap": (Gap((GapRow("this fit", 1.0, 0.1, 2.0, 10, False, 1.0, ""),)),),
        "latent_recovery": (series.times, z, np.ones_like(z), z),
        "latents": (series.z, None, ["a", "b", "a", "b", "a"]),
        "latents_2d": (table["a"], table["a"][:, 0]),
        "latents_3d": (table["a"], table["a"][:, 0]),
        "learning_curve": (factor_analysis,),
        "mixture_against_prior": (categorical, "b"),
        "raster": population,
        "rates": population,
        "reliability": (np.full((4, 2), 0.5), np.arange(4) % 2),
        "restarts": (factor_analysis,),
        "score_ceiling": (factor_analysis,),
        "shuffle_null": (1.0, np.arange(5.0)),
        "states": (chain_latents(),),
        "trajectories": (z, np.ones_like(z)),
        "trial_image": (series.x[0], series.times),
        "tuning": population[:1],
    }


@pytest.mark.parametrize("name", sorted(set(plots.__all__) - {"overview", "style"}))
def test_axes_come_back_labelled_and_nothing_is_shown(name, calls, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *_: pytest.fail("show was called"))
    draw = getattr(plots, name)
    new = draw(*calls[name])
    assert isinstance(new, Axes)
    assert new.get_xlabel() or name == "raster"
    assert new.get_ylabel() or name in ("gap", "rates", "score_ceiling")
    assert len(plt.get_fignums()) == 1
    given = plt.figure().add_subplot(projection="3d" if name == "latents_3d" else None)
    assert draw(*calls[name], ax=given) is given
    assert given.has_data()
    assert len(plt.get_fignums()) == 2
    given.get_figure(root=True).canvas.draw()
