"""RPCategorical in scikit-learn's manner, on data where the truth is known."""

import copy
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

import rpmodels as rp
from data import clusters
from processes import run
from registry import made
from rpmodels.errors import BuildError, InputError, RPModelsWarning

FAST = {"n_init": 2, "max_iter": 80, "learning_rate": 2e-2, "random_state": 0}


def data(n=240, k=3, seed=0, **options):
    return clusters(n, k, names=("x0", "x1"), distance=2.0, seed=seed, places=99, **options)


@pytest.fixture(scope="module")
def fitted():
    X, z = data()
    return made(rp.RPCategorical, 3, **FAST).fit(X), X, z


def accuracy(z, states, k=3):
    return (rp.metrics.match_states(z, states, k)[states] == z).mean()


def test_it_finds_the_classes_of_new_data_from_any_subset_of_factors(fitted):
    model, _, _ = fitted
    new, z = data(seed=1)
    assert accuracy(z, model.predict(new)) > 0.97
    for name in new:
        assert accuracy(z, model.predict({name: new[name]})) > 0.95
        assert accuracy(z, model.recognise(new[name], name).argmax(1)) > 0.95
    probabilities = model.predict_proba(new)
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)


def test_fitted_attributes_and_the_score_with_its_ceiling(fitted):
    model, X, _ = fitted
    assert 0.9 * np.log(3) < model.score_ <= model.score_.ceiling == pytest.approx(np.log(3))
    assert set(model.history_) >= {"step", "free_energy", "prior", "recognition", "mixture"}
    assert model.n_iter_ == 80
    assert "max_iter" in model.stop_reason_
    assert len(model.restarts_) >= 2
    assert model.clipped_ == {"x0": 0, "x1": 0}
    np.testing.assert_allclose(model.prior_, 1 / 3, atol=1e-6)
    score = model.score(X)
    assert score.ceiling == pytest.approx(2 * np.log(241), rel=1e-5)
    assert "nats above independence per observation (median" in repr(score)
    assert repr(pickle.loads(pickle.dumps(score))) == repr(score)
    samples = model.score_samples(X)
    assert float(score) == pytest.approx(samples.mean())
    assert score.median == pytest.approx(np.median(samples))


def test_shuffled_factors_score_lower(fitted):
    model, X, _ = fitted
    shuffled = {"x0": X["x0"], "x1": np.roll(X["x1"], 7, 0)}
    assert model.score(shuffled) < model.score(X) - 0.5


def test_missing_rows_at_fit_and_predict(fitted):
    X, z = data()
    gaps = {name: values.copy() for name, values in X.items()}
    gaps["x0"][:60] = np.nan
    gaps["x1"][60:100] = np.nan
    model = made(rp.RPCategorical, 3, **FAST).fit(gaps)
    assert accuracy(z, model.predict(gaps)) > 0.95
    nothing = {name: np.full((2, 4), np.nan) for name in X}
    np.testing.assert_allclose(fitted[0].predict_proba(nothing), 1 / 3, atol=1e-6)
    np.testing.assert_allclose(fitted[0].score_samples(nothing), 0, atol=1e-6)


def test_a_table_with_columns_grid_search_and_cross_validation():
    X, _ = data()
    table = np.concatenate(list(X.values()), 1)
    model = made(rp.RPCategorical, 3, factors={"left": range(4), "right": range(4, 8)}, **FAST)
    scores = cross_val_score(model, table, cv=2)
    assert (scores > 0.7).all()
    search = GridSearchCV(model, {"n_states": [2, 3]}, cv=2).fit(table)
    assert search.best_params_ == {"n_states": 3}


def test_scikit_learn_manners():
    module = torch.nn.Linear(4, 3)
    model = rp.RPCategorical(
        3, network=module, recognition=rp.Recognition(tied=True), training=rp.Training(callbacks=[print])
    )
    twin = clone(model)
    assert twin.get_params()["n_states"] == 3
    assert twin.set_params(n_states=4).n_states == 4
    assert model.n_states == 3
    with pytest.raises(NotFittedError, match="RPCategorical is not fitted yet"):
        model.predict({"x0": np.zeros((2, 4))})


