"""Every container is read as the plain arrays it holds, with its own times; and what cannot be read is said so."""

import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pytest

import rpmodels as rp
from registry import ESTIMATORS
from rpmodels.errors import InputError

PACKAGES = ("xarray", "pynapple", "neo", "pandas")
N, T, D = 6, 12, 3
CLOCK = 0.25 * np.arange(T) - 0.5


def trials(seed=0, n=N, width=D):
    x = np.random.default_rng(seed).standard_normal((n, T, width))
    x[0, 2:4] = np.nan  # missing
    return x


smooth = partial(ESTIMATORS["gpfa"].make, 1, max_iter=2)
points = partial(ESTIMATORS["fa"].make, 1, max_iter=2)
states = partial(ESTIMATORS["categorical"].make, max_iter=2)


def assert_same(one, other):
    assert one.specs == other.specs
    for name in one.specs:
        assert np.array_equal(one.values[name], other.values[name])
        assert np.array_equal(one.present[name], other.present[name])
    assert np.array_equal(one.times, other.times)
    assert np.array_equal(one.exists, other.exists)
    assert one.is_series == other.is_series


def assert_read_as(container, plain, times=None, **settings):
    """RPGPFA reads both to the same observations, and gives results in the same form."""
    model = smooth(**settings)
    (one, form), (other, plain_form) = model._read(container), model._read(plain, times=times)
    assert_same(one, other)
    assert type(form) is type(plain_form)


@pytest.fixture
def xr():
    return pytest.importorskip("xarray")


@pytest.fixture
def pd():
    return pytest.importorskip("pandas")


@pytest.fixture
def nap():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("pynapple")


@pytest.fixture
def neo():
    return pytest.importorskip("neo")


# ---- plain data -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((3, 4)),
        [np.zeros((3, 2)), None],
        {"a": np.zeros((3, 2)), "b": [np.zeros(2)]},
        {"a": ["yes", "no"]},
        [],
        {},
        None,
        [[0.0, 1.0], [2.0, 3.0]],
    ],
)
def test_plain_data_stay_as_they_are(X):
    for series in (True, False):
        same, times = rp.adapters.to_trials(X, series=series)
        assert same is X
        assert times is None
    assert rp.adapters.to_trials(X, "mine") == (X, "mine") or isinstance(X, np.ndarray)


def fresh(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


def test_importing_the_library_imports_no_container():
    # scikit-learn itself imports pandas where it is installed.
    code = f"""
import sys, sklearn.base
before = {{name for name in {PACKAGES} if name in sys.modules}}
import rpmodels
for name in rpmodels.__all__:
    getattr(rpmodels, name)
after = {{name for name in {PACKAGES} if name in sys.modules}}
assert after == before <= {{"pandas"}}, (before, after)
"""
    done = fresh(code)
    assert done.returncode == 0, done.stderr


def test_plain_data_need_no_container_package():
    code = f"""
import sys
sys.modules.update(dict.fromkeys({PACKAGES}))  # none of them can be imported now
import numpy as np, rpmodels as rp
rp.RPGPFA(1)._read([np.zeros((3, 2)), np.zeros((4, 2))])
"""
    done = fresh(code)
    assert done.returncode == 0, done.stderr


# ---- xarray ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dims", "order"),
    [
        (("trial", "time", "channel"), (0, 1, 2)),
        (("channel", "t", "trials"), (2, 1, 0)),
        (("Time", "unit", "sample"), (1, 2, 0)),
        (("session", "times", "channel"), (0, 1, 2)),
    ],
)
def test_dims_are_recognised_by_name(xr, dims, order):
    x = trials()
    names = {d.lower(): d for d in dims}
    time = next(names[name] for name in ("time", "times", "t") if name in names)
    array = xr.DataArray(x.transpose(order), dims=dims, coords={time: CLOCK})
    assert_read_as(array, x, CLOCK)


def test_other_names_keep_their_order(xr):
    x = trials()
    assert_read_as(xr.DataArray(x), x)
    assert_read_as(xr.DataArray(x[1]), x[1])
    assert_read_as(xr.DataArray(x, dims=("trial", "bin", "unit"), coords={"bin": CLOCK}), x, CLOCK)


