"""The arena: physics, pictures and ranges agree with each other; its cache and its refusals; the experiment."""

import logging
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import rpmodels as rp
from rpmodels import metrics
from rpmodels.errors import InputError, MissingPackageError
from rpmodels.paper.experiments.arena import VIEWS, ArenaExperiment, Settings
from rpmodels.paper.experiments.arena_tracking import shown_episode
from rpmodels.paper.experiments.curved_map import CurvedMap
from rpmodels.paper.experiments.runner import run_experiment
from rpmodels.paper.worlds import arena, arena_camera

pytest.importorskip("mujoco", reason="the extra `arena` is not installed")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / name)


@pytest.fixture(scope="module")
def episodes() -> rp.datasets.Arena:
    return rp.datasets.arena(12, 200, noise=0.0, random_state=3, cache=False, progress=False)


def test_shapes_and_room(episodes):
    assert episodes.frames.shape == (12, 200, 3, 64, 64)
    assert episodes.frames.dtype == np.uint8
    assert episodes.paths.shape == (12, 200, 3, 2)
    assert np.abs(episodes.paths).max() < 1.0, "an agent is outside the walls"
    assert np.linalg.norm(np.diff(episodes.paths, axis=1), axis=-1).max() < 0.1, "agents move, they do not jump"
    assert (np.diff(episodes.done.astype(int), axis=1) >= 0).all(), "what is done stays done"
    assert episodes.done[:, -1].any()
    assert not episodes.done[:, 0].any()


def test_ranges_are_distances_from_the_corners(episodes):
    corner = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    exact = np.linalg.norm(episodes.z[:, :, None] - corner, axis=-1)
    np.testing.assert_allclose(episodes.ranges, exact, rtol=1e-6)
    noisy = rp.datasets.arena(12, 200, noise=0.1, random_state=3, cache=False, progress=False, side=8)
    assert np.var(noisy.ranges - exact) == pytest.approx(0.1, rel=0.05)


def test_pictures_show_the_agents_where_they_are(episodes):
    """Independent of the renderer's geometry: the red pixels' centre, against the projected place."""
    red, green, blue = (episodes.frames[:, ::10, channel].astype(int) for channel in range(3))
    is_red = (red > 2 * green) & (red > 2 * blue)
    rows, columns = np.arange(64)[:, None], np.arange(64)
    count = is_red.sum((-2, -1))
    seen = count >= 12  # not hidden behind another agent
    assert seen.mean() > 0.8
    centre = np.stack([(is_red * each).sum((-2, -1)) / np.maximum(count, 1) for each in (columns, rows)], -1)
    expected = arena_camera.projected(episodes.z[:, ::10], 64)
    off = np.linalg.norm(centre - expected, axis=-1)[seen]
    assert np.median(off) < 1.0
    assert np.quantile(off, 0.95) < 3.0


def test_the_floor_turns_green_when_the_task_is_done(episodes):
    n = int(episodes.done[:, -1].argmax())
    before, after = episodes.frames[n, 0, :, 60, 32].astype(int), episodes.frames[n, -1, :, 60, 32].astype(int)
    column = episodes.frames[n, :, :, 50, 8:56].astype(int)  # a row of floor; agents may stand on a part of it
    greener = (column[:, 1] > column[:, 0] + 20).mean(-1) > 0.3
    np.testing.assert_array_equal(greener, episodes.done[n])
    assert before.tolist() == after.tolist(), "the wall in front does not change"


def test_the_episode_of_the_figures_completes_its_task(episodes):
    n = shown_episode(episodes)
    when = [row.tolist().index(True) if row.any() else None for row in episodes.done]
    assert abs(when[n] - 100) == min(abs(each - 100) for each in when if each is not None)
    unfinished = replace(episodes, done=np.zeros_like(episodes.done))
    assert shown_episode(unfinished) == 0


def test_one_path_says_little_of_another(episodes):
    for one in range(3):
        for other in {0, 1, 2} - {one}:
            assert metrics.nmse(episodes.paths[:, :, one], episodes.paths[:, :, other]) > 0.85


def test_episodes_depend_on_the_seed_and_their_number_alone(episodes):
    fewer = rp.datasets.arena(2, 200, noise=0.0, random_state=3, cache=False, progress=False)
    np.testing.assert_array_equal(fewer.frames, episodes.frames[:2])
    np.testing.assert_array_equal(fewer.ranges, episodes.ranges[:2])
    other = rp.datasets.arena(2, 200, random_state=4, cache=False, progress=False)
    assert (other.paths != fewer.paths).any(-1).all()