def test_same_random_state_same_fit_in_one_process_or_two(fitted):
    model, X, _ = fitted
    again = made(rp.RPCategorical, 3, **FAST).fit(X)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    parallel = made(rp.RPCategorical, 3, n_jobs=2, **FAST).fit(X)
    np.testing.assert_allclose(parallel.predict_proba(X), model.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(made(rp.RPCategorical, 3, **FAST).fit_predict(X), model.predict(X))


def test_pickle_and_copy(fitted):
    model, X, _ = fitted
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(twin.predict_proba(X), model.predict_proba(X))


def test_your_own_module_is_used_and_left_alone():
    X, z = data()
    module = torch.nn.Sequential(torch.nn.Linear(4, 20), torch.nn.Tanh(), torch.nn.Linear(20, 3))
    before = copy.deepcopy(module.state_dict())
    model = made(rp.RPCategorical, 3, network={"x0": module, "x1": "linear"}, **FAST).fit(X)
    assert accuracy(z, model.predict(X)) > 0.95
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize(
    ("prior", "head"),
    [("uniform", "absolute"), ("learned", "relative"), ([0.5, 0.3, 0.2], "absolute"), (1.0, "relative")],
)
def test_priors_and_heads(prior, head):
    random = np.random.default_rng(0)
    z = random.choice(3, 300, p=[0.5, 0.3, 0.2])
    centres = random.standard_normal((2, 3, 4)) * 3
    X = {f"x{j}": centres[j][z] + 0.3 * random.standard_normal((300, 4)) for j in range(2)}
    model = made(rp.RPCategorical, 3, prior=prior, head=head, **FAST).fit(X)
    if prior != "uniform":
        assert accuracy(z, model.predict(X)) > 0.95
    if prior in ("learned", 1.0):
        np.testing.assert_allclose(sorted(model.prior_), sorted(np.bincount(z) / 300), atol=0.01)


def test_float64_and_validation():
    X, z = data()
    model = made(rp.RPCategorical, 3, dtype="float64", validation_fraction=0.2, patience=50, **FAST).fit(X)
    assert model.predict_proba(X).dtype == np.float64
    assert accuracy(z, model.predict(X)) > 0.95
    assert len(model.validation_curve_) > 3


def test_labels_can_be_a_factor():
    X, z = data()
    names = np.array(["red", "green", "blue"], object)[z]
    names[20:] = None  # few are labelled
    model = made(rp.RPCategorical, 3, **FAST).fit({**X, "label": names})
    new, truth = data(seed=1)
    states = model.predict(new)
    of_label = model.recognise(np.array(["red", "green", "blue"]), "label").argmax(1)
    assert (of_label[truth] == states).mean() > 0.95
    weights = model.impute(new, "label").values
    assert weights.shape == (240, 240)
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-4)
    assert (weights[:, 20:] == 0).all()
    likely = z[weights.argmax(1)]
    assert (likely == truth).mean() > 0.95


def test_sample_and_conditional_weights(fitted):
    model, _, z = fitted
    drawn, states = model.sample(500)
    weights = model.conditional_weights("x0")
    assert weights.shape == (3, 240)
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-4)
    assert (z[drawn["x0"]] == z[drawn["x1"]]).mean() > 0.9
    assert accuracy(z[drawn["x0"]], states) > 0.9