def test_a_recording_of_xarray(xr):
    x = trials()[1]
    array = xr.DataArray(x.T, dims=("channel", "time"), coords={"time": CLOCK})
    assert_read_as(array, x, CLOCK, window=5)
    assert_read_as(array[0], x[:, 0], CLOCK, window=5)


def test_trials_of_one_channel_are_no_recording(xr):
    x = trials()[..., 0]
    assert_read_as(xr.DataArray(x, dims=("trial", "time")), x[..., None])
    labels = np.random.default_rng(0).integers(3, size=(N, T))
    assert_read_as(xr.DataArray(labels, dims=("trial", "time")), list(labels))


@pytest.mark.parametrize("unit", ["datetime64[ns]", "timedelta64[ns]", "U3"])
def test_coordinates_that_are_no_numbers_are_no_times(xr, unit):
    x = trials()
    labels = np.arange(T).astype(unit)
    assert_read_as(xr.DataArray(x, dims=("trial", "time", "channel"), coords={"time": labels}), x)


def test_a_dataset_has_a_factor_per_variable(xr):
    x, y = trials(), trials(1, width=2)
    data = xr.Dataset(
        {"x": (("time", "trial", "channel"), x.transpose(1, 0, 2)), "y": (("trial", "time", "place"), y)},
        coords={"time": CLOCK},
    )
    assert_read_as(data, {"x": x, "y": y}, CLOCK)
    assert_read_as({"x": data.x, "y": y}, {"x": x, "y": y}, CLOCK)


def test_data_arrays_may_have_several_clocks(xr):
    x, y = trials(), trials(1)[:, ::3]
    names = ("trial", "time", "channel")
    both = {
        "x": xr.DataArray(x, dims=names, coords={"time": CLOCK}),
        "y": xr.DataArray(y, dims=names, coords={"time": CLOCK[::3]}),
    }
    assert_read_as(both, {"x": x, "y": y}, {"x": CLOCK, "y": CLOCK[::3]})


def test_times_of_the_user_win(xr, pd):
    x, mine = trials(), np.arange(T) * 7.0
    array = xr.DataArray(x, dims=("trial", "time", "channel"), coords={"time": CLOCK})
    assert_same(smooth()._read(array, times=mine)[0], smooth()._read(x, times=mine)[0])
    dated = [pd.DataFrame(each, index=pd.date_range("2020", periods=T)) for each in x]
    assert_same(smooth()._read(dated, times=mine)[0], smooth()._read(list(x), times=mine)[0])


def test_xarray_in_every_estimator(xr):
    x = trials()
    array = xr.DataArray(x, dims=("trial", "time", "channel"), coords={"time": CLOCK})
    model = smooth().fit(array)
    assert_same(model.read(array), model.read(x, times=CLOCK))
    assert np.array_equal(model.transform(array), model.transform(x, times=CLOCK))
    assert np.array_equal(model.posterior(array).times[0], CLOCK)
    rows = np.random.default_rng(0).standard_normal((30, 4))
    data = xr.Dataset({"a": (("channel", "observation"), rows.T), "b": (("observation", "place"), rows[:, :2])})
    plain = {"a": rows, "b": rows[:, :2]}
    discrete = states().fit(data)
    assert_same(discrete.read(data), discrete.read(plain))
    assert np.array_equal(discrete.predict_proba(data), discrete.predict_proba(plain))
    assert discrete.score(data) == states().fit(plain).score(plain)
    table = xr.DataArray(rows.T, dims=("channel", "observation"))
    split = {"factors": {"left": [0, 1], "right": [2, 3]}}
    assert points(**split).fit(table).score_ == points(**split).fit(rows).score_


def test_new_data_of_rpfa_in_another_order(xr):
    rows = np.random.default_rng(0).standard_normal((30, 4))
    table = xr.DataArray(rows.T, dims=("channel", "observation"))
    model = points(factors={"left": [0, 1], "right": [2, 3]}).fit(table)
    assert np.array_equal(model.transform(table), model.transform(rows))


@pytest.mark.parametrize("dims", [("trial", "channel"), ("time", "x", "y"), ("x", "y", "time"), ("trial",), ()])
def test_dims_that_say_too_little(xr, dims):
    with pytest.raises(InputError, match=r"expected dims \(trial, time"):
        smooth().fit(xr.DataArray(np.zeros([4] * len(dims)), dims=dims))


