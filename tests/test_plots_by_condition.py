"""Latents by condition, states, rasters, matrices and overviews: what is drawn against numbers worked out by hand."""

import io
import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

import data
import rpmodels as rp
from registry import ESTIMATORS, made
from rpmodels import plots
from rpmodels.errors import InputError
from rpmodels.estimators import Latents
from test_plots import nothing_global  # noqa: F401 (of every test here)

BRIEF = {"max_iter": 8, "random_state": 0, "n_init": 1, "finish": "none", "retries": 0}
SIDES = ["left", "right", "right", None, "left", "right", "left", "right"]
LEFT, RIGHT = [0, 4, 6], [1, 2, 5, 7]


@pytest.fixture(scope="module")
def trials():
    """Eight of unequal lengths that begin at different times of one clock, with a gap in one of them."""
    random = np.random.default_rng(0)
    lengths, begins = [9, 12, 10, 12, 11, 12, 9, 10], [0, 0, 1, 0, 1, 0, 3, 2]
    values = [random.standard_normal((n, 3)) for n in lengths]
    values[1][4] = np.nan
    return values, [0.02 * (begin + np.arange(n)) for begin, n in zip(begins, lengths, strict=True)]


def bold(axes):
    """The averages, by their names."""
    return {line.get_label(): line for line in axes.lines if line.get_linewidth() == 1.8}


def thin(axes):
    return [line for line in axes.lines if line.get_linewidth() == 0.5]


def small(axes):
    """Marks on the lines of trials."""
    return [each for each in axes.collections if list(each.get_sizes()) == [9]]


def by_hand(trials, members, dimension):
    """{time: its values in these trials}, by a dict of rounded times: no array of the library's."""
    found = {}
    for n in members:
        for value, time in zip(trials[0][n][:, dimension], trials[1][n], strict=True):
            if np.isfinite(value):
                found.setdefault(round(float(time), 6), []).append(value)
    return found


@pytest.mark.parametrize("band", ["se", "sd"])
def test_averages_are_those_of_the_trials_of_a_condition(trials, band):
    values, times = trials
    axes = plots.latents(values, conditions=SIDES, times=times, dimensions=1, band=band)
    assert list(bold(axes)) == ["left", "right"]
    for number, (name, members) in enumerate((("left", LEFT), ("right", RIGHT))):
        known = by_hand(trials, members, 1)
        line = bold(axes)[name]
        drawn = dict(zip(np.round(line.get_xdata(), 6), line.get_ydata(), strict=True))
        assert set(drawn) == set(known)
        enough = {time for time, each in known.items() if len(each) >= len(members) / 2}
        assert {time for time, value in drawn.items() if np.isfinite(value)} == enough
        for time in enough:
            assert drawn[time] == pytest.approx(np.mean(known[time]), abs=1e-12)
        time = next(time for time in sorted(enough) if len(known[time]) == len(members))
        half = np.std(known[time], ddof=1) / (np.sqrt(len(members)) if band == "se" else 1)
        outline = axes.collections[number].get_paths()[0].vertices
        at = outline[np.isclose(outline[:, 0], time), 1]
        assert (at.min(), at.max()) == pytest.approx((drawn[time] - half, drawn[time] + half))
    assert len(thin(axes)) == 7, "the trial without a condition is left out"
    np.testing.assert_array_equal(thin(axes)[0].get_ydata(), values[0][:, 1])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time", "latent 1")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["left", "right"]


def test_paths_in_the_plane_and_in_space(trials):
    values, times = trials
    flat = plots.latents(values, conditions=SIDES, times=times, dimensions=(2, 0))
    np.testing.assert_array_equal(thin(flat)[1].get_xdata(), values[4][:, 2])
    known = [by_hand(trials, RIGHT, k) for k in (2, 0)]
    line = bold(flat)["right"]
    middle = np.isclose(list(known[0]), 0.08).argmax()
    time = sorted(known[0])[sorted(known[0]).index(list(known[0])[middle])]
    place = sorted(known[0]).index(time)
    assert (line.get_xdata()[place], line.get_ydata()[place]) == pytest.approx([np.mean(each[time]) for each in known])
    assert (flat.get_xlabel(), flat.get_ylabel()) == ("latent 2", "latent 0")
    space = plots.latents(values, conditions=SIDES, times=times, dimensions=(0, 1, 2))
    assert space.name == "3d"
    np.testing.assert_array_equal(thin(space)[0].get_data_3d(), values[0].T)
    default = plots.latents(values, times=times)
    assert (default.get_xlabel(), default.get_ylabel()) == ("latent 0", "latent 1")