def test_warnings_that_speak():
    random = np.random.default_rng(0)
    unrelated = {f"x{j}": random.standard_normal((400, 2)) for j in range(2)}
    with pytest.warns(RPModelsWarning, match="found no dependence"):
        rp.RPCategorical(2, n_init=1, max_iter=2, learning_rate=1e-6, random_state=0).fit(unrelated)
    z = random.integers(2, size=300)
    model = rp.RPCategorical(
        2, n_init=1, max_iter=100, learning_rate=0.1, training=rp.Training(weight_decay=0), random_state=0
    )
    with pytest.warns(RPModelsWarning, match="at its ceiling"):
        model.fit({"a": z, "b": z})


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"n_states": 1}, InputError, "n_states: expected an integer ≥ 2"),
        ({"n_init": 0}, InputError, "n_init: expected an integer ≥ 1"),
        (
            {"network": "transformer"},
            InputError,
            "network: expected 'auto', 'linear', 'mlp', 'cnn', 'lookup', an nn.Module or a dict",
        ),
        ({"network": {"y": "mlp"}}, InputError, "Unknown factor 'y'"),
        ({"network": "cnn"}, BuildError, "takes images"),
        ({"network": "lookup"}, BuildError, "takes one label"),
        ({"network": torch.nn.Linear(4, 5)}, BuildError, "expected \\(2, 3\\)"),
        ({"network": torch.nn.Linear(7, 3)}, BuildError, "failed on a batch of shape \\(2, 4\\)"),
        ({"prior": "flat"}, InputError, "prior: expected 'uniform', 'learned', a number > 0 or an array"),
        ({"prior": [0.5, 0.5]}, InputError, "3 probabilities"),
        ({"prior": [0.5, 0.6, 0.2]}, InputError, "sum to 1"),
        ({"prior": -1.0}, InputError, "prior: expected .* a number > 0"),
        ({"head": "other"}, InputError, "recognition.head: expected 'relative' or 'absolute'"),
        ({"scaling": "log"}, InputError, "recognition.scaling: expected 'auto'"),
        ({"dropout": "much"}, InputError, "recognition.dropout: expected 'auto' or a number"),
        ({"weight_decay": -1.0}, InputError, "training.weight_decay: expected 'auto' or a number ≥ 0"),
        ({"device": "abacus"}, InputError, "engine.device: expected"),
        ({"dtype": "float16"}, InputError, "engine.dtype: expected 'float32', 'float64'"),
        ({"batch_size": 1}, InputError, "training.batch_size"),
        ({"dropout": 1.5}, InputError, "recognition.dropout: expected 'auto' or a number ≥ 0 and < 1"),
        ({"random_state": -1}, InputError, "random_state: expected None, an integer ≥ 0 and < 2"),
        ({"n_jobs": 0}, InputError, "search.n_jobs: expected None, an integer ≥ 1 or an integer ≤ -1"),
        ({"scaling": {"camra": "none"}}, InputError, "Unknown factor 'camra'"),
        ({"prior": [0.5, np.nan, 0.5]}, InputError, "an array of finite numbers"),
    ],
)
def test_bad_arguments_are_refused_at_fit(options, error, text):
    X, _ = data(n=30)
    with pytest.raises(error, match=text):
        made(rp.RPCategorical, **{"n_states": 3, **options}).fit(X)


def test_labels_need_a_lookup_table():
    with pytest.raises(InputError, match="holds labels"):
        rp.RPCategorical(2, network="mlp").fit({"a": np.arange(10) % 2, "b": np.zeros((10, 2))})


def test_bad_data_at_predict(fitted):
    model, X, _ = fitted
    with pytest.raises(InputError, match="Unknown factor 'x7'"):
        model.predict({"x7": X["x0"]})
    with pytest.raises(InputError, match="expected observations of shape \\(4,\\)"):
        model.predict({"x0": X["x0"][:, :3]})
    with pytest.raises(InputError, match="Unknown factor 'x7'"):
        model.recognise(X["x0"], "x7")


