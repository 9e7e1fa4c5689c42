"""What estimators hand out of the generative side: forms, rows, labels, draws, and what they refuse."""

from dataclasses import replace

import numpy as np
import pytest

import data
import rpmodels as rp
from registry import ESTIMATORS, made


@pytest.fixture(scope="module")
def views():
    x, _ = data.views(300, noise=0.5)
    x = {name: each[:200] for name, each in x.items()}
    return made(rp.RPFA, 1, max_iter=60, learning_rate=2e-2, n_init=1, retries=0, random_state=0, dtype="float64").fit(
        x
    ), x


def test_a_missing_sensor_is_expected_as_a_regression_has_it(views):
    model, x = views
    new, _ = data.views(300, noise=0.5)
    new = {name: each[200:] for name, each in new.items()}
    found = model.impute({"a": new["a"]}, "b", rows=x["b"])
    assert found.method == "quadrature"
    assert found.values.dtype == np.float64
    gain, *_ = np.linalg.lstsq(x["a"] - x["a"].mean(0), x["b"] - x["b"].mean(0), rcond=None)
    regression = x["b"].mean(0) + (new["a"] - x["a"].mean(0)) @ gain

    def error(guess):
        return np.square(new["b"] - guess).mean() / new["b"].var()

    assert error(found.values) < 1.3 * error(regression)  # a short fit
    assert 0.8 < ((new["b"] - found.values) / found.spread).std() < 1.2


def test_the_factor_itself_is_not_looked_at_unless_it_shall_be(views):
    model, x = views
    hidden = model.impute(x, "b").values
    np.testing.assert_array_equal(hidden, model.impute({"a": x["a"]}, "b").values)
    seen = model.impute(x, "b", hide=False).values
    own = np.arange(len(seen))
    assert seen[own, own].mean() > hidden[own, own].mean()


def test_weights_of_atoms_are_those_of_draws(views):
    model, x = views
    shown, z = model.sample(4000, random_state=1)
    assert shown["a"].shape == (4000,)
    weights = model.conditional_weights("a", z)
    mean, again = weights @ x["a"], x["a"][shown["a"]]
    assert np.abs((again - mean).mean(0)).max() < 5 * x["a"].std() / np.sqrt(4000)
    rows, other = model.sample(4000, rows=x, random_state=1)
    np.testing.assert_array_equal(other, z)
    np.testing.assert_array_equal(rows["b"], x["b"][shown["b"]])


def test_what_is_expected_has_the_form_of_an_observation():
    random = np.random.default_rng(0)
    z = random.normal(size=30)
    x = {"number": (z + random.normal(size=30))[:, None], "image": z[:, None, None] + random.normal(size=(30, 4, 5))}
    model = made(rp.RPFA, 1, max_iter=3, n_init=1, retries=0, random_state=0, network="mlp").fit(x)
    for name, rows in x.items():
        found = model.impute(x, name, rows=rows)
        assert found.values.shape == found.spread.shape == found.error.shape == rows.shape
        assert model.sample(2, rows={name: rows})[0][name].shape == (2, *rows.shape[1:])


def test_labels_are_imputed_with_probabilities_and_drawn_by_name():
    x, z = data.clusters(200, distance=2.0)
    names = np.array(["red", "green", "blue"], object)[z]
    names[150:] = None
    model = made(rp.RPCategorical, 3, max_iter=60, n_init=1, learning_rate=1e-2, random_state=0).fit(
        {**x, "name": names}
    )
    found = model.impute(x, "name", rows=names)
    vocabulary = list(model.model_.specs["name"].vocabulary)
    assert found.values.shape == (200, 3)
    np.testing.assert_allclose(found.values.sum(1), 1.0, atol=1e-5)
    told = np.array(vocabulary)[found.values.argmax(1)]
    np.testing.assert_array_equal(told, model.predict_label(x, "name"))
    assert set(model.sample(50, rows={"name": names})[0]["name"]) <= set(vocabulary)
    assert found.spread is None


