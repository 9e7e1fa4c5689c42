"""Spike times in any form become the same counts, and what cannot be meant is refused in a sentence."""

import subprocess
import sys
import warnings
from itertools import pairwise

import numpy as np
import pytest

import events_data
import rpmodels as rp
from registry import ESTIMATORS
from rpmodels.errors import InputError, MissingPackageError
from rpmodels.observations.events import events_in_columns

WIDTH = 0.05
UNITS, EPOCHS, CLOCK, POSITION = events_data.session()
TRIALS = events_data.by_trial(UNITS, EPOCHS)


def counted(units=UNITS, epochs=EPOCHS, width=WIDTH):
    """An independent count: numpy's histograms."""
    found = []
    for start, end in epochs:
        bins = int(np.floor((end - start) / width + 1e-6))
        edges = start + width * np.arange(bins + 1)
        found.append(np.stack([np.histogram(t[t < edges[-1]], edges)[0] for t in units], 1))
    return found


def assert_counted(binned, expected=None):
    expected = counted() if expected is None else expected
    assert len(binned.trials) == len(expected)
    for ours, theirs in zip(binned.trials, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.fixture
def pd():
    return pytest.importorskip("pandas")


# ---- every form -----------------------------------------------------------------------------------


def test_a_session_of_lists_and_dicts():
    assert_counted(rp.adapters.binned(UNITS, WIDTH, EPOCHS))
    named = {f"u{n}": times for n, times in enumerate(UNITS)}
    spikes = rp.adapters.binned(named, WIDTH, EPOCHS)
    assert_counted(spikes)
    assert spikes.units == tuple(named)
    assert spikes.starts == pytest.approx(tuple(EPOCHS[:, 0]))
    np.testing.assert_allclose(spikes.times[3], WIDTH * (np.arange(len(spikes.trials[3])) + 0.5))
    some = rp.adapters.binned(named, WIDTH, EPOCHS, units=["u3", "u0"])
    assert_counted(some, [each[:, [3, 0]] for each in counted()])
    shuffled = [np.random.default_rng(0).permutation(t) for t in UNITS]
    assert_counted(rp.adapters.binned(shuffled, WIDTH, EPOCHS))


def test_lists_of_trials():
    lengths = [(0.0, end - start) for start, end in EPOCHS]
    assert_counted(rp.adapters.binned(TRIALS, WIDTH, lengths))
    dicts = [{f"u{n}": t for n, t in enumerate(trial)} for trial in TRIALS]
    assert_counted(rp.adapters.binned(dicts, WIDTH, lengths))
    by_unit = {f"u{n}": [trial[n] for trial in TRIALS] for n in range(len(UNITS))}
    assert_counted(rp.adapters.binned(by_unit, WIDTH, lengths))
    nested = [[t.tolist() for t in trial] for trial in TRIALS]
    assert_counted(rp.adapters.binned(nested, WIDTH, lengths))
    shared = rp.adapters.binned(TRIALS, WIDTH, (0, 1.0))
    assert {len(each) for each in shared.trials} == {20}


def test_without_epochs_a_trial_ends_with_its_last_event():
    spikes = rp.adapters.binned([[[0.01, 0.26], []], [[], [0.04, 0.05]]], 0.1)
    assert [each.tolist() for each in spikes.trials] == [[[1, 0], [0, 0], [1, 0]], [[0, 2]]]
    before = rp.adapters.binned({"a": [-0.3, 0.15]}, 0.1)
    assert before.starts == (-0.3,)
    assert before.trials[0][:, 0].tolist() == [1, 0, 0, 0, 1]


def test_a_unit_of_a_dict_may_be_silent_in_a_trial():
    spikes = rp.adapters.binned([{"a": [0.01], "b": [0.05]}, {"b": [0.01, 0.02]}], 0.1, (0, 0.1))
    assert spikes.units == ("a", "b")
    assert [each.tolist() for each in spikes.trials] == [[[1, 1]], [[0, 2]]]


@pytest.mark.parametrize(("unit", "factor"), [("ms", 1e-3), ("us", 1e-6), (1 / 30_000, 1 / 30_000)])
def test_any_unit_of_time(unit, factor):
    scaled = [times / factor for times in UNITS]
    assert_counted(rp.adapters.binned(scaled, WIDTH, EPOCHS / factor, time_unit=unit))


def test_quantities_and_timedeltas(pd):
    pq = pytest.importorskip("quantities")
    assert_counted(rp.adapters.binned([t * 1000 * pq.ms for t in UNITS], 50 * pq.ms, EPOCHS))
    unit, time = np.repeat(np.arange(len(UNITS)), [len(t) for t in UNITS]), np.concatenate(UNITS)
    frame = pd.DataFrame({"unit": unit, "time": pd.to_timedelta(time, unit="s")})
    assert_counted(rp.adapters.binned(frame, WIDTH, EPOCHS))


def test_long_tables(pd):
    frame = pd.DataFrame(events_data.long_table(UNITS, EPOCHS))
    lengths = [(0.0, end - start) for start, end in EPOCHS]
    spikes = rp.adapters.binned(frame, WIDTH, lengths)
    assert_counted(spikes)
    assert spikes.units == tuple(range(len(UNITS)))
    assert spikes.labels[3] == "trial03"
    named = frame.rename(columns={"trial": "sweep", "unit": "who", "time": "when"}).sample(frac=1, random_state=0)
    mixed = rp.adapters.binned(named, WIDTH, (0, 1.0), unit="who", time="when", trial="sweep")
    order = [int(label[5:]) for label in mixed.labels]
    assert_counted(mixed.subset(np.argsort(order)), [each[:20] for each in counted()])
    whole = pd.DataFrame(
        {"unit": np.repeat(np.arange(len(UNITS)), [len(t) for t in UNITS]), "time": np.concatenate(UNITS)}
    )
    epochs = pd.DataFrame({"start": EPOCHS[:, 0], "end": EPOCHS[:, 1]})
    assert_counted(rp.adapters.binned(whole, WIDTH, epochs))


def test_pynapple_counts_the_same():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nap = pytest.importorskip("pynapple")
    group = nap.TsGroup({n + 5: nap.Ts(t) for n, t in enumerate(UNITS)}, time_support=nap.IntervalSet(0, 30))
    spikes = rp.adapters.binned(group, WIDTH, nap.IntervalSet(EPOCHS[:, 0], EPOCHS[:, 1]))
    assert_counted(spikes)
    assert spikes.units == tuple(range(5, 5 + len(UNITS)))


@pytest.fixture(scope="module")
def nwb(tmp_path_factory):
    pytest.importorskip("pynwb")
    path = tmp_path_factory.mktemp("nwb") / "session.nwb"
    events_data.write_nwb(path, UNITS, EPOCHS, CLOCK, POSITION)
    return path


def test_nwb_files_and_sessions(nwb):
    import pynwb  # noqa: PLC0415

    spikes = rp.adapters.binned(nwb, WIDTH)
    assert_counted(spikes)
    assert_counted(rp.adapters.binned(str(nwb), WIDTH, EPOCHS[:2]), counted(epochs=EPOCHS[:2]))
    with pynwb.NWBHDF5IO(str(nwb), "r") as file:
        session = file.read()
        assert_counted(rp.adapters.binned(session, WIDTH))
        series = session.processing["behavior"]["Position"]["position"]
        values, times = rp.adapters.to_trials(series)
        np.testing.assert_array_equal(times, CLOCK)
        np.testing.assert_array_equal(values[:, 0], POSITION)


def test_nwb_without_units_or_package(tmp_path, nwb, monkeypatch):
    (tmp_path / "no.nwb").write_text("something else")
    with pytest.raises(InputError, match="cannot be read: expected an NWB file"):
        rp.adapters.binned(tmp_path / "no.nwb", WIDTH)
    with pytest.raises(InputError, match="no such file"):
        rp.adapters.binned(tmp_path / "none.nwb", WIDTH)
    monkeypatch.setitem(__import__("sys").modules, "pynwb", None)
    with pytest.raises(MissingPackageError, match=r"rpmodels\[nwb\]"):
        rp.adapters.binned(nwb, WIDTH)


@pytest.fixture
def sorted_folder(tmp_path):
    times = np.concatenate(UNITS)
    clusters = np.repeat(np.arange(len(UNITS)) * 3, [len(t) for t in UNITS])
    order = np.argsort(times)
    np.save(tmp_path / "spike_times.npy", np.round(times[order] * 30_000).astype(np.uint64)[:, None])
    np.save(tmp_path / "spike_clusters.npy", clusters[order].astype(np.int32))
    rows = [f"{3 * n}\t{'noise' if n == 4 else 'good'}" for n in range(len(UNITS))]
    (tmp_path / "cluster_group.tsv").write_text("\n".join(["cluster_id\tgroup", *rows]) + "\n")
    (tmp_path / "params.py").write_text("dat_path = open('/nowhere')\nsample_rate = 30000.\noffset = 0\n")
    return tmp_path


def test_folders_of_spike_sorters(sorted_folder):
    kept = [n for n in range(len(UNITS)) if n != 4]
    rounded = [np.round(UNITS[n] * 30_000) / 30_000 for n in kept]
    spikes = rp.adapters.binned(sorted_folder, WIDTH, EPOCHS)  # params.py is never run: it would fail
    assert_counted(spikes, counted(rounded))
    assert spikes.units == tuple(3 * n for n in kept)
    (sorted_folder / "params.py").write_text("sample_rate = input()")
    with pytest.raises(InputError, match="sample_rate = 30000"):
        rp.adapters.binned(sorted_folder, WIDTH, EPOCHS)
    assert_counted(
        rp.adapters.binned(str(sorted_folder), WIDTH, EPOCHS * 30_000, time_unit=1 / 30_000), counted(rounded)
    )
    (sorted_folder / "spike_clusters.npy").unlink()
    with pytest.raises(InputError, match=r"spike_clusters.npy is not there"):
        rp.adapters.binned(sorted_folder, WIDTH, EPOCHS)


# ---- what cannot be meant -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spikes", "options", "said"),
    [
        ([np.arange(20.0) * 7, np.arange(9.0)], {}, r"whole numbers \(up to 133\).*time_unit"),
        (UNITS, {"time_unit": "hours"}, "time_unit: expected s, ms"),
        (UNITS, {"units": [99]}, "units: expected some of 0, 1"),
        ([[[0.1], [0.2]], [[0.1]]], {}, "trial 1 has 1 units and the first one 2"),
        ([[[0.1], [0.2]], [[], []]], {}, "Trial 1 has no event"),
        ([[0.1, np.nan]], {}, "finite times"),
        ({"a": ["x", "y"]}, {}, "times as numbers"),
        ("nowhere.nwb", {}, "no such file"),
        ([[[0.1 + 2 * n, 1.2 + 2 * n]] for n in range(3)], {}, "run on from trial to trial"),
        (TRIALS, {"epochs": EPOCHS[:3]}, "one for each of 12 trials"),
        ({"a": [0.1, 0.2]}, {"epochs": {"from": [0], "to": [1]}}, "columns for beginnings"),
        ([[[[0.1]]]], {}, "spikes: expected spike times"),
    ],
)  # fmt: skip
def test_bad_events(spikes, options, said):
    with pytest.raises(InputError, match=said):
        rp.adapters.binned(spikes, WIDTH, **options)


