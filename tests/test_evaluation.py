"""Model choice by trials, and the test of dependence, on data whose answers are known."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

import rpmodels as rp
from data import clusters as drawn
from registry import ESTIMATORS, made
from rpmodels.errors import InputError
from rpmodels.estimators import Latents
from rpmodels.evaluation import TrialFolds, choose, cross_validate, shuffle_test
from rpmodels.evaluation.folds import subset, subset_of_times
from rpmodels.evaluation.shuffle import shuffled


def clusters(n=120, seed=0):
    return drawn(n, distance=2.0, seed=seed, places=9)[0]


def discrete(**settings):
    return made(
        rp.RPCategorical, 3, **{"max_iter": 150, "n_init": 2, "random_state": 0, "learning_rate": 0.02, **settings}
    )


smooth = partial(ESTIMATORS["gpfa"].make, 1, n_inducing=5)


# ---- folds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "X",
    [
        np.arange(10),
        list(range(10)),
        {"a": np.arange(10), "b": list(range(10))},
    ],
    ids=["array", "list", "dict"],
)
def test_every_trial_is_held_out_once(X):
    held_out = []
    for training, test in TrialFolds(3).split(X):
        assert not set(training) & set(test)
        assert len(training) + len(test) == 10
        held_out += test.tolist()
        part = subset(X, test)
        assert list(part["b"] if isinstance(X, dict) else part) == test.tolist()
        assert type(part) is type(X)
    assert sorted(held_out) == list(range(10))
    assert [t.tolist() for _, t in TrialFolds(3).split(X)] == [t.tolist() for _, t in TrialFolds(3).split(X)]


def test_groups_stay_together():
    groups = np.repeat(["x", "y", "z"], [4, 3, 3])
    for training, test in TrialFolds(3).split(list(range(10)), groups=groups):
        assert not set(groups[training]) & set(groups[test])


def test_times_go_with_their_trials_unless_shared():
    index = np.array([2, 0])
    assert subset_of_times(None, index) is None
    assert subset_of_times([0.0, 1.0, 2.0], index) == [0.0, 1.0, 2.0]
    np.testing.assert_array_equal(subset_of_times(np.arange(3.0), index), np.arange(3.0))
    assert subset_of_times([[0.0], None, [2.0, 3.0]], index) == [[2.0, 3.0], [0.0]]
    np.testing.assert_array_equal(subset_of_times(np.eye(3), index), np.eye(3)[index])
    per_factor = subset_of_times({"a": np.arange(3.0), "b": [[0.0], [1.0], [2.0]]}, index)
    assert per_factor["b"] == [[2.0], [0.0]]


def test_bad_folds_are_named():
    with pytest.raises(InputError, match="at most the number of trials, 3"):
        list(TrialFolds(5).split([1, 2, 3]))
    with pytest.raises(InputError, match="one for each of 3 trials"):
        list(TrialFolds(2).split([1, 2, 3], groups=[1, 2]))
    with pytest.raises(InputError, match="same number of observations"):
        list(TrialFolds(2).split({"a": [1, 2], "b": [1, 2, 3]}))


# ---- held-out scores ------------------------------------------------------------------------------


def test_cross_validation_is_fit_and_score_of_every_fold():
    X = clusters()
    model = discrete(max_iter=20)
    result = cross_validate(model, X, cv=2)
    assert not hasattr(model, "model_")
    for (training, test), score in zip(TrialFolds(2).split(X), result.held_out, strict=True):
        again = clone(model).fit(subset(X, training))
        assert float(again.score(subset(X, test))) == float(score)
    assert result.mean == pytest.approx(np.mean(result.held_out))
    assert result.standard_error == pytest.approx(np.std(result.held_out, ddof=1) / np.sqrt(2))
    assert "2 folds" in repr(result)
    assert [float(each) for each in cross_validate(model, X, cv=2, n_jobs=2).held_out] == list(
        map(float, result.held_out)
    )


def test_cross_validation_of_unequal_trials_with_times_and_presence():
    random = np.random.default_rng(0)
    lengths = random.integers(6, 12, size=9)
    X = {name: [random.standard_normal((n, 2)) for n in lengths] for name in "ab"}
    X["b"][4] = None
    times = [np.sort(random.random(n)) for n in lengths]
    presence = {"a": np.arange(9) != 3}
    result = cross_validate(smooth(), X, cv=3, times=times, presence=presence, sample_weight=np.arange(1.0, 10.0))
    assert np.isfinite(result.held_out).all()
    assert all(each.ceiling > 0 for each in result.held_out)


def test_the_number_of_states_is_found():
    X = clusters(200)
    choice = choose(discrete(), "n_states", [2, 3], X, cv=2)
    assert choice.best == 3
    assert choice.tried[3].mean > choice.tried[2].mean + 0.2
    assert choice.tried[3].mean == pytest.approx(np.log(3), abs=0.1)
    assert "best: n_states=3" in repr(choice)
    with pytest.raises(InputError, match="n_states"):
        choose(discrete(), "states", [2], X)
    with pytest.raises(InputError, match="at least one"):
        choose(discrete(), "n_states", [], X)


# ---- the test of dependence ------------------------------------------------------------------------


def test_shuffling_keeps_every_margin_and_what_is_missing():
    X = clusters(30)
    X["a"][5] = np.nan
    observations = rp.read(X)
    dealt = shuffled(observations, np.random.default_rng(0))
    for name in "ab":
        assert (dealt.present[name] == observations.present[name]).all()
        np.testing.assert_array_equal(np.sort(dealt.values[name], 0), np.sort(observations.values[name], 0))
        assert not np.array_equal(dealt.values[name], observations.values[name])


def test_what_is_shared_is_told_from_chance():
    model = discrete().fit(clusters())
    new = clusters(60, seed=1)
    found = shuffle_test(model, new, n_shuffles=39)
    assert found.p_value == pytest.approx(1 / 40)
    assert found.score == pytest.approx(float(model.score(new)), abs=1e-5)
    assert found.null.max() < 0 < found.score
    assert "p = 0.025" in repr(found)
    broken = {"a": new["a"], "b": np.random.default_rng(0).permutation(new["b"])}
    chance = shuffle_test(model, broken, n_shuffles=39)
    assert chance.p_value > 0.05
    np.testing.assert_array_equal(chance.null, shuffle_test(model, broken, n_shuffles=39).null)
    with pytest.raises(InputError, match="at least two observations"):
        shuffle_test(model, {name: x[:1] for name, x in new.items()})


def test_shuffles_of_trials_over_time():
    data = rp.datasets.plain_ball(n_trials=12, n_times=15, random_state=0)
    model = smooth(max_iter=60).fit(data.x, times=data.times)
    found = shuffle_test(model, data.x, n_shuffles=9, times=data.times)
    assert len(found.null) == 9
    assert np.isfinite(found.null).all()


# ---- calibration without the truth -------------------------------------------------------------


class ExactPosterior:
    """z ~ N(0, 1), every view z + N(0, 1): Bayes' rule by hand. `sure` divides the variance from one view alone."""

    def __init__(self, sure: float = 1.0) -> None:
        self.sure = sure

    def latents(self, X, **options):
        precision = 1.0 + len(X)
        mean = sum(X.values()) / precision
        variance = np.full(mean.shape, 1.0 / precision / (self.sure if len(X) == 1 else 1.0))
        return Latents(mean, spread=variance)


