"""Data that do not belong to those of a fit are found and named; clean held-out data are quiet."""

import copy
import warnings
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

import rpmodels as rp
from registry import made
from rpmodels.errors import InputError, RPModelsWarning
from rpmodels.estimators.layout import Recording
from rpmodels.evaluation import belonging, diagnose
from rpmodels.observations import read
from rpmodels.profile import departures, profile_of
from rpmodels.profile.sketch import Sketch
from rpmodels.profile.wiring import Wiring, remainder

BRIEF = {"max_iter": 4, "n_init": 1, "random_state": 0, "finish": "none", "retries": 0}


def spikes(seed, n=60, sites=40, step=1):
    """Counts of twelve units behind two sines."""
    random, where = np.random.default_rng(seed), np.random.default_rng(7)
    loadings, base = 0.7 * where.standard_normal((2, 12)), where.uniform(-0.5, 0.5, 12)
    phase = random.uniform(0, 2 * np.pi, (n, 1, 2))
    z = 1.4 * np.sin(step * np.arange(sites)[:, None] / np.array([4.0, 7.0]) + phase)
    return {"spikes": random.poisson(np.exp(z @ loadings + base)).astype(float)}


def sensors(seed, n=60, sites=40, step=1):
    """Two sensors of a chain of three states that last."""
    random, where = np.random.default_rng(seed), np.random.default_rng(8)
    means = {name: 1.5 * where.standard_normal((3, 5)) for name in ("sound", "camera")}
    state = random.integers(3, size=(n, sites * step))
    for t in range(1, sites * step):
        state[:, t] = np.where(random.random(n) < 0.9, state[:, t - 1], state[:, t])
    state = state[:, ::step]
    return {name: each[state] + random.standard_normal((n, sites, 5)) for name, each in means.items()}


@pytest.fixture(scope="module")
def models():
    return {
        "population": (made(rp.RPGPFA, 2, n_inducing=5, **BRIEF).fit(spikes(0)), spikes, "spikes"),
        "chain": (made(rp.RPHMM, 3, **BRIEF).fit(sensors(0)), sensors, "camera"),
    }


def empty(x, name):
    x[name][17] = 0.0


def drift(x, name):
    for each in x:
        sd = x[each].std((0, 1))
        x[each] += np.random.default_rng(1).poisson(0.5 * sd, x[each].shape) if each == "spikes" else 0.5 * sd


def artefact(x, name):
    noise = 5.0 * x[name][..., 3].std() * np.random.default_rng(1).standard_normal(x[name].shape[:2])
    x[name][..., 3] = np.round(np.abs(noise)) if name == "spikes" else noise


def exchange(x, name):
    x[name][..., [1, 4]] = x[name][..., [4, 1]]


def shift(x, name):
    for each in x:
        away = 9.0 * x[each].std((0, 1))
        x[each][23] += np.round(away) if each == "spikes" else away


DEFECTS = {
    "shift": (shift, {"odd trials"}, {"trials": (23,)}),
    "drift": (drift, {"shifted"}, {}),
    "empty": (empty, {"empty trials"}, {"trials": (17,)}),
    "artefact": (artefact, {"beyond the range"}, {"channels": (3,)}),
    "exchange": (exchange, {"exchanged channels"}, {"channels": (1, 4)}),
}


@pytest.mark.parametrize("kind", ["population", "chain"])
@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_is_found_and_named(models, kind, defect):
    model, draw, name = models[kind]
    spoil, names, where = DEFECTS[defect]
    x = draw(1)
    spoil(x, name)
    found = [each for each in belonging(model, x) if each.name in names]
    assert found, belonging(model, x)
    assert found[0].where.factor == name or defect in ("drift", "shift")
    for what, expected in where.items():
        assert tuple(sorted(getattr(found[0].where, what))) == expected
    if defect == "drift":
        assert {each.where.factor for each in found} == set(x)


@pytest.mark.parametrize("kind", ["population", "chain"])
def test_another_sampling_rate_is_found(models, kind):
    model, draw, _ = models[kind]
    assert "other rate" in [each.name for each in belonging(model, draw(1, step=2))]


@pytest.mark.parametrize("kind", ["population", "chain"])
def test_clean_data_are_quiet(models, kind):
    model, draw, _ = models[kind]
    for x in (draw(0), draw(1), draw(2), draw(3, n=3)):
        assert belonging(model, x) == []