def test_bins_that_no_machine_has_room_for():
    with pytest.raises(InputError, match="GB of this machine's memory"):
        rp.adapters.binned({"a": [0.1, 1e9]}, 1e-6)


def test_trials_on_a_session_clock_may_be_aligned():
    late = [[t + 10.0 * n for t in trial] for n, trial in enumerate(TRIALS)]
    spikes = rp.adapters.binned(late, WIDTH, align=True)
    first = min(float(t[0]) for t in TRIALS[2])
    begun = [t - first for t in TRIALS[2]]
    edges = WIDTH * np.arange(len(spikes.trials[2]) + 1)
    np.testing.assert_array_equal(spikes.trials[2], np.stack([np.histogram(t + 1e-12, edges)[0] for t in begun], 1))


RAW = {
    "trials": TRIALS,
    "lists of numbers": [[t.tolist() for t in trial] for trial in TRIALS],
    "units": UNITS,
    "dict": {f"u{n}": t for n, t in enumerate(UNITS)},
    "factor": {"spikes": TRIALS},
}


@pytest.mark.parametrize("raw", RAW.values(), ids=RAW.keys())
@pytest.mark.parametrize("model", ["gpfa", "lds", "hmm", "fa"])
def test_raw_spike_times_are_told_where_to_go(raw, model):
    with pytest.raises(InputError, match=r"look like spike times.*rp\.adapters\.binned"):
        ESTIMATORS[model].make().fit(raw)