@pytest.mark.parametrize("atoms", ["per_time", "pooled"])
def test_missing_bins_of_one_series_are_found_from_the_others(atoms):
    random = np.random.default_rng(0)
    mixing = np.array([[1.0, -0.7, 0.5]])
    x = np.stack(data.waves([20] * 12, 3, period=2.0, noise=0.3, random=random, mixing=mixing))
    gone = np.random.default_rng(0).random(x.shape[:2]) < 0.2
    known = np.where(gone[..., None], np.nan, x)
    settings = {"max_iter": 60, "n_init": 1, "retries": 0, "learning_rate": 5e-2, "random_state": 0, "atoms": atoms}
    model = made(rp.RPGPFA, **settings).fit(known)
    found = model.impute(known, rows=known)
    assert found.values.shape == x.shape
    off = np.square(found.values - x)[gone].mean() / x[gone].var()
    alone = np.square(np.nanmean(known, (0, 1)) - x)[gone].mean() / x[gone].var()
    assert off < 0.6 * alone


def test_trials_of_unequal_length_come_back_as_lists():
    tiny = ESTIMATORS["hmm"]
    trials = tiny.data(0)
    model = tiny.make().fit(trials)
    found = model.impute(trials, rows=trials)
    assert [each.shape for each in found.values] == [each.shape for each in trials]
    # All rows are hidden or missing: what is expected is the average of the atoms under the prior.
    recording = model.impute(trials[0], rows=trials)
    np.testing.assert_allclose(recording.values, found.values[0], atol=1e-5)


def test_rows_weigh_in_imputation_as_they_did_in_the_fit():
    x, _ = data.clusters(40)
    weights = np.arange(40.0)
    model = made(rp.RPCategorical, 3, max_iter=5, n_init=1, random_state=0).fit(x, sample_weight=weights)
    expected = model.impute(x, "a").values @ x["a"]
    found = model.impute(x, "a", rows=x["a"], row_weights=weights)
    np.testing.assert_allclose(found.values, expected, atol=1e-4)
    assert np.abs(model.impute(x, "a", rows=x["a"]).values - expected).max() > 0.01
    drawn, _ = model.sample(3000, rows={"a": x["a"]}, row_weights=weights)
    mean = model.prior_ @ model.conditional_weights("a") @ x["a"]
    assert (np.abs(drawn["a"].mean(0) - mean) < 5 * x["a"].std(0) / np.sqrt(3000)).all()
    with pytest.raises(rp.RPModelsError, match="sample weights: expected 40 finite numbers"):
        model.impute(x, "a", rows=x["a"], row_weights=np.ones(3))


def test_a_recording_is_imputed_window_by_window_and_stitched():
    random = np.random.default_rng(0)
    (recording,) = data.waves([70], 3, period=2.0, noise=0.3, random=random)
    both = {"left": recording[:, :2], "right": recording[:, 2:]}
    model = made(rp.RPGPFA, 1, max_iter=4, n_init=1, retries=0, n_inducing=4, window=20, random_state=0).fit(both)
    found = model.impute({"left": both["left"]}, "right", rows=both["right"])
    assert found.values.shape == (70, 1)
    # Rows count as in the fit, whose windows overlap at the end alone.
    weights = model.impute({"left": both["left"]}, "right").values
    expected = weights @ np.concatenate([both["right"][:60], both["right"][50:]])
    np.testing.assert_allclose(found.values, expected, atol=1e-4)


def test_draws_along_time_have_the_times_and_inputs_that_are_asked_for():
    x = data.ball(n=6).x
    gpfa = ESTIMATORS["gpfa"].make().fit(x)
    shown, z = gpfa.sample(2, times=np.linspace(0.0, 5.0, 11))
    assert shown["x"].shape == (2, 11)
    assert z.shape == (2, 11, 2)
    assert gpfa.sample(2, 30)[1].shape == (2, 30, 2)
    per_time = made(rp.RPGPFA, 1, atoms="per_time", max_iter=2, n_init=1, retries=0, n_inducing=4).fit(x)
    with pytest.raises(rp.RPModelsError, match="never seen"):
        per_time.sample(2, 30)
    random = np.random.default_rng(0)
    trials, u = random.standard_normal((6, 9, 3)), random.standard_normal((6, 9, 2))
    driven = ESTIMATORS["lds"].make().fit(trials, inputs=u)
    assert driven.sample(2, inputs=u[0])[1].shape == (2, 9, 2)
    with pytest.raises(rp.RPModelsError, match="inputs: expected 2 numbers"):
        driven.sample(2)


