"""RPHMM as its users meet it: forms of data, verbs of time, files, restarts, bad input."""

import numpy as np
import pytest
from sklearn.base import clone

import rpmodels as rp
from registry import made
from rpmodels.errors import InputError, RPModelsError
from rpmodels.observations import read, windowed

A = np.array([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.1, 0.0, 0.9]])
CENTRES = np.array([[3.0, 0.0, 0.0, 0.0], [0.0, 3.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0]])


def walks(lengths, seed=0):
    random = np.random.default_rng(seed)
    z = []
    for length in lengths:
        path = [int(random.integers(3))]
        for _ in range(length - 1):
            path.append(int(random.choice(3, p=A[path[-1]])))
        z.append(np.array(path))
    x = [CENTRES[each] + random.standard_normal((len(each), 4)) for each in z]
    return x, z


def brief(**settings):
    return made(rp.RPHMM, 3, **{"max_iter": 200, "learning_rate": 1e-2, "n_init": 2, "random_state": 0, **settings})


@pytest.fixture(scope="module")
def fitted():
    x, z = walks([60] * 16)
    return brief(max_iter=120).fit(x), x, z


def matched(model, x, z):
    truth, states = np.concatenate(z), np.concatenate(model.predict(x))
    digit = rp.metrics.match_states(truth, states, 3)
    return digit, float((digit[states] == truth).mean())


def test_states_and_transitions_are_found_in_new_walks_as_well(fitted):
    model, x, z = fitted
    assert matched(model, x, z)[1] >= 0.97
    new, truth = walks([60] * 20, seed=5)
    digit, accuracy = matched(model, new, truth)
    assert accuracy >= 0.97
    found = np.empty((3, 3))
    found[np.ix_(digit, digit)] = model.transitions_
    assert np.abs(found - A).max() < 0.06
    np.testing.assert_allclose(model.transitions_.sum(1), 1.0, atol=1e-5)
    np.testing.assert_allclose(model.initial_.sum(), 1.0, atol=1e-5)
    assert 0 < float(model.score(new)) < float(model.score(new).ceiling)


def test_results_have_the_form_of_the_data(fitted):
    model, x, _ = fitted
    ragged = [x[0], x[1][:20], x[2][:1]]
    lists = model.predict_proba(ragged)
    assert [each.shape for each in lists] == [(60, 3), (20, 3), (1, 3)]
    assert [each.shape for each in model.predict(ragged)] == [(60,), (20,), (1,)]
    whole = model.predict_proba(np.stack(x))
    assert whole.shape == (16, 60, 3)
    np.testing.assert_allclose(whole[0], lists[0], atol=1e-5)
    recording = model.predict_proba(x[0])
    assert recording.shape == (60, 3)
    np.testing.assert_allclose(recording, whole[0], atol=1e-5)
    assert model.recognise(x[0], "x").shape == (60, 3)
    assert model.forecast(ragged, 4)[1].shape == (4, 3)
    assert model.forecast(np.stack(x), 4).shape == (16, 4, 3)
    assert model.forecast(x[0], 4).shape == (4, 3)
    shown, states = model.sample(5, 7)
    assert shown["x"].shape == states.shape == (5, 7)


def test_the_filter_knows_no_future_and_the_stream_is_the_filter(fitted):
    model, x, _ = fitted
    filtered = model.filter(x[0])
    changed = x[0].copy()
    changed[30:] = 9.0
    np.testing.assert_allclose(model.filter(changed)[:30], filtered[:30], atol=1e-6)
    assert np.abs(model.smooth(changed) - model.smooth(x[0]))[:30].max() > 0
    stream = model.stream()
    for row, expected in zip(x[0][:10], filtered, strict=False):
        np.testing.assert_allclose(stream.update(row), expected, atol=1e-5)
    np.testing.assert_allclose(filtered[-1], model.smooth(x[0])[-1], atol=1e-5)


def test_forecasts_are_calibrated(fitted):
    """Of all states forecast with probability p, a share p comes true."""
    model, x, z = fitted
    digit, _ = matched(model, x, z)
    new, truth = walks([40] * 300, seed=9)
    ahead = model.forecast([each[:30] for each in new], 3)
    chance = np.stack([each[2][np.argsort(digit)] for each in ahead])
    came = np.eye(3)[[each[32] for each in truth]]
    for low, high in ((0.0, 0.1), (0.1, 0.4), (0.4, 1.0)):
        inside = (chance >= low) & (chance < high)
        assert came[inside].mean() == pytest.approx(chance[inside].mean(), abs=0.08)