def test_images_go_to_the_convolutional_network():
    random = np.random.default_rng(0)
    z = random.integers(2, size=60)
    for shape in ((16, 16), (3, 16, 16)):
        images = (random.random((60, *shape)) * 60 + 150 * z.reshape(-1, *[1] * len(shape))).astype(np.uint8)
        model = rp.RPCategorical(2, n_init=1, max_iter=40, random_state=0, recognition=rp.Recognition(tied=True))
        model.fit({"a": images, "b": images[::-1][np.argsort(z[::-1], kind="stable")][np.argsort(np.argsort(z))]})
        network = model.model_.pattern.recognition[0].network
        assert isinstance(network, rp.recognition.ConvolutionalNetwork)
        assert model.model_.pattern.recognition[1].network is network
        assert accuracy(z, model.predict({"a": images}), 2) > 0.9


def bad(**changes):
    X, _ = data(n=20)
    for name, change in changes.items():
        X[name] = change(X[name])
    return X


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (np.zeros((20, 4)), "Only one factor"),
        (bad(x0=lambda x: x[:9]), "same number of observations"),
        (bad(x0=lambda x: x * np.nan, x1=lambda x: x * np.nan), "Everything is missing"),
        (bad(x0=lambda x: np.where(np.arange(20)[:, None] < 10, x, np.nan),
             x1=lambda x: np.where(np.arange(20)[:, None] < 10, np.nan, x)), "never present together"),
        (bad(x0=lambda x: np.where(np.arange(20)[:, None] < 1, x, np.nan)), "present in 1 row"),
        (bad(x0=lambda x: np.where(x == x[3, 1], np.nan, x)), "partly NaN"),
        (bad(x0=lambda x: np.where(x == x[3, 1], np.inf, x)), "infinite"),
        (bad(x0=lambda x: x.astype(object)), "object"),
        (bad(x0=lambda x: x + 1j), "complex"),
        (bad(x0=lambda x: x.astype(str)), "expected numbers"),
    ],
)  # fmt: skip
def test_bad_data_are_refused_at_fit(X, text):
    with pytest.raises(InputError, match=text):
        rp.RPCategorical(3).fit(X)


def test_factors_that_share_a_module_share_its_scaling_and_stay_one():
    random = np.random.default_rng(0)
    X = {"a": 5 + random.standard_normal((60, 4)), "b": random.standard_normal((60, 4))}
    net = torch.nn.Linear(4, 2)
    model = rp.RPCategorical(2, network={"a": net, "b": net}, n_init=1, max_iter=5).fit(X)
    one, two = model.model_.pattern.recognition
    assert one.network is two.network is not net
    assert one.scaling is two.scaling
    separate = rp.RPCategorical(2, network=net, n_init=1, max_iter=5).fit(X).model_.pattern.recognition
    assert separate[0].network is not separate[1].network


def test_weights_that_are_mostly_zero_keep_the_score_below_its_ceiling():
    X, _ = data(n=200)
    weights = np.where(np.arange(200) < 20, 1.0, 0.002)
    X["x1"][20:] = np.nan
    model = made(rp.RPCategorical, 2, **FAST).fit(X, sample_weight=weights)
    assert model.score_ <= model.score_.ceiling


def test_values_of_the_wrong_type_are_refused_with_a_sentence(tmp_path):
    """In a process without the tests' own type checker, as users have it."""
    code = """
import numpy as np, rpmodels as rp
X = {"a": np.random.rand(20, 2), "b": np.random.rand(20, 2)}
for options in ({"n_states": 2.5}, {"n_states": "3"}, {"n_init": 2.0}, {"n_init": None}, {"learning_rate": "x"},
                {"prior": None}, {"random_state": np.random.default_rng(0)}, {"max_iter": 10.0}, {"max_iter": True},
                {"training": rp.Training(batch_size=10.5)}, {"recognition": rp.Recognition(dropout=None)},
                {"search": rp.Search(n_jobs=1.5)}):
    try:
        rp.RPCategorical(**{"n_states": 2, **options}).fit(X)
    except rp.RPModelsError as failure:
        print(failure)
"""
    status, printed = run(code, tmp_path)
    assert status == 0, printed
    lines = printed.splitlines()
    assert len(lines) == 12
    assert all("expected" in line and "got" in line for line in lines)