def test_a_table_of_events_is_no_recording(pd):
    frame = pd.DataFrame(events_data.long_table(UNITS, EPOCHS))
    with pytest.raises(InputError, match=r"'unit' names its unit.*rp\.adapters\.binned\(frame"):
        ESTIMATORS["gpfa"].make().fit(frame)


def numbers(**columns):
    return {name: np.asarray(each) for name, each in columns.items()}


def test_tables_of_samples_are_none_of_events():
    rng = np.random.default_rng(0)
    trial, t = np.repeat(np.arange(20), 50), np.tile(np.arange(50) * 0.02, 20)
    counts = rng.poisson(1.0, (1000, 3))
    tidy = {"trial": np.repeat(trial, 4), "time": np.repeat(t, 4), "unit": np.tile(np.arange(4), 1000)}
    samples = [
        numbers(trial=trial, time=t, u0=counts[:, 0]),
        numbers(trial=trial, time=t, u0=counts[:, 0], u1=counts[:, 1], u2=counts[:, 2]),
        numbers(time=np.arange(1000) * 0.02, u0=counts[:, 0]),
        numbers(**tidy, rate=rng.uniform(size=4000)),
        numbers(trial=trial, time=np.sort(rng.uniform(size=1000)), x=rng.standard_normal(1000)),
        numbers(time=rng.uniform(size=1000), a=counts[:, 0], b=counts[:, 1]),
        numbers(a=counts[:, 0], b=counts[:, 1]),
    ]
    assert [events_in_columns(each) for each in samples] == [None] * len(samples)