def test_what_draws_and_weights_cannot_be_says_why(views):
    model, x = views
    for wrong, match in (
        ({"length": 3}, "length: expected None"),
        ({"times": [0.0]}, "times: expected None"),
        ({"n_samples": 0}, "n_samples"),
    ):
        with pytest.raises(rp.RPModelsError, match=match):
            model.sample(**wrong)
    with pytest.raises(rp.RPModelsError, match="factor: expected one of a, b"):
        model.impute(x)
    with pytest.raises(rp.RPModelsError, match="Unknown factor 'c'"):
        model.conditional_weights("c", np.zeros((2, 1)))
    with pytest.raises(rp.RPModelsError, match=r"z: expected finite numbers of shape \(n, 1\)"):
        model.conditional_weights("a", np.zeros((2, 3)))
    hmm = ESTIMATORS["hmm"].fitted()[0]
    with pytest.raises(rp.RPModelsError, match=r"states \(whole numbers\) of shape \(n, T\)"):
        hmm.conditional_weights(z=np.zeros((2, 3)))
    with pytest.raises(rp.RPModelsError, match="not fitted"):
        rp.RPFA(1).sample()


def test_a_spread_does_not_depend_on_where_zero_is():
    random = np.random.default_rng(0)
    z = random.normal(size=(60, 1))
    near = (z + 0.3 * random.normal(size=(60, 1))).astype(np.float32)
    model = made(rp.RPFA, 1, max_iter=20, n_init=1, retries=0, random_state=0).fit({"a": z - near, "b": near})
    known = {"a": z - near}
    expected = model.impute(known, "b", rows=near)
    # Other numbers on the same rows, of which the model has seen those near zero alone.
    rows = model._rows("b", near, None)
    far = replace(rows, numbers=rows.numbers.double() + 1e5)
    found = rp.generative.impute(model.model_, model.read(known), "b", rows=far)
    np.testing.assert_allclose(found.values[:, 0] - 1e5, expected.values, atol=0.02)
    np.testing.assert_allclose(found.spread[:, 0], expected.spread, rtol=1e-4)


@pytest.fixture(scope="module")
def labelled_series():
    """A factor of labels beside one of numbers, absent at the last two times; one mixture for every time."""
    random = np.random.default_rng(0)
    states = random.integers(2, size=(20, 5))
    numbers = 2.0 * states[..., None] + random.normal(size=(20, 5, 2))
    labels = np.array(["no", "yes"])[states].astype(object)
    labels[:, 3:] = None
    options = {"max_iter": 3, "n_init": 1, "retries": 0, "random_state": 0}
    model = made(rp.RPGPFA, 1, atoms="per_time", **options).fit({"x": numbers, "word": labels})
    return model, numbers, labels


def test_where_a_factor_has_no_atoms_no_label_is_drawn(labelled_series):
    model, _, labels = labelled_series
    shown = model.sample(6, rows={"word": labels})[0]["word"]
    assert set(shown[:, :3].ravel()) <= {"no", "yes"}
    assert (shown[:, 3:] == None).all()  # noqa: E711


def test_rows_that_are_shorter_than_draws_have_none_at_the_end(labelled_series):
    model, numbers, _ = labelled_series
    shown = model.sample(4, rows={"x": numbers[:, :2]})[0]["x"]
    assert np.isfinite(shown[:, :2]).all()
    assert np.isnan(shown[:, 2:]).all()


def test_rows_with_one_label_a_time_are_trials_in_an_array_or_a_list(labelled_series):
    model, numbers, labels = labelled_series
    new = {"x": numbers[:2]}
    expected = model.impute(new, "word", rows=list(labels)).values
    assert expected.shape == (2, 5, 2)
    for rows in (labels, {"word": labels, "x": numbers}):
        np.testing.assert_array_equal(model.impute(new, "word", rows=rows).values, expected)
    with pytest.raises(rp.RPModelsError, match="rows: expected those of factor 'word', got those of x"):
        model.impute(new, "word", rows={"x": numbers})


def test_states_that_a_model_does_not_have_are_refused():
    x, _ = data.views(20, noise=0.5)
    model = made(rp.RPCategorical, 2, max_iter=2, n_init=1, retries=0).fit(x)
    for z in (np.array([0, 2]), np.array([-1])):
        with pytest.raises(rp.RPModelsError, match="z: expected states from 0 to 1, got"):
            model.conditional_weights("a", z)