def test_clocks_that_share_no_grid_are_averaged_along_lines():
    random = np.random.default_rng(1)
    times = [np.sort(random.uniform(0, 10, 40)) for _ in range(3)]
    slopes = np.array([1.0, 2.0, 6.0])
    values = [slope * each[:, None] for slope, each in zip(slopes, times, strict=True)]
    axes = plots.latents(values, times=times)
    line = bold(axes)["average"]
    x, y = line.get_xdata(), line.get_ydata()
    inside = (x > max(each[0] for each in times)) & (x < min(each[-1] for each in times))
    assert inside.sum() > 10
    np.testing.assert_allclose(y[inside], 3.0 * x[inside])
    assert np.diff(x) == pytest.approx(np.diff(x)[0])


def test_a_band_of_the_posterior_and_one_long_recording(trials):
    values, times = trials
    spread = [np.full_like(each, 0.25) for each in values]
    axes = plots.latents(Latents(values, spread, times=times), conditions=SIDES, dimensions=0, band="posterior")
    outline = axes.collections[0].get_paths()[0].vertices
    at = outline[np.isclose(outline[:, 0], 0.08), 1]
    assert at.max() - at.min() == pytest.approx(2 * 2 * 0.5 / np.sqrt(3))
    recording = plots.latents(values[0], times=times[0], dimensions=0)
    np.testing.assert_array_equal(bold(recording)["average"].get_ydata(), values[0][:, 0])
    with pytest.raises(InputError, match="band='posterior'"):
        plots.latents(values, times=times, band="posterior")
    with pytest.raises(InputError, match="expected one of se, sd, posterior, none"):
        plots.latents(values, times=times, band="iqr")


def test_events_are_where_they_happened(trials):
    values, times = trials
    go = np.array([each[3] + 0.01 for each in times])
    go[1] = np.nan
    axes = plots.latents(values, conditions=SIDES, times=times, dimensions=0, events={"cue": 0.1, "go": go})
    (cue,) = [line for line in axes.lines if line.get_linewidth() == 0.9]
    assert cue.get_xdata() == [0.1, 0.1]
    marks = [each.get_offsets()[0] for each in small(axes)]
    assert len(marks) == 6
    np.testing.assert_allclose(marks[0], [go[0], values[0][3:5, 0].mean()])
    assert {"cue", "go"} <= {text.get_text() for text in axes.get_legend().get_texts()}
    flat = plots.latents(values, times=times, events={"cue": times[4][2]})
    at = [each.get_offsets()[0] for each in small(flat)]
    assert any(np.allclose(place, values[4][2, :2]) for place in at)
    with pytest.raises(InputError, match=r"events\['go'\]: expected one time, or one for every trial \(8"):
        plots.latents(values, times=times, events={"go": go[:3]})
    with pytest.raises(InputError, match="events: expected latents along time"):
        plots.latents(values[0], events={"go": 1.0})


def test_many_numbers_are_a_scale_without_averages(trials):
    values, times = [*trials[0], *trials[0]], [*trials[1], *trials[1]]
    speed = np.linspace(1.0, 4.0, 16)
    speed[2] = np.nan
    axes = plots.latents(values, conditions=speed, times=times, dimensions=0, label="speed")
    assert len(axes.lines) == 15
    assert axes.get_figure().axes[1].get_ylabel() == "speed"
    shades = mpl.colormaps["viridis"]
    assert to_hex(axes.lines[0].get_color()) == to_hex(shades(0.0))
    assert to_hex(axes.lines[-1].get_color()) == to_hex(shades(1.0))


FORMS = {
    "list": SIDES,
    "series": pd.Series(SIDES),
    "categories": pd.Categorical(SIDES, categories=["right", "left"]),
    "masks": {"left": np.isin(np.arange(8), LEFT), "right": RIGHT},
    "numbers": [0.0, 1, 1, np.nan, 0, 1, 0, 1],
}