def test_times_further_apart_are_named():
    profile = profile_of(read(spikes(0), series=True), {})
    found = departures(profile, read(spikes(1), series=True, times=0.5 * np.arange(40)))
    assert [each.name for each in found] == ["other clock"]
    assert "0.5 apart, and were 1 apart in the fit" in found[0].text


def test_an_empty_trial_of_the_fit_itself_is_named_ever_after(tmp_path):
    x = spikes(0)
    empty(x, "spikes")
    model = made(rp.RPGPFA, 2, n_inducing=5, **BRIEF).fit(x)
    said = repr(diagnose(model, spikes(1)))
    assert "in the fit: empty trials: factor 'spikes': 1 of 60 trials (17) shows nothing at all" in said
    model.save(tmp_path / "model")
    assert repr(diagnose(rp.load(tmp_path / "model"), spikes(1))) == said
    assert "empty trials" in diagnose(model, x)


def test_silence_that_is_natural_is_no_defect():
    random = np.random.default_rng(0)
    rates = np.where(random.random((60, 1, 1)) < 0.3, 0.0, 0.2)  # three trials of ten are silent

    def few(seed):
        return read({"x": np.random.default_rng(seed).poisson(rates, (60, 6, 5)).astype(float)}, series=True)

    profile = profile_of(few(1), {})
    assert profile.own == ()
    assert departures(profile, few(2)) == []


def test_sites_where_nothing_is_shown_are_named(models):
    model, _, _ = models["chain"]
    x = sensors(1)
    x["sound"][5, 10:25] = 0.0
    found = {each.name: each for each in belonging(model, x)}
    assert found["empty times"].where.trials == (5,)
    assert "38%" in found["empty times"].text


def test_times_at_which_all_trials_are_odd_are_named(models):
    model, _, _ = models["chain"]
    x = sensors(1)
    x["sound"][:, 30:33] *= 3.0
    odd = next(each for each in belonging(model, x) if each.name == "odd times")
    assert set(odd.where.sites) >= {30, 31, 32}
    assert len(odd.where.sites) <= 5


def test_a_sensor_that_is_stuck_or_missing_is_named(models):
    model, _, _ = models["chain"]
    x = sensors(1)
    x["sound"][..., 2] = x["sound"][:, :1, 2]
    assert (2,) in [each.where.channels for each in belonging(model, x) if each.name == "stuck"]
    x = sensors(1)
    x["sound"][:, ::2] = np.nan
    assert "missing" in [each.name for each in belonging(model, x)]
    assert belonging(model, {"camera": sensors(1)["camera"]}) == []  # a factor left out is no defect


def test_rows_labels_and_pictures_have_profiles():
    def some(seed, shares):
        draw = np.random.default_rng(seed)
        k = draw.choice(3, 300, p=shares)
        image = draw.random((300, 4, 4)) + k[:, None, None]
        return {"label": np.array(list("abc"))[k], "row": np.eye(3)[k] + draw.normal(size=(300, 3)), "image": image}

    model = made(rp.RPCategorical, 3, **BRIEF).fit(some(0, [0.4, 0.3, 0.3]))
    assert belonging(model, some(1, [0.4, 0.3, 0.3])) == []
    found = {each.where.factor for each in belonging(model, some(2, [0.8, 0.1, 0.1])) if each.name == "shifted"}
    assert found == {"label", "row", "image"}


def test_a_long_recording_is_its_pieces():
    def one(seed):
        return np.concatenate(list(sensors(seed, n=30)["sound"]))

    model = made(rp.RPGPFA, 2, n_inducing=5, window=100, **BRIEF).fit(one(0))
    assert belonging(model, one(1)) == []
    assert "shifted" in [each.name for each in belonging(model, one(1) + 1.0)]
    chain = made(rp.RPHMM, 3, **BRIEF).fit(one(0))  # to which it is one trial
    assert chain.model_.profile.piece is not None
    assert belonging(chain, one(1)) == []
    x = one(1)
    x[600:800] = 0.0
    assert "empty trials" in [each.name for each in belonging(chain, x)]


# ---- what verbs do ---------------------------------------------------------------------------------