def test_tables_of_events_are_recognised():
    table = events_data.long_table(UNITS, EPOCHS)
    found = events_in_columns(table)
    assert (found.unit, found.time, found.trial) == ("unit", "time", "trial")
    session = numbers(cell=np.repeat(np.arange(12), [len(t) for t in UNITS]), t=np.concatenate(UNITS))
    assert events_in_columns(session).unit == "cell"
    nameless = {"when": table["time"], "trial": table["trial"], "k": table["unit"]}
    assert events_in_columns(nameless, time="when").unit == "k"
    assert events_in_columns(nameless, time="when", named=True) is None
    rounded = {**table, "time": np.round(table["time"], 2), "amplitude": np.ones(len(table["unit"]))}
    assert events_in_columns(rounded).unit == "unit"


# ---- what it is good for --------------------------------------------------------------------------


def test_estimators_take_what_binned_made():
    spikes = rp.adapters.binned(UNITS, WIDTH, EPOCHS)
    counts, times = spikes
    smooth = ESTIMATORS["gpfa"].make(1, max_iter=2)
    one, other = smooth._read(spikes)[0], smooth._read(counts, times=times)[0]
    for name in one.specs:
        np.testing.assert_array_equal(one.values[name], other.values[name])
    np.testing.assert_array_equal(one.times, other.times)
    model = smooth.fit(spikes)
    assert [len(each) for each in model.transform(spikes)] == [len(each) for each in counts]
    both = {"spikes": spikes, "position": spikes.beside(POSITION, CLOCK)}
    assert set(ESTIMATORS["gpfa"].make(1, max_iter=2).fit(both).read(both).specs) == {"spikes", "position"}
    rows = ESTIMATORS["fa"].make(1, max_iter=2, channels="separate").fit(spikes)
    assert rows.transform(spikes).shape == (sum(map(len, counts)), 1)


