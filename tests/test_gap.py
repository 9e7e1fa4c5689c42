"""The gap of a fit to the best that is known: what is in its rows, against fits made by hand."""

import copy
import math
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt

import rpmodels as rp
from data import clusters, waves
from rpmodels import plots
from rpmodels.errors import InputError, RPModelsError
from rpmodels.evaluation import Gap, GapRow, gap
from rpmodels.seeding import spawn

X = clusters(120, distance=1.5)[0]


def states(max_iter, **options):
    """With a hidden layer, so that nothing but steps brings it near its optimum."""
    given = {"network": "mlp", "learning_rate": 1e-2, "n_init": 1, "random_state": 0, **options}
    return rp.RPCategorical(3, max_iter=max_iter, **given)


def row(name, score, **options):
    plain = {
        "standard_error": 0.0,
        "ceiling": 2.0,
        "steps": 10,
        "converged": True,
        "seconds": 1.0,
        "stop_reason": "end",
    }
    return GapRow(name, score, **{**plain, **options})


@pytest.fixture(scope="module")
def short():
    return gap(states(3), X, n_runs=2)


@pytest.fixture
def known():
    """A gap whose numbers are plain; the longer fit is below the best, and above all seeds but one."""
    longer = row("longer", 1.25, steps=100)
    return Gap((row("this fit", 1.0, converged=False), longer, row("other seed", 0.5), row("other seed", 2.0)))


@pytest.fixture
def fits(monkeypatch):
    """Estimators that were fitted, in their order."""
    every, fit = [], rp.RPCategorical.fit
    monkeypatch.setattr(rp.RPCategorical, "fit", lambda self, *a, **o: every.append(self) or fit(self, *a, **o))
    return every


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


# ---- numbers ----------------------------------------------------------------------------------------


def test_numbers_are_those_of_the_rows(known):
    assert known.best == 2.0
    assert known.nats == 1.0
    assert known.percent == 50.0
    assert known.spread == 1.5


def test_the_longer_fit_counts_in_the_best_and_not_in_the_spread(known):
    without = Gap((replace(known.rows[0]), replace(known.rows[1], score=3.0), *known.rows[2:]))
    assert (without.best, without.nats, without.spread) == (3.0, 2.0, 1.5)


def test_a_fit_that_is_the_best_has_no_gap(known):
    first = Gap((replace(known.rows[0], score=2.5), *known.rows[1:]))
    assert (first.nats, first.percent) == (0.0, 0.0)
    assert "This fit is the best that is known, 2.5000" in repr(first)


def test_shares_of_a_best_score_of_zero_or_below_are_finite_and_positive():
    low = Gap((row("this fit", -2.0), row("longer", -1.0), row("other seed", -3.0)))
    assert (low.nats, low.percent) == (1.0, 100.0)
    assert math.isfinite(Gap((row("this fit", -1e-3), row("longer", 0.0))).percent)


def test_it_prints_as_a_table_and_a_sentence(known):
    lines = repr(known).splitlines()
    assert lines[0].split() == ["score", "ceiling", "steps", "converged", "seconds", "stopped", "by"]
    assert lines[1].split() == ["this", "fit", "1.0000", "2.0000", "10", "no", "1.0", "end"]
    assert lines[2].split() == ["longer", "1.2500", "2.0000", "100", "yes", "1.0", "end"]
    assert len({line.index("2.0000", 10 if "seed" in line else 0) for line in lines[1:4]}) == 1  # columns are aligned
    assert lines[-1] == (
        "This fit is 1 nats per observation (50 %) below the best that is known, 2.0000 (other seed); "
        "3 seeds are 1.5 apart."
    )
    other = row("this fit", 1.0, standard_error=0.03, seconds=math.nan, converged=None)
    assert repr(Gap((other,))).splitlines()[1].split()[2:] == [
        "1.0000",
        "±",
        "0.03",
        "2.0000",
        "10",
        "unknown",
        "before",
        "end",
    ]


