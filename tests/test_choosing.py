"""What chooses: held-out scores, behaviour that is read from latents, and bins of several widths."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rpmodels as rp
from data import clusters
from registry import made
from rpmodels.errors import InputError
from rpmodels.evaluation import Choice, CrossValidation, TrialFolds, choose, choose_bins, cross_validate

TRIALS, TIMES, UNITS = 12, 12, 8


def spikes(seed=0, trials=TRIALS, times=TIMES, units=UNITS):
    """Counts of two smooth latents, and the latents."""
    random, t = np.random.default_rng(seed), np.arange(times)
    smooth = np.linalg.cholesky(np.exp(-0.5 * ((t[:, None] - t) / 3) ** 2) + 1e-6 * np.eye(times))
    z = np.einsum("ts,nsk->ntk", smooth, random.standard_normal((trials, times, 2)))
    return random.poisson(np.exp(z @ random.standard_normal((2, units)) - 0.3).clip(max=20)), z


def brief(**options):
    return made(rp.RPGPFA, **{"max_iter": 5, "n_init": 1, "random_state": 0, **options})


# ---- behaviour beside the score -------------------------------------------------------------------


def test_decoders_learn_from_training_trials_and_are_judged_on_others():
    x, z = spikes()
    model = brief(n_latents=2)
    found = cross_validate(model, x, y=z, cv=2)
    plain = cross_validate(model, x, cv=2)
    assert list(map(float, found.held_out)) == list(map(float, plain.held_out))
    assert dict(plain.decoding) == {}
    by_hand = []
    for training, test in TrialFolds(2).split(x):
        fitted = clone(model).fit(x[training])
        (rows, truth), (new, wanted) = (
            (fitted.transform(x[index]).reshape(-1, 2), z[index].reshape(-1, 2)) for index in (training, test)
        )
        ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))).fit(rows.astype(float), truth)
        left = np.square(wanted - ridge.predict(new.astype(float))).sum()
        by_hand.append(1 - left / np.square(wanted - wanted.mean(0)).sum())
    np.testing.assert_allclose(found.decoding["ridge"], by_hand, atol=1e-6)
    assert len(found.decoding["knn"]) == 2
    mean, error = found.measured("ridge")
    assert (mean, error) == pytest.approx((np.mean(by_hand), np.std(by_hand, ddof=1) / np.sqrt(2)), abs=1e-6)
    assert f"y by ridge {mean:.3f} ± {error:.3f}; y by knn" in repr(found)


def test_labels_are_read_from_probabilities_of_states():
    X, z = clusters(90, distance=2.0)
    names = np.array(["one", "two", "three"])[z]
    model = made(rp.RPCategorical, 3, max_iter=60, n_init=1, random_state=0)
    found = cross_validate(model, X, y=names, cv=2)
    for (training, test), share in zip(TrialFolds(2).split(X), found.decoding["ridge"], strict=True):
        fitted = clone(model).fit({name: each[training] for name, each in X.items()})
        rows, new = (fitted.predict_proba({n: each[index] for n, each in X.items()}) for index in (training, test))
        decoder = make_pipeline(
            StandardScaler(), LogisticRegressionCV(Cs=1 / np.logspace(-3, 3, 13), cv=3, max_iter=1000)
        ).fit(rows.astype(float), names[training])
        assert share == pytest.approx((decoder.predict(new.astype(float)) == names[test]).mean())
    assert min(found.decoding["knn"]) > 0.8


def tried(score, ridge, knn):
    """Two folds around every number, a tenth apart."""
    around = tuple((each - 0.05, each + 0.05) for each in (score, ridge, knn))
    return CrossValidation(around[0], around[0], {"ridge": around[1], "knn": around[2]})


def test_behaviour_chooses_only_where_it_is_asked():
    table = {1: tried(1.0, 0.1, 0.3), 2: tried(2.0, 0.2, 0.8), 3: tried(1.5, 0.9, 0.5)}
    assert Choice("n_latents", table).best == 2
    assert Choice("n_latents", table, "ridge").best == 3
    assert Choice("n_latents", table, "knn").highest == 2
    assert repr(Choice("n_latents", table, "ridge")).endswith("best (by ridge): n_latents=3")
    # The first within a standard error (0.05) of the highest.
    close = {1: tried(1.0, 0.86, 0.0), 2: tried(2.0, 0.9, 0.0)}
    assert Choice("n_latents", close, "ridge").best == 1


def test_a_weak_part_of_the_data_can_be_all_of_behaviour():
    """Two strong latents and a weak one, which alone is behaviour: the score hardly asks for it."""
    random, t = np.random.default_rng(0), np.arange(20)
    smooth = np.linalg.cholesky(np.exp(-0.5 * ((t[:, None] - t) / 4) ** 2) + 1e-6 * np.eye(20))
    z = np.einsum("ts,nsk->ntk", smooth, random.standard_normal((30, 20, 3)))
    loadings = np.array([1.0, 1.0, 0.2])[:, None] * np.random.default_rng(1).standard_normal((3, 12))
    x = np.random.default_rng(2).poisson(np.exp(z @ loadings - 0.5).clip(max=20))
    found = choose(brief(max_iter=40), "n_latents", [2, 3], x, y=z[..., 2:], by="ridge", cv=2)
    two, three = found.tried.values()
    assert found.best == 3
    assert three.measured("ridge")[0] > two.measured("ridge")[0] + 0.2
    assert three.mean < 1.15 * two.mean


def test_what_cannot_choose_is_refused():
    x, z = spikes()
    with pytest.raises(InputError, match="by='ridge': expected y"):
        choose(brief(), "n_latents", [1], x, by="ridge")
    with pytest.raises(InputError, match=r"by: .*'R2'"):
        choose(brief(), "n_latents", [1], x, y=z, by="R2")
    with pytest.raises(InputError, match="y: expected 12 trials as in X, got 11"):
        choose(brief(), "n_latents", [1], x, y=z[1:], cv=2)


# ---- merged bins ----------------------------------------------------------------------------------


def test_counts_are_summed_numbers_averaged_and_labels_counted():
    counts = np.arange(20).reshape(2, 5, 2)
    np.testing.assert_array_equal(rp.adapters.merged(counts, 2)[0], [[0 + 2, 1 + 3], [4 + 6, 5 + 7]])
    np.testing.assert_array_equal(rp.adapters.merged(counts, 2, counts=False)[0], [[1, 2], [5, 6]])
    np.testing.assert_array_equal(rp.adapters.merged(counts + 0.5, 2)[0], [[1.5, 2.5], [5.5, 6.5]])
    assert rp.adapters.merged([np.array(["a", "b", "b", "c"])], 3)[0].tolist() == ["b"]
    np.testing.assert_array_equal(rp.adapters.merged(np.array([[1.0, 3.0, 5.0]]), 2), [[2.0]])
    assert rp.adapters.merged(["left", "right"], 2) == ["left", "right"]  # one for every trial
    mixed = rp.adapters.merged({"a": [counts[0], None], "b": counts}, 5)
    assert mixed["a"][1] is None
    assert (mixed["a"][0].shape, mixed["b"].shape) == ((1, 2), (2, 1, 2))
    np.testing.assert_array_equal(rp.adapters.merged(counts, 1), counts)
    with pytest.raises(InputError, match="trial 0: expected 6 bins or more"):
        rp.adapters.merged(counts, 6)


def test_what_is_missing_is_missing_in_sums_and_left_out_of_means():
    counts = np.array([[[1.0, 2.0], [np.nan, 3.0]]])
    np.testing.assert_array_equal(rp.adapters.merged(counts, 2), [[[np.nan, 5.0]]])
    numbers = np.array([[[0.5, np.nan], [np.nan, np.nan]]])
    np.testing.assert_array_equal(rp.adapters.merged(numbers, 2), [[[0.5, np.nan]]])


def test_scores_per_second_are_those_of_merged_trials_over_their_length():
    x, z = spikes(times=13)
    model = brief()
    found = choose_bins(model, x, [3, 1], bin_width=0.5, y=z, cv=2)
    fine, wide = found.tried[1], found.tried[3]
    plain = cross_validate(model, x, y=z, cv=2)
    np.testing.assert_allclose(fine.held_out, np.array(plain.held_out, float) / 6.5)
    assert dict(fine.decoding) == dict(plain.decoding)
    # By hand: four bins of three, on the clock of the finest, and behaviour averaged within them.
    summed = x[:, :12].reshape(TRIALS, 4, 3, UNITS).sum(2)
    behaviour = z[:, :12].reshape(TRIALS, 4, 3, 2).mean(2)
    by_hand = cross_validate(model, summed, y=behaviour, times=np.array([1.0, 4.0, 7.0, 10.0]), cv=2)
    np.testing.assert_allclose(wide.held_out, np.array(by_hand.held_out, float) / 6.0)
    np.testing.assert_allclose(wide.decoding["knn"], by_hand.decoding["knn"])
    assert "nats above independence per second" in repr(found)


def test_trials_of_unequal_length_and_factors_with_times():
    x, z = spikes()
    lengths = [8 + n % 4 for n in range(TRIALS)]
    X = {
        "spikes": [each[:n] for each, n in zip(x, lengths, strict=True)],
        "speed": [each[:n] + 0.0 for each, n in zip(z, lengths, strict=True)],
    }
    X["speed"][3] = None
    times = [0.1 * np.arange(n) for n in lengths]
    found = choose_bins(brief(), X, [2], bin_width=0.1, times=times, cv=TrialFolds(2))
    training, test = next(TrialFolds(2).split(X))
    pairs = rp.adapters.merged(X, 2)
    clock = [each[: len(each) // 2 * 2].reshape(-1, 2).mean(1) for each in times]
    some = [{name: [each[i] for i in index] for name, each in pairs.items()} for index in (training, test)]
    fitted = brief().fit(some[0], times=[clock[i] for i in training])
    seconds = np.mean([lengths[i] // 2 * 2 * 0.1 for i in test])
    score = float(fitted.score(some[1], times=[clock[i] for i in test]))
    assert found.tried[2].held_out[0] == pytest.approx(score / seconds)


def test_states_along_time_have_bins_too():
    x, _ = spikes()
    model = made(rp.RPHMM, 2, max_iter=5, n_init=1, random_state=0)
    assert np.isfinite(choose_bins(model, x, [2, 1], bin_width=0.1, cv=2).tried[2].held_out).all()


@pytest.mark.parametrize(
    ("model", "values", "options", "said"),
    [
        (rp.RPFA(), [1], {}, "expected a model over time"),
        (rp.RPGPFA(), [0], {}, "values: expected a list"),
        (rp.RPGPFA(), [], {}, "values: expected at least one"),
        (rp.RPGPFA(), [1], {"bin_width": 0.0}, "bin_width: expected a number > 0"),
        (rp.RPGPFA(), [1], {"presence": {"x": np.ones(TRIALS, bool)}}, "presence: expected None"),
        (rp.RPGPFA(), [1], {"times": {"x": np.arange(TIMES)}}, "times: expected one clock"),
        (rp.RPGPFA(), [1], {"by": "knn"}, "by='knn': expected y"),
        (rp.RPGPFA(factors={"a": [0, 1], "b": [2]}), [1], {}, "X: expected a dict of factors"),
    ],
    ids=str,
)
def test_what_has_no_bins_is_refused(model, values, options, said):
    with pytest.raises(InputError, match=said):
        choose_bins(model, spikes()[0], values, **{"bin_width": 0.1, **options})