@pytest.mark.parametrize("form", FORMS)
def test_conditions_in_every_form_are_the_same(trials, form):
    values, times = trials
    lines = bold(plots.latents(values, conditions=FORMS[form], times=times, dimensions=0))
    expected = bold(plots.latents(values, conditions=SIDES, times=times, dimensions=0))
    names = {"numbers": ["0", "1"], "categories": ["right", "left"]}.get(form, ["left", "right"])
    assert list(lines) == names
    left = lines["0" if form == "numbers" else "left"]
    np.testing.assert_array_equal(left.get_ydata(), expected["left"].get_ydata())


def test_conditions_that_cannot_be(trials):
    values, times = trials
    draw = lambda conditions, **more: plots.latents(values, conditions=conditions, times=times, **more)  # noqa: E731
    with pytest.raises(InputError, match=r"expected one for every trial, 8 of them .*, got 3"):
        draw(["a", "b", "c"])
    with pytest.raises(InputError, match="got several for a trial"):
        draw(values)
    with pytest.raises(InputError, match="got float"):
        draw(0.5)
    with pytest.raises(InputError, match="none but None and NaN"):
        draw([None] * 8)
    with pytest.raises(InputError, match="order: expected names of conditions, some of 'left', 'right'; got 'up'"):
        draw(SIDES, order=["left", "up"])
    with pytest.raises(InputError, match=r"conditions\['left'\]: expected numbers of trials from 0 to 7"):
        draw({"left": [0, 8]})
    with pytest.raises(InputError, match="conditions='side': expected one for every trial, or the name of a factor"):
        draw("side")
    with pytest.raises(InputError, match="X: expected None, as the latents themselves were given"):
        plots.latents(values, SIDES)
    with pytest.raises(InputError, match="times: expected clocks of 9, 12"):
        plots.latents(values, times=times[1:] + times[:1])
    with pytest.raises(InputError, match="dimensions: expected one to three of 0 to 2"):
        draw(SIDES, dimensions=(0, 3))
    with pytest.raises(InputError, match='expected axes made with projection="3d"'):
        draw(SIDES, dimensions=(0, 1, 2), ax=plt.subplots()[1])
    assert list(bold(draw(SIDES, order=["right"], dimensions=0))) == ["right"]


def test_points_have_their_means_and_shares_have_bars():
    random = np.random.default_rng(2)
    points, side = random.standard_normal((30, 2)), np.arange(30) % 2
    cloud = plots.latents(points, conditions=side)
    means = [each.get_offsets()[0] for each in cloud.collections if len(each.get_offsets()) == 1]
    np.testing.assert_allclose(means, [points[::2].mean(0), points[1::2].mean(0)])
    column = plots.latents(points, conditions=side, dimensions=1)
    np.testing.assert_array_equal(column.collections[0].get_offsets()[:, 1], points[::2, 1])
    assert [each.get_text() for each in column.get_xticklabels()] == ["0", "1"]
    shares = random.dirichlet(np.ones(3), 30)
    bars = plots.latents(Latents(shares, probabilities=shares, states=shares.argmax(1)), conditions=side)
    drawn = [each for each in bars.containers if isinstance(each[0], mpl.patches.Rectangle)]
    heights = [[bar.get_height() for bar in each] for each in drawn]
    np.testing.assert_allclose(heights, [shares[::2].mean(0), shares[1::2].mean(0)])
    assert [each.get_text() for each in bars.get_xticklabels()] == ["state 0", "state 1", "state 2"]


def test_angles_are_averaged_on_the_circle():
    angles = np.array([np.pi - 0.1, -np.pi + 0.1])[:, None]
    axes = plots.latents(Latents(angles, resultant=np.ones((2, 1))))
    (mean,) = [each.get_offsets()[0] for each in axes.collections if len(each.get_offsets()) == 1]
    np.testing.assert_allclose(mean, [-np.cos(0.1), 0.0], atol=1e-12)
    assert axes.get_xlabel() == "cosine of angle 0"


# ---- models --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gpfa():
    random = np.random.default_rng(3)
    X = data.waves((7, 9, 8, 9, 7, 9, 8, 9), 4, period=3, noise=0.3, random=random)
    return made(rp.RPGPFA, 2, n_inducing=4, **BRIEF).fit(X), X