def test_a_frame_has_a_line_for_every_fit(known, monkeypatch):
    frame = known.to_pandas()
    assert frame.index.tolist() == ["this fit", "longer", "other seed", "other seed"]
    assert frame["score"].tolist() == [1.0, 1.25, 0.5, 2.0]
    assert frame.loc["longer", "steps"] == 100
    assert not frame.loc["this fit", "converged"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pandas"):
        known.to_pandas()


# ---- fits -------------------------------------------------------------------------------------------


def test_three_steps_are_far_from_the_best(short):
    assert [each.name for each in short.rows] == ["this fit", "longer", "other seed", "other seed"]
    assert [each.steps for each in short.rows] == [3, 30, 3, 3]
    assert short.nats > 0.1
    assert short.best == short.rows[1].score == max(each.score for each in short.rows)
    assert short.rows[0].converged is False
    assert "max_iter = 3" in short.rows[0].stop_reason
    assert all(each.seconds > 0 for each in short.rows)


def test_rows_are_the_fits_that_one_would_make_by_hand(short):
    seeds = [seed % 2**31 for seed in spawn(0, 2)]  # those of stability
    by_hand = [states(3), states(30), *(states(3, random_state=seed) for seed in seeds)]
    for found, model in zip(short.rows, by_hand, strict=True):
        model.fit(X)
        assert (found.score, found.ceiling) == (float(model.score_), model.score_.ceiling)
        assert (found.steps, found.converged, found.stop_reason) == (
            model.n_iter_,
            model.converged_,
            model.stop_reason_,
        )
    assert len({each.score for each in short.rows}) == 4


def test_a_fit_that_has_arrived_leaves_little():
    x = clusters(300, distance=1.5)[0]  # so many that folds need not choose a penalty
    found = gap(rp.RPCategorical(3, network="linear", max_iter=40, n_init=1, random_state=0), x, longer=2, n_runs=1)
    assert found.rows[0].converged
    assert found.percent < 1


def test_the_estimator_is_left_as_it_was():
    model = states(2)
    before = copy.deepcopy(vars(model))
    gap(model, X, longer=2, n_runs=1)
    assert vars(model) == before
    assert not hasattr(model, "score_")


def test_a_fitted_one_is_not_fitted_again(fits):
    model = states(2).fit(X)
    weights = {name: each.clone() for name, each in model.model_.state_dict().items()}
    score, parts = model.score_, dict(vars(model))
    fits.clear()
    found = gap(model, X, longer=2, n_runs=1)
    assert [each.max_iter for each in fits] == [4, 2]
    assert model not in fits
    assert found.rows[0].score == float(score)
    assert math.isnan(found.rows[0].seconds)
    assert vars(model) == parts
    assert all(torch.equal(each, weights[name]) for name, each in model.model_.state_dict().items())


def test_one_from_a_file_is_met_as_it_was_saved(tmp_path):
    model = states(2).fit(X)
    model.save(tmp_path / "model.rpm")
    again = rp.load(tmp_path / "model.rpm")
    found = gap(again, X, longer=2, n_runs=1)
    assert found.rows[0].score == float(model.score_)
    assert found.rows[0].converged is model.converged_
    del again.converged_  # as in files of earlier versions
    assert gap(again, X, longer=2, n_runs=1).rows[0].converged is None


def test_a_fit_of_weighted_observations_is_met_with_their_weights():
    weights = np.r_[np.zeros(60), np.ones(60)]
    model = states(2).fit(X, sample_weight=weights)
    found = gap(model, X, longer=2, n_runs=1, sample_weight=weights)
    assert len({each.ceiling for each in found.rows}) == 1
    with pytest.raises(InputError, match="X: expected the data that this RPCategorical was fitted to"):
        gap(model, X, longer=2, n_runs=1)


def test_without_a_seed_the_longer_fit_has_that_of_this_one(fits):
    gap(states(2, random_state=None), X, longer=2, n_runs=1)
    this, longer, other = (each.random_state for each in fits)
    assert this == longer != other
    assert None not in (this, other)


def test_the_same_seeds_give_the_same_gap_in_one_process_or_two(short):
    again = gap(states(3), X, n_runs=2, n_jobs=2)
    assert [each.score for each in again.rows] == [each.score for each in short.rows]
    other = gap(states(3), X, longer=2, n_runs=2, random_state=1)
    assert other.rows[0].score == short.rows[0].score
    assert not {each.score for each in other.rows[2:]} & {each.score for each in short.rows[2:]}


def test_times_and_presence_go_along():
    random = np.random.default_rng(0)
    trials = np.stack(waves((6, 6, 6, 6), 3, period=2.0, noise=0.3, random=random))
    times = 0.5 * np.arange(6)
    presence = {"x": np.arange(6) + np.arange(4)[:, None] != 4}
    model = rp.RPGPFA(1, n_inducing=4, max_iter=2, n_init=1, random_state=0, search=rp.Search(retries=0))
    found = gap(model, trials, longer=2, n_runs=1, times=times, presence=presence)
    by_hand = model.fit(trials, times=times, presence=presence)
    assert found.rows[0].score == float(by_hand.score_)
    again = gap(by_hand, trials, longer=2, n_runs=1, times=times, presence=presence)
    assert [each.score for each in again.rows] == [each.score for each in found.rows]
    with pytest.raises(InputError, match=r"20 of factor 'x'\), got others \(24\)"):
        gap(by_hand, trials, times=times)


def test_only_this_fit_warns():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        gap(states(3), X, longer=2, n_runs=2)
    assert [str(each.message).count("max_iter = 3") for each in seen] == [1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = states(3)
        with pytest.warns(rp.RPModelsWarning):
            model.fit(X)
        gap(model, X, longer=2, n_runs=1)


def test_a_share_more_is_at_least_a_step_more():
    assert [each.steps for each in gap(states(2), X, longer=1.1, n_runs=1).rows] == [2, 3, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"longer": 1}, "longer: expected a number > 1, got 1"),
        ({"longer": 0.5}, "longer: expected a number > 1, got 0.5"),
        ({"longer": math.inf}, "longer: expected a number > 1, got inf"),
        ({"n_runs": 0}, "n_runs: expected an integer ≥ 1, got 0"),
        ({"random_state": -1}, "random_state: expected"),
        ({"times": np.arange(3)}, "times: RPCategorical takes none"),
        ({"checkpoint": "here"}, "checkpoint: RPCategorical takes none"),
    ],
)
def test_bad_arguments_are_refused_before_any_work(options, words, monkeypatch):
    monkeypatch.setattr(rp.RPCategorical, "fit", lambda *_, **__: pytest.fail("it was fitted"))
    with pytest.raises(RPModelsError, match=words):
        gap(states(2), X, **options)