def test_verbs_warn_or_refuse_where_they_are_asked_to(models):
    model, _, name = models["population"]
    x = spikes(1)
    z = model.transform(x)
    np.testing.assert_array_equal(model.transform(x, on_drift="raise"), z)
    empty(x, name)
    model.transform(x)
    with pytest.warns(RPModelsWarning, match=r"1 of 60 trials \(17\) shows nothing at all"):
        model.transform(x, on_drift="warn")
    with pytest.raises(InputError, match=r"not like those of the fit.*fit again"):
        model.transform(x, on_drift="raise")
    with pytest.raises(InputError, match="on_drift: expected one of 'warn', 'raise', None"):
        model.transform(x, on_drift="shout")
    chain, _, _ = models["chain"]
    with pytest.raises(InputError, match="above what the fit saw"):
        chain.predict_proba({each: x + 1.0 for each, x in sensors(1).items()}, on_drift="raise")


def test_nothing_is_looked_at_unasked(models, monkeypatch):
    model, _, _ = models["population"]
    monkeypatch.setattr("rpmodels.estimators.drift.departures", lambda *_: 1 / 0)
    model.transform(spikes(1))


def test_a_model_without_a_profile_says_so(models):
    model, draw, _ = models["population"]
    older = copy.deepcopy(model)
    older.model_.profile = None
    assert belonging(older, draw(1)) == []
    found = diagnose(older, draw(1))
    assert "no profile" in found
    assert "no profile" not in [each.name for each in found.findings]
    with pytest.raises(InputError, match="without such a profile"):
        older.transform(draw(1), on_drift="warn")


# ---- the numbers -----------------------------------------------------------------------------------


def test_averages_are_compared_by_welch():
    random = np.random.default_rng(0)
    old, new = random.normal(size=(40, 3)), random.normal(0.5, 2.0, size=(25, 3))
    mean, z, chance = Sketch.of(old).averages(new)
    expected = stats.ttest_ind(new, old, equal_var=False)
    np.testing.assert_allclose(mean, new.mean(0))
    np.testing.assert_allclose(z, expected.statistic)
    np.testing.assert_allclose(chance, expected.pvalue)


def test_few_trials_have_the_variance_of_the_fit():
    old = np.random.default_rng(0).normal(size=(40, 1))
    _, z, chance = Sketch.of(old).averages(np.array([[1.0], [1.1]]))
    assert z[0] == pytest.approx((1.05 - old.mean()) / np.sqrt(old.var(ddof=1) * (1 / 40 + 1 / 2)))
    assert chance[0] == pytest.approx(2 * stats.t.sf(abs(z[0]), 5))


def test_single_trials_are_measured_by_their_side():
    old = np.concatenate([-np.arange(51.0), 3.0 * np.arange(1.0, 51.0)])[:, None]
    z, chance, middle = Sketch.of(old).single(np.array([[-200.0], [600.0], [0.0], [np.nan]]))
    assert middle[0] == np.median(old)
    below = max(-np.quantile(old, 0.25) / 0.67449, -np.quantile(old, 0.1) / 1.28155)
    above = max(np.quantile(old, 0.75) / 0.67449, np.quantile(old, 0.9) / 1.28155)
    np.testing.assert_allclose(z[:, 0], [-200 / below, 600 / above, 0.0, 0.0], rtol=1e-4)
    np.testing.assert_allclose(chance[0], 2 * stats.t.sf(200 / below, 5), rtol=1e-4)


def test_trials_far_beyond_all_others_are_rare_whatever_the_tails():
    """The chance that one more draw is r times as far as all of n, by counting; tails that fall faster have a lower."""
    random, n = np.random.default_rng(0), 30
    times = {}
    for name, draw in (("t5", lambda size: random.standard_t(5, size)), ("normal", random.standard_normal)):
        old, new = draw((20_000, n, 1)), draw((20_000, 1))
        chances = np.array([Sketch.of(one).farther(other)[0] for one, other in zip(old, new, strict=True)])
        times[name] = [float((chances < level).mean()) / level for level in (0.03, 0.01, 0.003)]
    # Of thirty the tail has hardly begun: a chance is more than what is said; of_trials asks for eight sds as well.
    assert max(times["t5"]) < 4.0
    assert max(times["normal"]) < 2.0
    sketch = Sketch.of(np.arange(-10.0, 11.0)[:, None])
    np.testing.assert_allclose(sketch.farther(np.array([20.0, -40.0, 5.0])), np.array([2.0**-5, 4.0**-5, 1.0]) / 11)
    assert Sketch.of(np.ones((20, 1))).farther(np.array([3.0])) == 1.0


def test_what_others_leave_of_a_channel_is_that_of_regressions():
    random = np.random.default_rng(0)
    rows = random.normal(size=(500, 4)) @ random.normal(size=(4, 4))
    left = remainder(rows, np.linalg.inv(rows.T @ rows / 500))
    for c in range(4):
        others = np.delete(rows, c, 1)
        fitted = others @ np.linalg.lstsq(others, rows[:, c], rcond=None)[0]
        np.testing.assert_allclose(left[:, c], rows[:, c] - fitted, atol=1e-9)