def test_one_factor_predicts_what_all_will_say():
    random = np.random.default_rng(0)
    z = random.standard_normal((400, 10, 1))
    X = {name: z + random.standard_normal(z.shape) for name in ("left", "right")}
    found = rp.evaluation.between_factors(ExactPosterior(), X, "left")
    assert rp.metrics.coverage(found.mean, found.variance, found.all_factors) == pytest.approx(0.9, abs=0.015)
    found = rp.evaluation.between_factors(ExactPosterior(sure=1.3), X, "left")
    assert rp.metrics.coverage(found.mean, found.variance, found.all_factors) < 0.7
    with pytest.raises(InputError, match="two factors"):
        rp.evaluation.between_factors(ExactPosterior(), {"left": X["left"]}, "left")
    with pytest.raises(InputError, match="Unknown factor 'both'"):
        rp.evaluation.between_factors(ExactPosterior(), X, "both")


def test_rows_of_a_table_may_have_several_numbers_to_decode():
    random = np.random.default_rng(0)
    latents = random.standard_normal((80, 2))
    behaviour = latents @ random.standard_normal((2, 3)) + 0.1 * random.standard_normal((80, 3))
    together = rp.evaluation.decode(latents, behaviour)
    assert together.mean > 0.9
    alone = [rp.evaluation.decode(latents, behaviour[:, k]).mean for k in range(3)]
    assert min(alone) - 0.05 < together.mean < max(alone) + 0.05