def test_merged_bins_keep_units_and_times():
    fine, wide = rp.adapters.binned(UNITS, WIDTH, EPOCHS), rp.adapters.binned(UNITS, 2 * WIDTH, EPOCHS)
    merged = rp.adapters.merged(fine, 2)
    assert_counted(merged, wide.trials)
    assert merged.bin_width == pytest.approx(2 * WIDTH)
    for one, other in zip(merged.times, wide.times, strict=True):
        np.testing.assert_allclose(one, other)


# ---- behaviour with a clock of its own ------------------------------------------------------------


def test_behaviour_is_averaged_within_bins():
    spikes = rp.adapters.binned(UNITS, WIDTH, EPOCHS)
    found = spikes.beside(POSITION[:, None], CLOCK)
    for start, trial, counts in zip(spikes.starts, found, spikes.trials, strict=True):
        edges = np.round(start + WIDTH * np.arange(len(counts) + 1), 9)
        expected = [POSITION[(a <= CLOCK) & (b > CLOCK)].mean() for a, b in pairwise(edges)]
        np.testing.assert_allclose(trial[:, 0], expected, atol=1e-12)


def test_behaviour_linear_nearest_and_where_nobody_knows():
    own, values = np.array([0.0, 0.1, 0.2, 0.3, 1.0, 1.1]), np.arange(6.0)
    at = np.array([-0.2, 0.04, 0.25, 0.6, 1.06, 1.4])
    linear = rp.adapters.interpolated(values, own, at, how="linear")
    np.testing.assert_allclose(linear, [np.nan, 0.4, 2.5, np.nan, 4.6, np.nan])
    nearest = rp.adapters.interpolated(values, own, at, how="nearest")
    np.testing.assert_allclose(nearest, [np.nan, 0.0, 2.0, np.nan, 5.0, np.nan])
    mean = rp.adapters.interpolated(values, own, np.array([0.1, 0.3, 0.5]), how="mean")
    np.testing.assert_allclose(mean, [0.5, 2.5, np.nan])
    gaps = np.where(values == 1, np.nan, values)
    assert rp.adapters.interpolated(gaps, own, np.array([0.1]), how="linear") == pytest.approx(1.0)


def test_angles_are_averaged_on_the_circle():
    own = np.linspace(0, 1, 101)
    true = np.pi - 0.3 + 0.6 * own
    angles = np.angle(np.exp(1j * true))  # jumps from π to −π
    found = rp.adapters.interpolated(angles, own, np.array([0.25, 0.5, 0.75]), how="linear", angular=True)
    np.testing.assert_allclose(np.angle(np.exp(1j * (found - true[[25, 50, 75]]))), 0.0, atol=1e-9)
    mean = rp.adapters.interpolated(angles, own, np.array([0.5]), how="mean", angular=True, width=0.1)
    assert abs(np.angle(np.exp(1j * (mean[0] - true[50])))) < 0.01


def test_labels_are_those_of_the_nearest_time():
    labels = np.array(["left", "left", "right", "right"])
    found = rp.adapters.interpolated(labels, [0.0, 1.0, 2.0, 3.0], [0.2, 1.4, 1.6, 3.0], how="auto")
    assert found.tolist() == ["left", "left", "right", "right"]
    with pytest.raises(InputError, match="a label near every bin"):
        rp.adapters.interpolated(labels, [0.0, 1.0, 2.0, 3.0], [9.0], how="nearest")
    with pytest.raises(InputError, match="how: expected nearest"):
        rp.adapters.interpolated(labels, [0.0, 1.0, 2.0, 3.0], [1.0], how="mean")


def test_adapters_may_be_the_first_thing_that_is_asked_for():
    code = "import rpmodels as rp; print(rp.adapters.binned([[0.01, 0.02, 0.15]], 0.1).trials[0].ravel())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "[2 1]\n", done.stderr