def test_two_factors_one_of_them_sometimes_missing():
    x, z = walks([40] * 20)
    random = np.random.default_rng(1)
    sound = [np.eye(3)[each] * 2 + random.standard_normal((len(each), 3)) for each in z]
    X = {"sight": x, "sound": [None if n % 3 == 0 else each for n, each in enumerate(sound)]}
    model = brief(max_iter=80).fit(X)
    assert matched(model, X, z)[1] >= 0.97
    assert matched(model, {"sound": sound}, z)[1] >= 0.85
    stream = model.stream()
    both = stream.update({"sight": x[1][0], "sound": sound[1][0]})
    np.testing.assert_allclose(both, model.filter({"sight": [x[1]], "sound": [sound[1]]})[0][0], atol=1e-5)
    stream.update({"sound": sound[1][1]})
    with pytest.raises(RPModelsError, match="a dict with factors"):
        stream.update(x[1][2])


@pytest.mark.parametrize("transitions", [A.tolist(), 1.0], ids=["known", "variational Bayes"])
def test_other_priors_over_transitions(transitions):
    x, z = walks([50] * 12)
    model = brief(transitions=transitions, max_iter=100, n_init=3).fit(x)
    if not isinstance(transitions, float):
        np.testing.assert_allclose(model.transitions_, A, atol=1e-4)
    assert matched(model, x, z)[1] >= 0.85


def test_a_long_walk_is_cut_for_training_only():
    x, z = walks([400])
    model = brief(window=50, max_iter=80).fit(x[0])
    assert matched(model, x, z)[1] >= 0.95
    assert float(model.score_) > 100  # nats of the whole recording, as `score` counts
    observations = read({"x": [x[0], x[0][:60]]}, series=True)
    pieces = windowed(observations, 50)
    assert pieces.exists.sum(1).tolist() == [50] * 9 + [10]
    np.testing.assert_array_equal(pieces.values["x"][3], x[0][150:200].astype(pieces.values["x"].dtype))
    np.testing.assert_array_equal(pieces.times[8], np.arange(50))
    assert windowed(observations, 400) is observations


def test_the_same_seed_gives_the_same_fit_and_a_file_keeps_it(fitted, tmp_path):
    model, x, _ = fitted
    twice = [clone(model).set_params(max_iter=8).fit(x).predict_proba(x[0]) for _ in range(2)]
    np.testing.assert_array_equal(*twice)
    model.save(tmp_path / "walk")
    loaded = rp.load(tmp_path / "walk")
    np.testing.assert_array_equal(loaded.transitions_, model.transitions_)
    for verb in ("predict", "predict_proba", "filter"):
        np.testing.assert_array_equal(getattr(loaded, verb)(x[0]), getattr(model, verb)(x[0]))


def test_a_killed_fit_goes_on_where_it_was(tmp_path):
    x, _ = walks([30] * 10)
    whole = brief(max_iter=30).fit(x)

    def stop(state):
        if state.step == 20:
            raise KeyboardInterrupt

    first = brief(max_iter=30, callbacks=[stop])
    first.fit(x, checkpoint=tmp_path, checkpoint_every=0)
    resumed = brief(max_iter=30).fit(x, checkpoint=tmp_path)
    np.testing.assert_array_equal(resumed.transitions_, whole.transitions_)


def test_bad_input_is_refused():
    x, _ = walks([20] * 5)
    with pytest.raises(RPModelsError, match="trials of two times or more"):
        brief().fit([each[:1] for each in x])
    with pytest.raises(InputError, match=r"shape \(3, 3\)"):
        brief(transitions=np.eye(2)).fit(x)
    with pytest.raises(InputError, match="transitions"):
        brief(transitions="sticky").fit(x)
    with pytest.raises(InputError, match="window"):
        brief(window=1).fit(x)
    with pytest.raises(InputError, match="steps"):
        brief(max_iter=2, n_init=1).fit(x).forecast(x, 0)


def test_what_is_plotted_for_any_model_is_plotted_for_this_one(fitted):
    model, x, _ = fitted
    np.testing.assert_allclose(model.prior_ @ model.transitions_, model.prior_, atol=1e-5)
    axes = rp.plots.mixture_against_prior(model, "x")
    assert sum(bar.get_height() for bar in axes.patches) == pytest.approx(1, abs=1e-5)
    drawn = [line[0, 1] for line in axes.collections[0].get_segments()]
    np.testing.assert_allclose(drawn, model.prior_, atol=1e-5)
    assert rp.plots.factors_and_posterior(model, x).has_data()
    assert "score" in repr(rp.evaluation.shuffle_test(model, x[:6], n_shuffles=5))