def test_bad_xarray(xr):
    x = trials()
    data = xr.Dataset(
        {"x": (("trial", "time", "channel"), x), "y": (("trial", "t", "channel"), x)},
        coords={"time": CLOCK, "t": CLOCK + 1},
    )
    with pytest.raises(InputError, match=r"same times for all variables.*different times for x, y"):
        smooth().fit(data)
    with pytest.raises(InputError, match=r"trial 0 of a list.*one trial"):
        smooth().fit([xr.DataArray(x, dims=("trial", "time", "channel"))])
    with pytest.raises(InputError, match=r"got xarray.Variable"):
        smooth().fit(xr.Variable(("trial", "time", "channel"), x))
    with pytest.raises(InputError, match=r"hold no factor"):
        smooth().fit(xr.Dataset())


# ---- pandas ---------------------------------------------------------------------------------------


def unequal():
    lengths = [12, 7, 9, 10, 12, 5]
    return [x[:n] for x, n in zip(trials(), lengths, strict=True)], [CLOCK[:n] for n in lengths]


@pytest.mark.parametrize("names", [("trial", "time"), ("time", "trial"), ("sweep", "s"), (None, None)])
def test_two_levels_are_trials_and_times(pd, names):
    x, times = unequal()
    keys = [f"run {n}" for n in (3, 1, 2, 5, 4, 0)]
    levels = [np.repeat(keys, [len(t) for t in times]), np.concatenate(times)]
    if names[0] == "time":
        levels.reverse()
    frame = pd.DataFrame(np.concatenate(x), index=pd.MultiIndex.from_arrays(levels, names=names))
    assert_read_as(frame, x, times)
    if names[0] == "time":  # all trials at one time, then all at the next
        assert_read_as(
            {"a": frame.sort_index(level=0, sort_remaining=False, kind="stable")},
            {"a": sorted_as(x, keys, frame)},
            sorted_as(times, keys, frame),
        )


def sorted_as(parts, keys, frame):
    order = frame.sort_index(level=0, sort_remaining=False, kind="stable").index.get_level_values(1).unique()
    return [parts[keys.index(key)] for key in order]


def test_frames_with_times_as_index_are_trials(pd):
    x, times = unequal()
    frames = [pd.DataFrame(each, index=t) for each, t in zip(x, times, strict=True)]
    assert_read_as(frames, x, times)
    assert_read_as(tuple(frames), x, times)
    assert_read_as(dict(enumerate(frames)), x, times)
    assert_read_as({"a": frames, "b": x}, {"a": x, "b": x}, times)


def test_frames_under_names_are_factors(pd):
    x, y = trials()[1], trials(1)[1, ::2]
    one, other = pd.DataFrame(x, index=CLOCK), pd.DataFrame(y, index=CLOCK[::2])
    assert_read_as({"a": one, "b": one}, {"a": x, "b": x}, CLOCK)
    assert_read_as({"a": one, "b": other}, {"a": x, "b": y}, {"a": CLOCK, "b": CLOCK[::2]})


def test_a_trial_without_a_factor(pd):
    x, times = unequal()
    frames = [pd.DataFrame(each, index=t) for each, t in zip(x, times, strict=True)]
    assert_read_as({"a": [None, *frames[1:]], "b": frames}, {"a": [None, *x[1:]], "b": x}, times)


def test_tables_stay_tables(pd):
    rows = np.random.default_rng(0).standard_normal((20, 3))
    index = pd.MultiIndex.from_product([range(4), range(5)])
    frame = pd.DataFrame(rows, index=index, columns=list("abc"))
    assert rp.adapters.to_trials(frame, series=False)[0] is frame
    assert rp.adapters.to_trials(frame.reset_index(drop=True))[0].shape == rows.shape
    model = states(factors={"left": ["a", "b"], "right": ["c"]}).fit(frame)
    assert list(model.feature_names_in_) == list("abc")
    factors = {0: frame[["a"]], 1: frame[["b", "c"]]}  # tables with numbers for names
    assert_same(states().fit(factors).read(factors), rp.read({"0": rows[:, :1], "1": rows[:, 1:]}))


def test_frames_end_to_end(pd):
    x, times = unequal()
    frames = [pd.DataFrame(each, index=t) for each, t in zip(x, times, strict=True)]
    model = smooth().fit(frames)
    assert [len(each) for each in model.transform(frames)] == [len(each) for each in x]
    assert np.array_equal(model.score(frames), smooth().fit(x, times=times).score(x, times=times))


