"""Streams say when what comes is not like the data of the fit, once, and are quiet when it is."""

import warnings

import numpy as np
import pytest

import rpmodels as rp
from registry import made
from rpmodels.errors import InputError, RPModelsWarning
from rpmodels.observations import read
from rpmodels.profile import Watch, profile_of, raw_of
from rpmodels.profile.sketch import Sketch
from rpmodels.profile.watching import MEMORIES

SITES = 20
STEADY = np.random.default_rng(8)
MEANS = {name: 1.5 * STEADY.standard_normal((3, 4)) for name in ("sound", "camera")}


def sensors(seed, n, sites):
    """Two sensors of a chain of three states that last."""
    random = np.random.default_rng(seed)
    state = random.integers(3, size=(n, sites))
    for t in range(1, sites):
        state[:, t] = np.where(random.random(n) < 0.8, state[:, t - 1], state[:, t])
    return {name: each[state] + random.standard_normal((n, sites, 4)) for name, each in MEANS.items()}


def counts(seed, n, sites):
    """Counts of eight units, of which two hardly fire."""
    rates = np.array([0.02, 0.02, 0.5, 0.5, 1.0, 1.0, 2.0, 2.0])
    return {"spikes": np.random.default_rng(seed).poisson(rates, (n, sites, 8)).astype(float)}


def wandering(seed, n, sites):
    """Latents that are slower than any trial."""
    random = np.random.default_rng(seed)
    z = random.standard_normal((n, sites, 2))
    for t in range(1, sites):
        z[:, t] = 0.99 * z[:, t - 1] + np.sqrt(1 - 0.99**2) * z[:, t]
    loadings = np.random.default_rng(9).standard_normal((2, 6))
    return {"x": z @ loadings + random.standard_normal((n, sites, 6))}


WORLDS = {"sensors": (sensors, "camera"), "counts": (counts, "spikes"), "wandering": (wandering, "x")}


def watched(world, seed, series):
    """What is said, and at which row."""
    old = read(WORLDS[world][0](seed, 60, SITES), series=True)
    profile = profile_of(old, {})
    watch = Watch(profile)
    raw = {}
    for name, values in series.items():
        there = ~np.isnan(values[None]).all(-1)
        raw[name] = raw_of(old.specs[name], values[None], there, profile.factors[name].scale.form)[0]
    rows = range(len(next(iter(series.values()))))
    return [(t, each) for t in rows for each in watch.add({name: each[t] for name, each in raw.items()})]


def one_series(world, seed, length):
    return {name: each[0] for name, each in WORLDS[world][0](seed, 1, length).items()}


@pytest.mark.parametrize("world", WORLDS)
def test_clean_streams_are_quiet(world):
    """Five streams of a hundred trials' worths of rows, by fits of their own."""
    for seed in range(5):
        assert watched(world, seed, one_series(world, 100 + seed, 100 * SITES)) == []


DEFECTS = {
    "shifted": (lambda x, after: x[after:].__iadd__(0.8 * x.std(0)), "shifted"),
    "missing": (lambda x, after: x[after:].__setitem__((slice(None), 1), np.nan), "missing"),
    "gone": (lambda x, after: x[after:].fill(np.nan), "missing"),
    "stuck": (lambda x, after: x[after:].__setitem__((slice(None), 2), x[after, 2]), "stuck"),
    "wild": (lambda x, after: x[after:].__imul__(8.0), "beyond the range"),
    "dead": (lambda x, after: x[after:].fill(0.0), "empty times"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_of_a_sensor_is_named_and_not_before(defect):
    spoil, name = DEFECTS[defect]
    series = one_series("sensors", 50, 120 * SITES)
    after = 41 * SITES + 7
    spoil(series["camera"], after)
    found = [(t, each) for t, each in watched("sensors", 0, series) if each.name == name]
    assert found, watched("sensors", 0, series)
    when, what = found[0]
    latest = 2 * SITES if defect == "dead" else 2 * MEMORIES[-1] * SITES
    assert after < when < after + latest
    assert what.factor == "camera"
    assert what.text.startswith("in the last ")
    if defect in ("missing", "stuck"):
        assert what.channels == ({"missing": 1, "stuck": 2}[defect],)
    assert len(found) == 1  # once, for as long as it does not belong


def test_a_dead_array_of_counts_is_told_at_once_and_silence_of_a_unit_is_none():
    series = one_series("counts", 51, 40 * SITES)
    series["spikes"][:, 0] = 0.0  # one that hardly fires
    series["spikes"][20 * SITES :] = 0.0
    (when, what), *_ = watched("counts", 0, series)
    assert when == 21 * SITES - 1
    assert (what.name, what.factor) == ("empty times", "spikes")


def test_a_sensor_that_never_came_is_left_out_on_purpose():
    series = one_series("sensors", 52, 40 * SITES)
    assert watched("sensors", 0, {"sound": series["sound"]}) == []


def test_what_goes_together_counts_as_fewer():
    """Of a series of correlation ρ the variance of a mean is (1 + ρ) / (1 − ρ) times that of independent ones."""
    random = np.random.default_rng(0)
    old = Sketch.of(random.standard_normal((20_000, 1)))
    steps = np.zeros((20_000, 1))
    for t in range(1, len(steps)):
        steps[t] = 0.8 * steps[t - 1] + 0.6 * random.standard_normal(1)
    own, plain = (old.averages(steps + 0.2, in_order)[1] for in_order in (True, False))
    expected = np.sqrt((1 / 20_000 + 1 / 20_000) / (1 / 20_000 + 9 / 20_000))
    assert own[0] / plain[0] == pytest.approx(expected, rel=0.05)


@pytest.fixture(scope="module")
def model():
    options = {"max_iter": 4, "n_init": 1, "random_state": 0, "finish": "none", "retries": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RPModelsWarning)
        return made(rp.RPHMM, 3, **options).fit(sensors(0, 60, SITES))


def test_streams_warn_or_refuse_where_they_are_asked_to(model):
    series = one_series("sensors", 53, 4 * SITES)
    plain, warned = model.stream(), model.stream(on_drift="warn")
    refused = model.stream(2, on_drift="raise")
    series["camera"][2 * SITES :] = 0.0
    said = []
    for t in range(4 * SITES):
        row = {name: each[t] for name, each in series.items()}
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            np.testing.assert_array_equal(plain.update(row), warned.update(row))
        said += [(t, str(each.message)) for each in heard]
    assert [t for t, _ in said] == [3 * SITES - 1]
    assert "in the last 20 rows factor 'camera' shows nothing at all" in said[0][1]
    clean = one_series("sensors", 54, 3 * SITES)
    for t in range(3 * SITES - 1):
        refused.update({name: np.stack([clean[name][t], series[name][t]]) for name in series})
    before = refused.state
    with pytest.raises(InputError, match=r"series 1, in the last 20 rows factor 'camera' shows nothing"):
        refused.update({name: np.stack([clean[name][-1], series[name][3 * SITES - 1]]) for name in series})
    for name, each in before.items():
        np.testing.assert_array_equal(refused.state[name], each)
    with pytest.raises(InputError, match="on_drift: expected one of"):
        model.stream(on_drift="shout")


def test_forecasts_are_no_missing_rows(model):
    stream = model.stream(on_drift="raise")
    series = one_series("sensors", 55, 20 * SITES)
    for t in range(20 * SITES):
        stream.update({name: each[t] for name, each in series.items()})
        stream.update()