def test_agreement_of_the_fit_is_no_better_than_that_of_new_data():
    """Forty trials of thirty channels that share nothing: by the rows it was fitted to, what others say would agree."""
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 30))
    observations = read({"x": x})
    wiring = profile_of(observations, {}).wirings[0]
    assert isinstance(wiring, Wiring)
    assert abs(wiring.agreement.mean.mean()) < 0.01


def test_of_noise_few_sets_are_alarming():
    """Sets of noise with tails, fifty of them, by fits of forty trials: one in two hundred or so is expected."""
    alarms = 0
    for seed in range(50):
        random = np.random.default_rng(seed)
        old, new = ({"x": random.standard_t(3, size=(40, 12, 6))} for _ in range(2))
        observations = read(old, series=True)
        profile = profile_of(observations, {})
        alarms += bool(departures(profile, read(new, series=True, known=observations.specs)) or profile.own)
    assert alarms <= 2


# ---- two factors without time ----------------------------------------------------------------------


def reliable(count, n=600):
    """Factors that say a latent as well as 0.95, 0.6 (and 0.8)."""
    random = np.random.default_rng(0)
    z = random.standard_normal((n, 1))
    return {
        name: r * z + np.sqrt(1 - r**2) * random.standard_normal((n, 1))
        for name, r in list({"sharp": 0.95, "dull": 0.6, "third": 0.8}.items())[:count]
    }


def test_a_width_that_data_cannot_tell_is_said():
    x = reliable(2)
    model = made(rp.RPFA, 1, **{**BRIEF, "max_iter": 60}, learning_rate=5e-2).fit(x)
    found = diagnose(model, x)
    assert not found.findings
    (note,) = [each for each in found.notes if each.name == "width not identified"]
    assert "'sharp' and 'dull'" in note.text
    rho = float(note.text.split("ρ = ")[1][:4])
    assert rho == pytest.approx(0.95 * 0.6, abs=0.12)
    assert f"from {rho:.2f} to 1" in note.text
    assert repr(found).startswith("nothing amiss\n(to know) ")
    assert "(to know) width not identified" in repr(found)


def test_three_factors_and_time_tell_it():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RPModelsWarning)
        three = made(rp.RPFA, 1, **BRIEF).fit(reliable(3))
        moving = made(rp.RPGPFA, 1, n_inducing=4, **BRIEF).fit(
            {n: x.reshape(60, 10, 1) for n, x in reliable(2).items()}
        )
    assert "width not identified" not in diagnose(three, reliable(3))
    assert "width not identified" not in diagnose(moving, {n: x.reshape(60, 10, 1) for n, x in reliable(2).items()})


# ---- pictures --------------------------------------------------------------------------------------


def test_odd_channels_and_trials_are_highlighted(models):
    model, _, name = models["chain"]
    x = sensors(1)
    empty(x, name)
    artefact(x, name)
    found = {each.factor: each for each in rp.evaluation.overviews(model, x)}
    assert 3 in found[name].channels
    old = sensors(0)[name][..., 0]
    assert found[name].means[0] == pytest.approx((x[name][..., 0].mean() - old.mean()) / old.std(), abs=0.02)
    axes = rp.plots.belonging(found[name])
    assert "3" in [each.get_text() for each in axes.texts]
    assert "channel that does not belong" in [each.get_text() for each in axes.get_legend().get_texts()]
    shift(x, name)
    assert {each.factor: each for each in rp.evaluation.overviews(model, x)}[name].trials == (23,)
    few = replace(found[name], trials=(2,))
    trials = rp.plots.belonging(few, "trials")
    assert "trial that does not belong" in [each.get_text() for each in trials.get_legend().get_texts()]
    plain = {each.factor: each for each in rp.evaluation.overviews(model, sensors(1))}[name]
    assert not [*rp.plots.belonging(plain).texts, *rp.plots.belonging(plain, "trials").texts]
    with pytest.raises(rp.RPModelsError, match="of: expected"):
        rp.plots.belonging(plain, "sensors")
    plt.close("all")


def test_windows_that_overlap_count_once():
    recording = Recording([0, 50, 100, 120], [100, 100, 100, 100], np.arange(220.0))
    assert recording.apart().tolist() == [0, 2]
