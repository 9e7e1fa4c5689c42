"""The hippocampal recording: files read and cut as their description says."""

import numpy as np
import pytest
from scipy.io import savemat

from rpmodels import datasets
from rpmodels.datasets.hippocampus import SPIKES, TRACKING, Hippocampus, read_spikes, read_tracking
from rpmodels.errors import RPModelsError


def tracking(path, times, x, y):
    record = np.dtype([("time", "<u4"), ("x", "<u2"), ("y", "<u2"), ("x2", "<u2"), ("y2", "<u2")])
    rows = np.zeros(len(times), record)
    rows["time"], rows["x"], rows["y"] = np.round(np.asarray(times) * 30_000), x, y
    path.write_bytes(b"<Start settings>\nclockrate: 30000\n<End settings>\n" + rows.tobytes())
    return path


def test_spikes_are_found_in_nested_cells(tmp_path):
    def unit(times):
        made = np.zeros((1, 1), dtype=[("time", object), ("meanrate", object)])
        made["time"][0, 0], made["meanrate"][0, 0] = np.array(times, float)[:, None], 1.0
        return made

    inner = np.empty((1, 3), object)
    inner[0, 0], inner[0, 1], inner[0, 2] = unit([3.0, 1.0, 2.0]), np.zeros((0, 0)), unit([])
    outer = np.empty((1, 2), object)
    outer[0, 0], outer[0, 1] = np.zeros((0, 0)), inner
    savemat(tmp_path / "s.mat", {"spikes": outer})
    units = read_spikes(tmp_path / "s.mat")
    assert [each.tolist() for each in units] == [[1.0, 2.0, 3.0]]


def test_frozen_and_carried_frames_are_left_out(tmp_path):
    times = np.arange(0, 100, 1 / 30)
    walk = 200 + 150 * np.sin(times / 3)
    x, y = walk.copy(), 0.3 * walk + 3 * np.sin(times * 7)
    lost = times > 80
    x[lost], y[lost] = 500, 5
    x[:30], y[:30] = 100, 460  # in somebody's hand
    found, position = read_tracking(tracking(tmp_path / "t", times, x, y))
    assert found.max() <= 80.1
    assert found.min() >= times[30]
    assert -0.1 < position.min() < position.max() < 1.1
    kept = np.isin(np.round(times * 30_000), np.round(found * 30_000))
    assert np.corrcoef(position, walk[kept])[0, 1] > 0.999


def test_runs_are_cut_where_the_animal_moves():
    times = np.arange(0, 40, 1 / 60)
    position = np.interp(times, [0, 5, 9, 20, 26, 40], [0, 0, 1, 1, 0, 0])
    spikes = (np.array([6.05, 6.06, 7.0]), np.array([22.0]))
    runs = Hippocampus(spikes, times, position).runs(bin_width=0.1)
    assert len(runs) == 2
    assert runs.direction.tolist() == [1, -1]
    assert [len(each) for each in runs.counts] == pytest.approx([40, 60], abs=6)
    assert [each.sum() for each in runs.counts] == [3, 1]
    counts, start = runs.counts[0], runs.position[0][0, 0]
    assert counts.shape[1] == 2
    assert 0.0 <= start < 0.05
    np.testing.assert_allclose(np.diff(runs.times[0]), 0.1)
    assert counts.max() == 2


def test_limits_that_nothing_passes_get_a_sentence():
    still = Hippocampus((np.array([1.0]),), np.arange(0, 10, 0.1), np.zeros(100))
    with pytest.raises(RPModelsError, match="min_speed"):
        still.runs()


@pytest.mark.parametrize(
    ("reader", "content"), [(read_spikes, b"no"), (read_tracking, b"no header"), (read_tracking, b"<End settings>\n")]
)
def test_other_files_are_named(reader, content, tmp_path):
    (tmp_path / "odd").write_bytes(content)
    with pytest.raises(RPModelsError, match="odd"):
        reader(tmp_path / "odd")


def test_the_recording_itself():
    if not (SPIKES.there() and TRACKING.there()):
        pytest.skip("the hippocampus data set is neither in RPMODELS_DATA nor in the cache")
    recording = datasets.load_hippocampus()
    runs = recording.runs()
    assert len(recording.spikes) == 31
    assert len(runs) == 65
    assert all(np.diff(each).min() >= 0 for each in recording.spikes)
    covered = [np.ptp(each) for each in runs.position]
    assert np.median(covered) > 0.8