@pytest.fixture(scope="module")
def chain():
    tiny = ESTIMATORS["hmm"]
    X = tiny.data(0)
    return tiny.make().fit(X), X


def test_a_model_is_drawn_by_its_latents(gpfa):
    model, X = gpfa
    Z = model.transform(X)
    axes = plots.latents(model, X, SIDES, dimensions=0)
    mean = bold(axes)["right"].get_ydata()
    np.testing.assert_allclose(mean[:8], np.mean([Z[n][:8, 0] for n in RIGHT], 0), atol=1e-6)
    with pytest.raises(InputError, match=r"plots\.latents: expected data beside the estimator"):
        plots.latents(model)


def test_states_are_rows_in_the_order_of_their_conditions(chain):
    model, X = chain
    sides = np.where(np.arange(len(X)) % 2, "odd", "even")
    axes = plots.states(model, X, sides, order=["odd", "even"])
    found = model.latents(X)
    probable = [np.argmax(each, -1) for each in found.values]
    order = [*range(1, len(X), 2), *range(0, len(X), 2)]
    table = axes.collections[0].get_array().reshape(len(X), -1)
    for row, n in enumerate(order):
        np.testing.assert_array_equal(np.asarray(table[row].compressed(), int), probable[n])
    assert [each.get_text() for each in axes.get_yticklabels()] == ["odd", "even"]
    chosen = plots.latents(model, X, sides)
    k = int(re.fullmatch(r"P\(state (\d+)\)", chosen.get_ylabel()).group(1))
    first = bold(chosen)["odd"].get_ydata()[0]
    assert first == pytest.approx(np.mean([found.values[n][0, k] for n in range(1, len(X), 2)]), abs=1e-6)
    with pytest.raises(InputError, match=r"plots\.states: expected latents with states"):
        plots.states([np.zeros((4, 2))])
    with pytest.raises(InputError, match="latent: expected one of None"):
        plots.states(model, X, latent="a")


def test_a_raster_is_what_was_seen_above_what_was_found(gpfa):
    model, X = gpfa
    gap = [each.copy() for each in X]
    gap[2][3] = np.nan
    axes = plots.raster(model, gap, 2)
    above, beneath = axes.get_figure().axes
    assert axes is above
    seen = axes.collections[0].get_array().reshape(4, -1).T
    np.testing.assert_allclose(np.ma.filled(seen, np.nan), gap[2].astype(np.float32), rtol=1e-6)
    np.testing.assert_allclose(beneath.lines[0].get_ydata(), model.transform(gap)[2][:, 0], atol=1e-6)
    with pytest.raises(InputError, match="trial: expected one from 0 to 7"):
        plots.raster(model, X, 8)
    with pytest.raises(InputError, match="Unknown factor 'probe'"):
        plots.raster(model, X, factor="probe")


def test_a_factor_of_the_data_is_a_condition():
    X, z = data.clusters(40, seed=4)
    X = {**X, "kind": np.array(["cat", "dog", "emu"])[z]}
    model = made(rp.RPCategorical, 3, **BRIEF).fit(X)
    axes = plots.latents(model, X, "kind")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["cat", "dog", "emu"]
    first = axes.containers[1][0].get_height()
    assert first == pytest.approx(model.predict_proba(X)[z == 0, 0].mean(), abs=1e-6)


def test_an_overview_has_what_the_model_can_show(gpfa, chain):
    axes = plots.overview(*gpfa, SIDES, trial=1, events={"cue": 2.0})
    assert list(axes) == ["data", "latents", "plane", "trial", "more latents", "mixture"]
    expected = plots.latents(*gpfa, SIDES, dimensions=1)
    for name, line in bold(expected).items():
        np.testing.assert_array_equal(bold(axes["more latents"])[name].get_ydata(), line.get_ydata())
    figure = axes["data"].get_figure()
    assert figure.get_figwidth() == 7.2
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["left", "right", "cue"]
    states = plots.overview(*chain, np.arange(len(chain[1])) % 2)
    assert list(states) == ["data", "states", "mixture", "trial", "latents", "learning"]
    assert len(states["data"].get_figure().legends) == 2
    assert all(isinstance(each, Axes) for each in states.values())


# ---- agreement and probabilities -----------------------------------------------------------------