def test_bad_frames(pd):
    x, times = unequal()
    dated = pd.DataFrame(x[0], index=pd.date_range("2020", periods=T))
    with pytest.raises(InputError, match=r"index of a DataFrame: expected times as numbers .*datetime64"):
        smooth().fit([dated, dated])
    three = pd.DataFrame(x[0], index=pd.MultiIndex.from_arrays([[0] * T, [0] * T, CLOCK]))
    with pytest.raises(InputError, match=r"two levels, \(trial, time\), got 3"):
        smooth().fit(three)
    unnamed = pd.DataFrame(x[0], index=pd.MultiIndex.from_arrays([[np.nan] + [0.0] * (T - 1), CLOCK]))
    with pytest.raises(InputError, match="a trial for every row, got none for 1 rows"):
        smooth().fit(unnamed)
    one = pd.DataFrame(x[0], index=times[0])
    with pytest.raises(InputError, match="same columns in every trial"):
        smooth().fit([one, one[[1, 0, 2]]])
    with pytest.raises(InputError, match=r"times in all of them .*got 1 without"):
        smooth().fit([one, x[1]])
    with pytest.raises(InputError, match="strictly increasing"):
        smooth().fit([one, one[::-1]])


# ---- pynapple -------------------------------------------------------------------------------------


def test_pynapple_recordings(nap):
    x, y = trials()[0], trials(1)[1, ::2]
    t = CLOCK + 1
    frame, single = nap.TsdFrame(t=t, d=x), nap.Tsd(t=t, d=x[:, 0])
    assert_read_as(frame, x, t, window=5)
    assert_read_as(single, x[:, :1], t, window=5)
    assert_read_as({"a": frame, "b": single}, {"a": x, "b": x[:, :1]}, t)
    other = nap.TsdFrame(t=t[::2], d=y)
    assert_read_as({"a": frame, "b": other}, {"a": x, "b": y}, {"a": t, "b": t[::2]})
    assert_read_as([frame, other], [x, y], [t, t[::2]])


def test_pynapple_rows(nap):
    frame = nap.TsdFrame(t=np.arange(30.0), d=np.random.default_rng(0).standard_normal((30, 3)))
    model = points(factors={"a": [0], "b": [1, 2]}).fit(frame)
    assert_same(model.read(frame), model.read(frame.values))


def group_of_spikes(nap):
    random = np.random.default_rng(0)
    spikes = {unit: nap.Ts(np.sort(random.uniform(0, 20, 90))) for unit in (7, 3)}
    return nap.TsGroup(spikes, time_support=nap.IntervalSet(0, 20))


def test_spikes_in_bins(nap):
    group = group_of_spikes(nap)
    epochs = nap.IntervalSet([1.0, 5.0, 11.3], [2.0, 7.55, 13.3])
    counts, times = rp.adapters.binned(group, 0.1, epochs)
    assert [each.shape for each in counts] == [(10, 2), (25, 2), (20, 2)]
    for n, (trial, t) in enumerate(zip(counts, times, strict=True)):
        theirs = group.count(0.1, epochs[n])
        assert np.array_equal(trial, np.asarray(theirs.values)[: len(trial)])
        assert np.allclose(t + epochs.start[n], np.asarray(theirs.t)[: len(t)])
    assert np.array_equal(times[0], times[1][:10])  # one clock
    everything, _ = rp.adapters.binned(group, 0.1)
    assert everything[0].sum() == 180
    single, _ = rp.adapters.binned(group[3], 0.1, np.array([[0.0, 20.0]]))
    assert np.array_equal(single[0], everything[0][:, :1])
    assert smooth().fit(counts, times=times).transform(counts, times=times)[1].shape == (25, 1)