def test_cache_is_used_and_a_broken_one_is_rebuilt_aloud(tmp_path, monkeypatch, caplog):
    small = {"side": 8, "random_state": 0, "progress": False}
    first = rp.datasets.arena(2, 5, **small)
    (path,) = (tmp_path / "rpmodels" / "arena").glob("*.npz")
    with monkeypatch.context() as patched:
        patched.setattr(arena, "_generate", lambda *_: pytest.fail("generated again"))
        again = rp.datasets.arena(2, 5, **small)
    np.testing.assert_array_equal(first.frames, again.frames)
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], b"", whole[:300] + bytes(20) + whole[320:]):
        path.write_bytes(broken)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "rpmodels"):
            rebuilt = rp.datasets.arena(2, 5, **small)
        assert "broken" in caplog.text
        assert str(path) in caplog.text
        np.testing.assert_array_equal(first.frames, rebuilt.frames)


def test_without_a_seed_nothing_is_cached(tmp_path):
    rp.datasets.arena(1, 2, side=8, progress=False)
    assert not list(tmp_path.rglob("*.npz"))


def test_a_full_disk_costs_the_cache_only(monkeypatch, caplog):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(arena, "write_atomically", full)
    with caplog.at_level(logging.WARNING, "rpmodels"):
        made = rp.datasets.arena(1, 2, side=8, random_state=0, progress=False)
    assert "could not be cached" in caplog.text
    assert made.frames.shape == (1, 2, 3, 8, 8)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_agents": 0}, "n_agents"),
        ({"n_agents": 8, "n_blocks": 8}, "fit into the room"),
        ({"equipped": 3}, "0 to 2"),
        ({"noise": -1.0}, "noise"),
        ({"n_episodes": 0}, "n_episodes"),
        ({"side": 2}, "side"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_bad_arguments(options, said):
    with pytest.raises(InputError, match=said):
        rp.datasets.arena(**{"n_episodes": 1, "n_times": 1, "progress": False, **options})


def test_missing_and_old_mujoco(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(MissingPackageError, match=r"mujoco-core.*pip install 'rpmodels\[arena\]'"):
        rp.datasets.arena(1, 1)
    monkeypatch.setitem(sys.modules, "mujoco", SimpleNamespace(__version__="3.4.0"))
    with pytest.raises(MissingPackageError, match=r"MuJoCo ≥ 4\.0, and 3\.4\.0"):
        rp.datasets.arena(1, 1)


def test_one_agent_and_no_blocks():
    alone = rp.datasets.arena(1, 30, n_agents=1, n_blocks=0, side=16, random_state=0, progress=False)
    assert alone.paths.shape == (1, 30, 1, 2)
    assert not alone.done.any()


def test_the_experiment_writes_its_rows_and_pictures(tmp_path):
    tiny = Settings(n_training=3, n_heldout=1, n_times=12, n_inducing=4, max_iter=2, conditions=("",))
    experiment = ArenaExperiment()
    experiment.presets = {"tiny": tiny}
    experiment.default_seeds = {"tiny": 1}
    folder = run_experiment(experiment, "tiny", out=tmp_path / "out")
    assert {path.name for path in (folder / "seeds").iterdir()} == {
        f"RP-GPFA-{method}-0.json" for method in (*VIEWS, "distractor-1", "distractor-2")
    }
    for name in ("contact_sheet.png", "integration.png", "missing_sensors.png", "arena.gif"):
        assert (folder / name).stat().st_size > 1000


def test_a_curved_map_undoes_a_warp_and_carries_covariances_along():
    random = np.random.default_rng(0)
    z = random.uniform(-1, 1, (5, 40, 2))
    truth = np.stack([z[..., 0] + 0.3 * z[..., 1] ** 3, z[..., 1] - 0.2 * z[..., 0] * z[..., 1]], -1)
    curve = CurvedMap(z, truth)
    covariance = np.tile(np.array([[2.0, 0.5], [0.5, 1.0]]), (5, 40, 1, 1))
    mean, moved = curve(z, covariance)
    np.testing.assert_allclose(mean, truth, atol=1e-10)
    # Independent of the map's own slopes: those of the warp, by hand.
    a, b = z[..., 0], z[..., 1]
    slopes = np.stack([np.stack([np.ones_like(a), 0.9 * b**2], -1), np.stack([-0.2 * b, 1 - 0.2 * a], -1)], -2)
    np.testing.assert_allclose(moved, slopes @ covariance @ slopes.swapaxes(-1, -2), atol=1e-8)