def test_bad_steps_and_other_data_are_refused():
    with pytest.raises(InputError, match="max_iter: expected an integer ≥ 1, got 'many'"):
        gap(states("many"), X)
    model = states(2).fit(X)
    half = {name: each[:60] for name, each in X.items()}
    with pytest.raises(InputError, match=r"\(120 of factor 'a'\), got others \(60\)\. Pass those of the fit"):
        gap(model, half)


# ---- the picture ------------------------------------------------------------------------------------


def drawn(axes):
    return dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))


def test_points_are_the_scores_and_the_line_is_the_best(known):
    axes = plots.gap(known)
    lines = drawn(axes)
    assert lines["best known 2"].get_xdata() == [2.0, 2.0]
    assert lines["not converged"].get_xydata().tolist() == [[1.0, 0.0]]
    assert lines["converged"].get_xydata().tolist() == [[1.25, 1.0], [0.5, 2.0], [2.0, 3.0]]
    assert lines["gap of this fit 1"].get_segments()[0].tolist() == [[1.0, 0.0], [2.0, 0.0]]
    labels = [each.get_text() for each in axes.get_yticklabels()]
    assert labels == ["this fit (10 steps)", "longer (100 steps)", "other seed (10 steps)", "other seed (10 steps)"]
    bottom, top = axes.get_ylim()
    assert top < 0 < 3 < bottom  # this fit is on top


def test_errors_and_what_is_not_known_are_drawn(known):
    sampled = Gap((replace(known.rows[0], standard_error=0.1, converged=None), *known.rows[1:]))
    assert {"± standard error", "not known", "converged"} <= set(drawn(plots.gap(sampled)))
    assert "± standard error" not in drawn(plots.gap(known))


def test_equal_scores_have_room_and_readable_numbers():
    axes = plots.gap(Gap((row("this fit", 1.2345678), row("longer", 1.2345679))))
    low, high = axes.get_xlim()
    assert high - low > 1e-3
    axes.figure.canvas.draw()
    assert axes.xaxis.get_offset_text().get_text() == ""


def test_what_is_no_gap_is_refused():
    with pytest.raises(InputError, match=r"gap: expected what evaluation.gap returned, got 0.3"):
        plots.gap(0.3)
