"""Bits per spike: the formula against scipy, and models on populations whose true rates are known."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import PoissonRegressor
from sklearn.preprocessing import StandardScaler

import rpmodels as rp
from rpmodels import evaluation, metrics
from rpmodels.baselines import GPFA
from rpmodels.evaluation import co_smoothing, compare_co_smoothing, few_shot_co_smoothing, forward_prediction
from rpmodels.evaluation.bits import BitsPerSpike, by_probabilities, by_rates, mean_rates
from rpmodels.evaluation.co_smoothing_rivals import gained_by_rival
from rpmodels.evaluation.read_outs import PoissonReadOut
from rpmodels.evaluation.rivals import LINEAR

N, T, C, K = 48, 20, 16, 2
FOLD = (np.arange(32), np.arange(32, N))
HIDDEN = [1, 6, 11, 15]
TINY = {"max_iter": 2, "n_init": 1, "random_state": 0, "training": rp.Training(finish="none")}
REFINED = rp.inference.NaturalGradient(steps=2)


def population(n_trials=N, n_times=T, n_units=C, seed=1000, offset=-0.3):
    """Poisson counts of log-linear units behind smooth latents, and their rates."""
    random = np.random.default_rng(seed)
    t = np.arange(n_times)
    covariance = np.exp(-0.5 * np.square((t[:, None] - t) / 4.0)) + 1e-6 * np.eye(n_times)
    z = np.swapaxes(random.multivariate_normal(np.zeros(n_times), covariance, (n_trials, K)), 1, 2)
    rates = np.exp(z @ (0.5 * random.standard_normal((K, n_units))) + offset)
    return random.poisson(rates).astype(np.float64), rates


@pytest.fixture(scope="module")
def world():
    return population()


@pytest.fixture(scope="module")
def model(world):
    return estimator().fit(world[0][FOLD[0]])


def estimator(**options):
    return rp.RPGPFA(K, **{"random_state": 0, "max_iter": 50, **options})


def quiet(found):
    """As a plain number."""
    return {name: float(each[0]) for name, each in found.values.items()}


# ---- the formula ------------------------------------------------------------------------------------


def bits_by_scipy(rates, counts, null):
    gain = stats.poisson.logpmf(counts, rates) - stats.poisson.logpmf(counts, np.broadcast_to(null, counts.shape))
    return np.nansum(gain) / (np.nansum(counts) * np.log(2))


def test_bits_per_spike_are_those_of_the_benchmark(world):
    counts, rates = world
    expected = bits_by_scipy(rates, counts, counts.mean((0, 1)))
    assert metrics.bits_per_spike(rates, counts) == pytest.approx(expected, abs=1e-12)
    assert metrics.bits_per_spike(list(rates), list(counts)) == pytest.approx(expected, abs=1e-12)
    assert metrics.bits_per_spike(np.full_like(rates, 1.0) * counts.mean((0, 1)), counts) == pytest.approx(0.0)
    null = np.full(C, 0.7)
    assert metrics.bits_per_spike(rates, counts, null) == pytest.approx(bits_by_scipy(rates, counts, null), abs=1e-12)


def test_missing_counts_are_left_out_and_rates_have_a_floor(world):
    counts, rates = world[0][:2].copy(), world[1][:2].copy()
    counts[0, 3], rates[0, 3] = np.nan, np.nan
    kept = np.ones((2, T), bool)
    kept[0, 3] = False
    expected = bits_by_scipy(rates[kept], counts[kept], counts[kept].mean(0))
    assert metrics.bits_per_spike(rates, counts) == pytest.approx(expected, abs=1e-12)
    one, rate = np.array([[1.0], [0.0]]), np.array([[0.0], [0.5]])
    assert metrics.bits_per_spike(rate, one) == pytest.approx(bits_by_scipy(np.maximum(rate, 1e-9), one, 0.5))


@pytest.mark.parametrize(
    ("rates", "counts", "words"),
    [
        (np.ones((4, 2)), np.ones((4, 3)), "as in counts"),
        (-np.ones((4, 2)), np.ones((4, 2)), "≥ 0"),
        (np.full((4, 2), np.nan), np.ones((4, 2)), "finite"),
        (np.ones((4, 2)), np.zeros((4, 2)), "at least one spike"),
    ],
)
def test_what_has_no_bits_is_refused(rates, counts, words):
    with pytest.raises(rp.RPModelsError, match=words):
        metrics.bits_per_spike(rates, counts)


def test_probabilities_are_compared_with_the_same_poisson_distribution():
    random = np.random.default_rng(0)
    counts, null = random.poisson([0.4, 2.0], (500, 2)).astype(float), np.array([0.5, 1.7])
    counts[7, 0] = np.nan
    values = np.array([[0.0, 1.0, np.nan, np.nan], [0.0, 1.0, 2.0, 3.0]])
    p = random.dirichlet(np.ones(4), (500, 2))
    p[:, 0, :2] /= p[:, 0, :2].sum(-1, keepdims=True)
    found = by_probabilities(p, values, counts, null)
    expected = np.zeros(2)
    for n in range(500):
        for c, last in enumerate((1, 3)):
            x = counts[n, c]
            if np.isnan(x):
                continue
            usual = stats.poisson.logpmf(x, null[c]) if x < last else stats.poisson.logsf(last - 1, null[c])
            expected[c] += np.log(p[n, c, int(min(x, last))]) - usual
    np.testing.assert_allclose(found.nats, expected, rtol=1e-10)
    spikes = np.nansum(counts, 0)
    np.testing.assert_allclose(found.by_channel, expected / (spikes * np.log(2)))
    assert found.total == pytest.approx(expected.sum() / (spikes.sum() * np.log(2)))


def test_a_channel_that_is_no_table_has_no_probabilities():
    counts = np.array([[1.0, 30.0], [0.0, 41.0]])
    values = np.array([[0.0, 1.0, np.nan], [20.0, 33.5, 60.0]])
    found = by_probabilities(np.full((2, 2, 3), 0.5), values, counts, np.array([0.5, 35.0]))
    assert np.isnan(found.nats).tolist() == [False, True]
    assert np.isfinite(found.total)


def test_a_silent_channel_has_a_rate_and_one_without_spikes_no_bits():
    counts = np.array([[0.0, 3.0], [0.0, np.nan], [0.0, 1.0]])
    np.testing.assert_allclose(mean_rates(counts), [0.5 / 3, 2.0])
    assert np.isnan(by_rates(np.ones((3, 2)), counts, mean_rates(counts)).by_channel).tolist() == [True, False]


# ---- co-smoothing -----------------------------------------------------------------------------------


def test_the_truth_is_above_the_model_and_the_model_above_nothing(world):
    counts, rates = world
    found = co_smoothing(estimator(), counts, held_out=HIDDEN, cv=[FOLD])
    null = counts[FOLD[0]].mean((0, 1))[HIDDEN]
    oracle = bits_by_scipy(rates[FOLD[1]][..., HIDDEN], counts[FOLD[1]][..., HIDDEN], null)
    for value in quiet(found).values():
        assert 0.6 * oracle < value < oracle
    # The same trials, the hidden channels of others: nothing is left to be said of them.
    shuffled = counts.copy()
    shuffled[FOLD[1][:, None, None], np.arange(T)[:, None], HIDDEN] = counts[np.roll(FOLD[1], 5)][..., HIDDEN]
    assert all(value < 0 for value in quiet(co_smoothing(estimator(), shuffled, held_out=HIDDEN, cv=[FOLD])).values())


@pytest.mark.parametrize("e_step", [None, REFINED])
def test_it_is_what_the_verbs_say_of_trials_that_lack_channels(world, model, e_step):
    counts = world[0]
    found = co_smoothing(estimator(), counts, held_out=HIDDEN, cv=[FOLD], e_step=e_step)
    seen = counts[FOLD[1]].copy()
    seen[..., HIDDEN] = np.nan
    truth, null = counts[FOLD[1]][..., HIDDEN], counts[FOLD[0]].mean((0, 1))[HIDDEN]
    rates = model.rates(seen, e_step=e_step)[..., HIDDEN]
    assert quiet(found)["rates"] == pytest.approx(bits_by_scipy(rates, truth, null), abs=1e-9)
    for place, channel in enumerate(HIDDEN):
        expected = bits_by_scipy(rates[..., place], truth[..., place], null[place])
        assert found.by_channel["rates"][0, place] == pytest.approx(expected, abs=1e-9)
        assert found.channels[place] == channel


def test_refining_changes_q(world):
    values = [quiet(co_smoothing(estimator(**TINY), world[0], cv=[FOLD], e_step=each)) for each in (None, REFINED)]
    assert values[0]["rates"] != values[1]["rates"]


def test_channels_are_drawn_once_and_folds_are_all_there(world):
    found = co_smoothing(estimator(**TINY), world[0], cv=3, random_state=5)
    assert len(found.channels) == C // 4
    assert {name: each.shape for name, each in found.values.items()} == {"probabilities": (3,), "rates": (3,)}
    assert found.by_channel["rates"].shape == (3, C // 4)
    same = co_smoothing(estimator(**TINY), world[0], cv=2, random_state=5)
    other = co_smoothing(estimator(**TINY), world[0], cv=2, random_state=6)
    assert found.channels.tolist() == same.channels.tolist() != other.channels.tolist()
    assert found.mean["rates"] == pytest.approx(found.values["rates"].mean())
    assert repr(found).startswith("co-smoothing: by probabilities")
    assert "4 channels, 3 folds" in repr(found)


def test_every_form_of_trials_gives_the_same(world):
    counts, ask = world[0], {"held_out": HIDDEN, "cv": 2}
    expected = co_smoothing(estimator(**TINY), counts, **ask).values
    others = (list(counts), {"spikes": counts}, {"spikes": list(counts)})
    for X in others:
        for name, each in co_smoothing(estimator(**TINY), X, **ask).values.items():
            np.testing.assert_allclose(each, expected[name], rtol=1e-5)


def test_other_factors_stay_and_unequal_trials_work(world):
    counts, rates = world
    X = {"spikes": [each[: 10 + n % 9] for n, each in enumerate(counts)]}
    X["hand"] = [np.log(each[: len(x), :2]) for each, x in zip(rates, X["spikes"], strict=True)]
    without = co_smoothing(estimator(), {"spikes": X["spikes"]}, held_out=HIDDEN, cv=[FOLD])
    found = co_smoothing(estimator(), X, held_out=HIDDEN, cv=[FOLD])
    assert quiet(found)["rates"] > quiet(without)["rates"]  # two rates of the truth tell the latents


def test_tables_are_rows():
    counts, _ = population(400, 1)
    table = pd.DataFrame(counts[:, 0], columns=[f"unit {n}" for n in range(C)])
    fold = [(np.arange(300), np.arange(300, 400))]
    one, other = (
        co_smoothing(rp.RPFA(K, random_state=0, max_iter=50), each, held_out=HIDDEN, cv=fold)
        for each in (counts[:, 0], table)
    )
    assert quiet(one)["rates"] > 0
    assert quiet(other) == pytest.approx(quiet(one), rel=1e-6)
    assert np.isfinite(quiet(few_shot_co_smoothing(rp.RPFA(K, **TINY), table, 100, cv=fold))["rates"])


# ---- forward prediction -----------------------------------------------------------------------------


def test_the_end_of_trials_is_predicted_from_their_beginning(world, model):
    counts, rates = world
    found = forward_prediction(estimator(), counts, share=0.2, cv=[FOLD])
    seen = counts[FOLD[1]].copy()
    seen[:, 16:] = np.nan
    truth, null = counts[FOLD[1]][:, 16:], counts[FOLD[0]][:, 16:].mean((0, 1))
    expected = bits_by_scipy(model.rates(seen)[:, 16:], truth, null)
    assert quiet(found)["rates"] == pytest.approx(expected, abs=1e-9)
    oracle = bits_by_scipy(rates[FOLD[1]][:, 16:], truth, null)
    assert 0.1 * oracle < quiet(found)["rates"] < oracle
    assert found.by_channel["probabilities"].shape == (1, C)
    turned = counts.copy()
    turned[FOLD[1], 16:] = counts[np.roll(FOLD[1], 5), 16:]
    assert quiet(forward_prediction(estimator(), turned, share=0.2, cv=[FOLD]))["rates"] < 0


def test_the_end_of_every_factor_is_hidden(world):
    counts, rates = world
    X = {"spikes": list(counts), "hand": list(np.log(rates[..., :2]))}
    told = {"hand": np.ones((N, T), bool)}
    told["hand"][:, 3] = False
    other = {**X, "hand": [np.where(np.arange(T)[:, None] < 10, each, 7.0) for each in X["hand"]]}
    other["hand"][: len(FOLD[0])] = X["hand"][: len(FOLD[0])]
    one, two, without = (
        quiet(forward_prediction(estimator(**TINY), data, share=0.5, cv=[FOLD], presence=asked))
        for data, asked in ((X, told), (other, told), (X, None))
    )
    assert one == two
    assert one != without


# ---- few shots --------------------------------------------------------------------------------------


def test_few_shots_are_regressions_from_latents_of_the_other_channels(world):
    counts, rates = world
    found = few_shot_co_smoothing(estimator(), counts, None, held_out=HIDDEN, cv=[FOLD])
    kept = np.setdiff1d(np.arange(C), HIDDEN)
    z = estimator().fit(counts[FOLD[0]][..., kept]).transform(counts[..., kept])
    known, new = (z[index].reshape(-1, K) for index in FOLD)
    scaler = StandardScaler().fit(known)
    seen, truth = (counts[index][..., HIDDEN].reshape(-1, len(HIDDEN)) for index in FOLD)
    inside = scaler.transform(np.clip(new, known.min(0), known.max(0)))
    fits = [PoissonRegressor(alpha=1e-3, tol=1e-8, max_iter=1000).fit(scaler.transform(known), x) for x in seen.T]
    predicted = np.stack([each.predict(inside) for each in fits], 1)
    assert quiet(found)["rates"] == pytest.approx(bits_by_scipy(predicted, truth, seen.mean(0)), abs=1e-4)
    oracle = bits_by_scipy(rates[FOLD[1]][..., HIDDEN].reshape(truth.shape), truth, seen.mean(0))
    assert 0.6 * oracle < quiet(found)["rates"] < oracle


def test_more_shots_tell_more(world):
    bits = [
        quiet(few_shot_co_smoothing(estimator(max_iter=10), world[0], k, held_out=HIDDEN, cv=[FOLD], n_draws=8))[
            "rates"
        ]
        for k in (1, 4, 32)
    ]
    assert bits[0] < bits[1] < bits[2]


def test_models_without_populations_have_few_shots_too(world):
    found = few_shot_co_smoothing(rp.RPHMM(2, **TINY), list(world[0]), 4, cv=[FOLD], n_draws=2)
    assert np.isfinite(found.values["rates"]).all()
    with pytest.raises(rp.RPModelsError, match=r"RPHMM: expected .* one by one.*few_shot"):
        co_smoothing(rp.RPHMM(2, **TINY), list(world[0]), cv=[FOLD])
    with pytest.raises(rp.RPModelsError, match=r"RPGPFA: expected .* one by one"):
        co_smoothing(estimator(channels="together", **TINY), world[0], cv=[FOLD])


# ---- rivals -----------------------------------------------------------------------------------------


def test_rivals_predict_by_regressions_on_the_same_folds(world):
    counts, rates = world
    names = ["PCA, smoothed", "GPFA"]
    found = compare_co_smoothing(counts, estimator=estimator(max_iter=30), held_out=HIDDEN, cv=[FOLD], methods=names)
    own = co_smoothing(estimator(max_iter=30), counts, held_out=HIDDEN, cv=[FOLD])
    assert list(found.values) == ["RPGPFA", *names]
    for name, each in own.values.items():
        np.testing.assert_allclose(found.values["RPGPFA"][f"bits_by_{name}"], each, rtol=1e-6)
    kept = np.setdiff1d(np.arange(C), HIDDEN)
    rows = counts[FOLD[0]][..., kept].reshape(-1, len(kept))
    root = np.sqrt(counts[..., kept])  # counts are scaled by their root, as for networks
    centre, spread = np.sqrt(rows).mean(0), np.sqrt(rows).std(0)
    scaled = (root - centre) / spread
    z = GPFA(K, random_state=0).fit(scaled[FOLD[0]]).transform(scaled)
    read_out = PoissonReadOut().fit(z[FOLD[0]], counts[FOLD[0]][..., HIDDEN])
    expected = read_out.score(z[FOLD[1]], counts[FOLD[1]][..., HIDDEN])
    assert found.values["GPFA"]["bits_by_rates"][0] == pytest.approx(expected, rel=2e-2)
    null = counts[FOLD[0]].mean((0, 1))[HIDDEN]
    oracle = bits_by_scipy(rates[FOLD[1]][..., HIDDEN], counts[FOLD[1]][..., HIDDEN], null)
    assert all(0 < each["bits_by_rates"][0] < oracle for each in found.values.values())


@pytest.mark.parametrize("name", ["PCA, smoothed", "GPFA"])
def test_rivals_never_see_hidden_channels_of_held_out_trials(world, name):
    """Whatever happened there, the same rates are predicted: nats are linear in the counts then."""
    counts, method = world[0], LINEAR.methods([C - len(HIDDEN)], T, [name])[0]

    def nats(truth):
        shown = counts.copy()
        shown[FOLD[1][:, None, None], np.arange(T)[:, None], HIDDEN] = truth
        return gained_by_rival(method, list(shown), np.array(HIDDEN), FOLD, K, 0).nats

    one = counts[FOLD[1]][..., HIDDEN]
    other = np.flip(one, 1) + 4.0
    np.testing.assert_allclose(nats(one) + nats(other), nats(one + other) + nats(0.0 * one), rtol=1e-9)


# ---- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", [co_smoothing, forward_prediction, lambda *a, **o: few_shot_co_smoothing(*a, 3, **o)])
def test_numbers_that_are_no_counts_are_refused(world, ask):
    with pytest.raises(rp.RPModelsError, match=r"Factor 'x', trial 2: expected counts"):
        ask(estimator(**TINY), [*world[0][:2], world[1][2], *world[0][3:]], cv=[FOLD])


@pytest.mark.parametrize("held_out", [0.0, 1.0, [C], [-1], list(range(C)), [], [0.5]])
def test_channels_that_are_not_there_are_refused(world, held_out):
    with pytest.raises(rp.RPModelsError, match="held_out"):
        co_smoothing(estimator(**TINY), world[0], held_out=held_out)


def test_what_cannot_be_asked_is_said(world):
    counts = world[0]
    with pytest.raises(rp.RPModelsError, match="forward_prediction: expected a model over time"):
        forward_prediction(rp.RPFA(K, **TINY), counts[:, 0])
    with pytest.raises(rp.RPModelsError, match="factor that was counted, one of a, b"):
        co_smoothing(estimator(**TINY), {"a": counts, "b": counts})
    with pytest.raises(rp.RPModelsError, match=r"Unknown factor .b."):
        co_smoothing(estimator(**TINY), {"a": counts}, factor="b")
    split = {"a": rp.Population(slice(0, 8)), "b": rp.Population(slice(8, C))}
    with pytest.raises(rp.RPModelsError, match="a dict of factors"):
        co_smoothing(estimator(factors=split, **TINY), counts)
    with pytest.raises(rp.RPModelsError, match="n_shots"):
        few_shot_co_smoothing(estimator(**TINY), counts, 33, cv=[FOLD])
    with pytest.raises(rp.RPModelsError, match="two channels or more"):
        few_shot_co_smoothing(estimator(**TINY), counts[..., :1], 3)


def test_the_result_is_exported():
    assert evaluation.BitsPerSpike is BitsPerSpike