def test_consistency_is_the_matrix_or_r_squared_of_sessions():
    random = np.random.default_rng(5)
    z = random.standard_normal((50, 2))
    noisy = z + 0.5 * random.standard_normal((50, 2))
    design = np.column_stack([np.ones(50), noisy])
    residual = z - design @ np.linalg.lstsq(design, z, rcond=None)[0]
    axes = plots.consistency({"monday": noisy, "tuesday": z @ np.array([[0.0, 2.0], [1.0, 0.0]])})
    drawn = axes.images[0].get_array()
    # The columns of tuesday are twice as large, and the other way round.
    explained = 1 - (residual.var(0) * [4, 1]).sum() / (z.var(0) * [4, 1]).sum()
    assert drawn[0, 1] == pytest.approx(explained, abs=1e-6)
    assert drawn.mask.diagonal().all()
    assert [each.get_text() for each in axes.get_yticklabels()] == ["monday", "tuesday"]
    matrix = np.array([[1.0, 0.4, 0.8], [0.5, 1.0, 0.7], [0.9, 0.6, 1.0]])
    plain = plots.consistency(matrix, ["a", "b", "c"])
    np.testing.assert_array_equal(plain.images[0].get_array().data, matrix)
    assert [each.get_text() for each in plain.texts] == ["0.40", "0.80", "0.50", "0.70", "0.90", "0.60"]
    assert plain.get_title() == "mean 0.65"
    for wrong, words in (
        (np.ones((2, 3)), r"shape \(2, 3\)"),
        ({"a": z}, "two sessions or more"),
        ({"a": z, "b": z[:10]}, "same moments"),
    ):
        with pytest.raises(InputError, match=words):
            plots.consistency(wrong)


def test_stability_is_drawn_as_it_is():
    X, _ = data.clusters(40, seed=6)
    found = rp.evaluation.stability(made(rp.RPCategorical, 3, **BRIEF), X, n_runs=2)
    np.testing.assert_array_equal(plots.consistency(found).images[0].get_array().data, found.agreement)


def test_reliability_is_the_share_that_is_right():
    probabilities = np.array([[0.9, 0.1]] * 10 + [[0.35, 0.65]] * 20)
    truth = np.array([0] * 8 + [1] * 2 + [1] * 15 + [0] * 5)
    axes = plots.reliability(probabilities, truth)
    said, right = axes.containers[0].lines[0].get_data()
    assert said == pytest.approx([0.65, 0.9])
    assert right == pytest.approx([0.75, 0.8])
    assert axes.get_title() == f"calibration error {(20 * 0.1 + 10 * 0.1) / 30:.3f}"
    with pytest.raises(InputError, match="add up to 1"):
        plots.reliability(probabilities / 2, truth)
    with pytest.raises(InputError, match="shapes"):
        plots.reliability(probabilities, truth[1:])


# ---- style and names -----------------------------------------------------------------------------


def test_the_style_of_papers_keeps_letters_and_colours_and_leaves_nothing_behind(trials):
    values, times = trials
    with plots.style({"font.size": 9}):
        assert mpl.rcParams["font.size"] == 9
        axes = plots.latents(values, conditions=SIDES, times=times, dimensions=0)
        file = io.BytesIO()
        axes.get_figure().savefig(file, format="pdf")
    assert b"/FontFile2" in file.getvalue()
    assert b"/Type3" not in file.getvalue()
    assert to_hex(bold(axes)["left"].get_color()) == "#3f90da", "also when it is saved outside"


@pytest.mark.parametrize(
    ("guess", "name"),
    [("plot_latents", "latents"), ("loss", "learning_curve"), ("confusion", "confusion_matrix"), ("rasters", "raster"),
     ("stability", "consistency"), ("summary", "overview"), ("tuning_curves", "tuning"), ("latent", "latents")],
)  # fmt: skip
def test_names_that_one_may_guess(guess, name):
    assert getattr(plots, guess) is getattr(plots, name)


def test_a_guess_that_is_none_is_told_what_is_near():
    with pytest.raises(AttributeError, match="did you mean trajectories"):
        _ = plots.trajectorys
    with pytest.raises(AttributeError, match="has their names"):
        _ = plots.zebra
    assert not hasattr(plots, "__wrapped__")