def test_bad_pynapple(nap):
    group = group_of_spikes(nap)
    with pytest.raises(InputError, match=r"spikes: see rp.adapters.binned.*got pynapple.TsGroup"):
        smooth().fit(group)
    with pytest.raises(InputError, match=r"TsdTensor: expected a list of arrays"):
        smooth().fit(nap.TsdTensor(t=CLOCK, d=np.zeros((T, 2, 2))))
    with pytest.raises(InputError, match=r"got pynapple.IntervalSet"):
        smooth().fit(nap.IntervalSet(0, 1))
    with pytest.raises(InputError, match=r"epochs: expected one or more.*shape \(0, 2\)"):
        rp.adapters.binned(group, 0.1, nap.IntervalSet(start=[], end=[]))
    with pytest.raises(InputError, match=r"epoch 1 to 1.05 s: expected at least one bin of 0.1 s"):
        rp.adapters.binned(group, 0.1, nap.IntervalSet(1, 1.05))
    for width in (0, -1.0, np.nan, "0.1"):
        with pytest.raises(InputError, match="bin_width"):
            rp.adapters.binned(group, width)
    for spikes in (np.zeros((3, 2)), [], [np.zeros((3, 2))], nap.TsdFrame(t=CLOCK, d=np.zeros((T, 2)))):
        with pytest.raises(InputError, match="spikes: expected"):
            rp.adapters.binned(spikes, 0.1)


# ---- neo ------------------------------------------------------------------------------------------


def signal(neo, x, start):
    ms = milliseconds()
    return neo.AnalogSignal(x, units="mV", sampling_period=250 * ms, t_start=1000 * start * ms)


def milliseconds():
    return pytest.importorskip("quantities").ms


def test_neo_signals(neo):
    x = trials()[0]
    analog = signal(neo, x, -0.5)
    assert_read_as(analog, x, CLOCK, window=5)
    irregular = neo.IrregularlySampledSignal(CLOCK * 1000 * milliseconds(), x, units="mV")
    assert_read_as(irregular, x, CLOCK)
    assert_read_as({"a": analog, "b": irregular}, {"a": x, "b": x}, CLOCK)


def test_segments_are_trials(neo):
    x, times = unequal()
    block = neo.Block()
    for each in x:
        segment = neo.Segment()
        segment.analogsignals.append(signal(neo, each, -0.5))
        segment.analogsignals.append(signal(neo, each[:, :1], -0.5))
        block.segments.append(segment)
    assert_read_as(list(block.segments), x, times)
    assert_read_as(block.segments, x, times)
    assert_read_as(block.segments[0], x[0], times[0])
    model = smooth().fit(block.segments)
    assert len(model.transform(block.segments)) == N


def test_spike_trains_in_bins(neo):
    ms = milliseconds()
    trains = [neo.SpikeTrain(np.array(t) * ms, t_stop=400 * ms) for t in ([10.0, 110.0, 120.0], [399.0, 300.0], [])]
    counts, times = rp.adapters.binned(trains, 0.1)
    assert counts[0].tolist() == [[1, 0, 0], [2, 0, 0], [0, 0, 0], [0, 2, 0]]
    assert np.allclose(times[0], [0.05, 0.15, 0.25, 0.35])
    segment = neo.Segment()
    segment.spiketrains.extend(trains)
    for same in (segment, segment.spiketrains):
        assert np.array_equal(rp.adapters.binned(same, 100 * ms).trials[0], counts[0])
    assert len(rp.adapters.binned([segment, segment], 0.1).trials) == 2
    block = neo.Block()
    block.segments.extend([segment, segment])
    assert np.array_equal(rp.adapters.binned(block, 0.1).trials[1], counts[0])
    epochs = neo.Epoch(times=[100, 300] * ms, durations=[200, 100] * ms)
    assert [each.tolist() for each in rp.adapters.binned(segment, 0.1, epochs).trials] == [
        [[2, 0, 0], [0, 0, 0]],
        [[0, 2, 0]],
    ]


def test_bad_neo(neo):
    with pytest.raises(InputError, match=r"neo.Segment: expected an AnalogSignal in every Segment .*binned"):
        smooth().fit([neo.Segment()])
    with pytest.raises(InputError, match=r"binned.*got neo.SpikeTrain"):
        smooth().fit(neo.SpikeTrain([1.0] * milliseconds(), t_stop=2 * milliseconds()))
    with pytest.raises(InputError, match=r"got neo.Block"):
        smooth().fit(neo.Block())
    with pytest.raises(InputError, match="spikes: expected"):
        rp.adapters.binned(neo.Segment(), 0.1)
    segment = neo.Segment()
    segment.spiketrains.append(neo.SpikeTrain([1.0] * milliseconds(), t_stop=2 * milliseconds()))
    with pytest.raises(InputError, match="one for each of 2 trials, or one for all, got 3"):
        rp.adapters.binned([segment, segment], 0.1, [[0, 1]] * 3)
