"""A small session of spikes whose rates follow a path, in every form that people keep one in."""

import datetime

import numpy as np

N_UNITS = 12
DURATION = 1.2


def session(n_trials=12, seed=1000):
    """Spikes of units in trials of unequal length on one clock, epochs, and position 100 times a second."""
    rng = np.random.default_rng(seed)
    starts = 2.0 * np.arange(n_trials) + 0.5
    ends = starts + DURATION + 0.1 * rng.integers(0, 4, n_trials)
    gains = rng.uniform(-1.2, 1.2, N_UNITS)
    units = [[] for _ in range(N_UNITS)]
    clock = np.arange(0.0, 2.0 * n_trials + 1.0, 0.01)
    position = np.zeros(len(clock))
    for start, end in zip(starts, ends, strict=True):
        phase = rng.uniform(0, 6)
        inside = (clock >= start - 0.02) & (clock <= end + 0.02)
        position[inside] = np.sin(4 * (clock[inside] - start) + phase)
        for unit, gain in enumerate(gains):
            t = np.sort(rng.uniform(start, end, rng.poisson(70 * (end - start))))
            rate = 25 * np.exp(gain * np.sin(4 * (t - start) + phase)) / 70
            units[unit].append(t[rng.uniform(size=len(t)) < rate])
    return [np.concatenate(each) for each in units], np.stack([starts, ends], 1), clock, position


def by_trial(units, epochs):
    """The same as lists: trials, units, times since the trial began."""
    return [[t[(t >= start) & (t < end)] - start for t in units] for start, end in epochs]


def long_table(units, epochs):
    """The same as columns: trial, unit, time since the trial began, in order of time."""
    rows = [
        (f"trial{n:02d}", unit, time)
        for n, trial in enumerate(by_trial(units, epochs))
        for time, unit in sorted((time, unit) for unit, times in enumerate(trial) for time in times)
    ]
    trials, unit, time = zip(*rows, strict=True)
    return {"trial": np.array(trials), "unit": np.array(unit), "time": np.round(time, 6)}


def write_nwb(path, units, epochs, clock, position):
    """The same as an NWB file, position as a SpatialSeries."""
    import pynwb  # noqa: PLC0415
    from pynwb.behavior import Position, SpatialSeries  # noqa: PLC0415

    zone = datetime.UTC
    file = pynwb.NWBFile(
        session_description="a session",
        identifier="rpmodels-tests",
        session_start_time=datetime.datetime(2020, 1, 1, tzinfo=zone),
    )
    for times in units:
        file.add_unit(spike_times=times)
    for start, end in epochs:
        file.add_trial(start_time=float(start), stop_time=float(end))
    module = file.create_processing_module(name="behavior", description="where it was")
    series = SpatialSeries(name="position", data=position[:, None], timestamps=clock, reference_frame="the middle")
    module.add(Position(spatial_series=series))
    with pynwb.NWBHDF5IO(str(path), "w") as io:
        io.write(file)
