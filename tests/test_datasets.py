"""Loaders: found, downloaded with a checksum, damaged, or missing with a sentence."""

import functools
import gzip
import hashlib
import http.server
import os
import struct
import threading

import numpy as np
import pytest

import rpmodels as rp
from rpmodels.datasets import fetch, mnist
from rpmodels.datasets.fetch import RemoteFile
from rpmodels.errors import DataSetError, InputError


def idx(array: np.ndarray) -> bytes:
    return b"\x00\x00\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def homes(tmp_path, monkeypatch):
    """Two empty places to look: RPMODELS_DATA and the cache."""
    monkeypatch.setenv("RPMODELS_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(fetch.pooch, "os_cache", lambda _: tmp_path / "cache")
    return tmp_path


@pytest.fixture
def server(tmp_path):
    """A local mirror."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def test_a_file_is_downloaded_from_the_first_mirror_that_has_it_whole(homes, server):
    folder, url = server
    good = b"the right bytes"
    (folder / "good").mkdir()
    (folder / "bad").mkdir()
    (folder / "good" / "file").write_bytes(good)
    (folder / "bad" / "file").write_bytes(b"the wrong bytes")
    remote = RemoteFile("set", "file", hashlib.md5(good).hexdigest(), (f"{url}/none", f"{url}/bad", f"{url}/good"))
    path = remote.local()
    assert path.read_bytes() == good
    assert path.is_relative_to(homes / "cache")
    (folder / "good" / "file").unlink()
    assert remote.local() == path  # now from the cache


def test_a_file_that_is_nowhere_is_named_with_the_folder_and_the_command(homes, server):
    _, url = server
    with pytest.raises(DataSetError, match=r"file was not found in .*cache/set .* RPMODELS_DATA .*load_set\(\)"):
        RemoteFile("set", "file", "0" * 32, (url,)).local()


def make_mnist(folder, monkeypatch, *, zipped=True, dotted=False):
    random = np.random.default_rng(0)
    folder.mkdir(parents=True)
    sums = {}
    for stem in mnist._FILES:
        count = 20 if stem.startswith("train") else 10
        shape = (count, 28, 28) if "images" in stem else (count,)
        raw = idx(random.integers(0, 10, shape).astype(np.uint8))
        content = gzip.compress(raw) if zipped else raw
        name = stem.replace("-idx", ".idx") if dotted else stem
        (folder / (f"{stem}.gz" if zipped else name)).write_bytes(content)
        sums[stem] = hashlib.md5(content).hexdigest()
    monkeypatch.setattr(mnist, "_FILES", sums)
    monkeypatch.setattr(mnist, "_MIRRORS", ())


@pytest.mark.parametrize("options", [{}, {"zipped": False}, {"zipped": False, "dotted": True}])
def test_mnist_zipped_or_raw(homes, monkeypatch, options):
    make_mnist(homes / "data" / "mnist", monkeypatch, **options)
    images = rp.datasets.load_mnist()
    assert images.train_images.shape == (20, 28, 28)
    assert images.test_labels.shape == (10,)


def test_damaged_and_missing_mnist_files_are_named(homes, monkeypatch):
    folder = homes / "data" / "mnist"
    make_mnist(folder, monkeypatch)
    file = folder / "train-labels-idx1-ubyte.gz"
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    with pytest.raises(DataSetError, match=r"train-labels-idx1-ubyte.gz is damaged: expected MD5 .* fetch it again"):
        rp.datasets.load_mnist()
    file.unlink()
    with pytest.raises(DataSetError, match=r"train-labels-idx1-ubyte.gz was not found in"):
        rp.datasets.load_mnist()


def test_damaged_raw_files(tmp_path):
    array = np.zeros((2, 3), np.uint8)
    for content, text in (
        (idx(array)[:-1], "6 bytes for shape"),
        (b"PK\x03\x04junk", "an idx file of bytes"),
        (idx(array)[:6], "bytes for shape"),
    ):
        (tmp_path / "raw").write_bytes(content)
        with pytest.raises(DataSetError, match=text):
            mnist.read_idx(tmp_path / "raw")
    (tmp_path / "raw.gz").write_bytes(gzip.compress(idx(array))[:-9])
    with pytest.raises(DataSetError, match="a gzip file"):
        mnist.read_idx(tmp_path / "raw.gz")


@pytest.mark.skipif(not os.environ.get("RPMODELS_DATA"), reason="RPMODELS_DATA is not set: no MNIST here")
def test_the_papers_pairs():
    images = rp.datasets.load_mnist()
    pairs, labels = rp.datasets.make_pairs(images.train_images, images.train_labels, random_state=0)
    assert pairs["x1"].shape == (27_100, 28, 28)
    assert np.bincount(labels).tolist() == [2710] * 10


def test_groups_share_a_class_and_use_every_image_once():
    labels = np.repeat(np.arange(3), [10, 13, 11])
    images = np.arange(34)
    groups, classes = rp.datasets.make_pairs(images, labels, n_factors=3, random_state=0)
    used = np.concatenate(list(groups.values()))
    assert len(np.unique(used)) == len(used) == 27
    for members in groups.values():
        np.testing.assert_array_equal(labels[members], classes)
    again, _ = rp.datasets.make_pairs(images, labels, n_factors=3, random_state=0)
    np.testing.assert_array_equal(again["x1"], groups["x1"])
    with pytest.raises(InputError, match="Class 0: expected at least 12 images"):
        rp.datasets.make_pairs(images, labels, per_class=6)
    with pytest.raises(InputError, match="n_factors"):
        rp.datasets.make_pairs(images, labels, n_factors=1)


def test_digits_are_split_by_seed_and_scaled():
    one, two = (rp.datasets.load_digit_images(seed) for seed in (0, 1))
    assert one.train_images.shape[1:] == (8, 8)
    assert 0 <= one.train_images.min() <= one.train_images.max() == 1
    assert len(one.train_labels) + len(one.test_labels) == 1797
    assert not np.array_equal(one.test_labels, two.test_labels)


# ---- files that people bring --------------------------------------------------------------------------


def brought(homes, folder, name, **arrays):
    """A file where loaders look for it."""
    path = homes / "data" / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
    return path


def maze_file(homes, **changed):
    random = np.random.default_rng(0)
    spikes = random.poisson(0.1, (6, 10, 4)).astype(np.uint8)
    spikes[:, :, 2] = 0
    spikes[0, 0, 2] = 1  # once in 0.3 s: 3.3 a second
    hand = random.standard_normal((6, 10, 2)).astype(np.float32)
    given = {"spikes": spikes, "hand_position": hand, "hand_velocity": 2 * hand, "condition": np.arange(6) % 2}
    brought(homes, "neural", "mc_maze_large_9cond_5ms.npz", **{**given, **changed})
    return spikes, hand


def test_spikes_of_the_maze_are_summed_and_the_hand_is_averaged(homes):
    spikes, hand = maze_file(homes)
    found = rp.datasets.load_mc_maze(0.015)
    assert found.counts.shape == (6, 3, 4)  # the tenth bin of the file is left over
    assert found.counts.sum() == spikes[:, :9].sum()
    np.testing.assert_array_equal(found.counts[3, 1], spikes[3, 3:6].sum(0))
    np.testing.assert_allclose(found.velocity[5, 2], 2 * hand[5, 6:9].mean(0), rtol=1e-6)
    np.testing.assert_allclose(found.times, [0.0075, 0.0225, 0.0375])
    assert len(found) == 6


def test_units_that_hardly_fire_are_left_out(homes):
    spikes, _ = maze_file(homes)
    found = rp.datasets.load_mc_maze(min_rate=4.0)
    np.testing.assert_array_equal(found.counts.sum((0, 1)), spikes[:, :8].sum((0, 1))[[0, 1, 3]])
    with pytest.raises(InputError, match="min_rate: expected a rate that some unit reaches"):
        rp.datasets.load_mc_maze(min_rate=1e4)


@pytest.mark.parametrize("width", [0.012, 0.0, 0.055])
def test_bins_of_the_maze_are_multiples_of_its_own(homes, width):
    maze_file(homes)
    with pytest.raises(InputError, match="bin_width"):
        rp.datasets.load_mc_maze(width)


def test_reaches_are_cut_into_trials_with_their_targets(homes):
    x, place, target = np.arange(14).reshape(7, 2), np.arange(14.0).reshape(7, 2), np.array([2, 2, 2, 0, 0, 7, 7])
    lengths = np.array([3, 2, 2])
    brought(homes, "neural", "reach_chewie-10032013_100ms.npz", x=x, pos=place, vel=-place, y=target, length=lengths)
    found = rp.datasets.load_reach()
    assert [len(each) for each in found.counts] == [len(each) for each in found.position] == [3, 2, 2]
    np.testing.assert_array_equal(np.concatenate(found.velocity), -place)
    assert found.target.tolist() == [2, 0, 7]
    np.testing.assert_allclose(found.angle, [0.0, np.pi / 2, -5 * np.pi / 4])  # clockwise from the top
    assert len(found) == 3


def test_a_night_is_one_recording(homes):
    counts = np.arange(6, dtype=np.uint16).reshape(3, 2)
    brought(homes, "neural", "ca1_sleep_4s.npz", counts=counts, state=np.array([0, 2, 1], np.uint8))
    found = rp.datasets.load_ca1_sleep()
    assert found.counts.dtype == np.float64
    assert [found.names[each] for each in found.state] == ["wake", "REM", "NREM"]
    assert found.times.tolist() == [2.0, 6.0, 10.0]


def test_some_rows_of_scenes_lack_views_and_none_lacks_all(homes):
    views = {f"v{j}": np.full((200, j + 1), j, np.float32) for j in range(3)}
    brought(homes, "multiview", "multiview_Scene-15.npz", y=1 + np.arange(200) % 15, **views)
    whole = rp.datasets.load_scene15()
    assert whole.category.min() == 0
    assert not any(np.isnan(each).any() for each in whole.views.values())
    found = rp.datasets.load_scene15(0.3, random_state=1)
    lacking = np.stack([np.isnan(each).all(1) for each in found.views.values()], 1)
    np.testing.assert_array_equal(lacking, np.stack([np.isnan(each).any(1) for each in found.views.values()], 1))
    assert lacking.any(1).sum() == 60
    assert set(lacking.sum(1)) == {0, 1, 2}
    assert not np.array_equal(lacking[:, 0], np.isnan(rp.datasets.load_scene15(0.3, random_state=2).views["v0"]).all(1))
    with pytest.raises(InputError, match="missing"):
        rp.datasets.load_scene15(1.0)


@pytest.mark.parametrize(
    ("load", "file"),
    [
        (rp.datasets.load_mc_maze, "mc_maze_large_9cond_5ms.npz"),
        (rp.datasets.load_reach, "reach_chewie-10032013_100ms.npz"),
        (rp.datasets.load_ca1_sleep, "ca1_sleep_4s.npz"),
        (rp.datasets.load_scene15, "multiview_Scene-15.npz"),
    ],
)
def test_files_to_bring_are_named_when_missing_or_odd(homes, load, file):
    folder = "multiview" if "multiview" in file else "neural"
    with pytest.raises(
        DataSetError, match=rf"{file} was not found: expected it in .*data/{folder} or .*cache/{folder}"
    ):
        load()
    brought(homes, folder, file, other=np.zeros(3))
    with pytest.raises(DataSetError, match=rf"{file} is damaged: expected an .npz file with `"):
        load()


def test_arrays_of_other_forms_are_refused(homes):
    maze_file(homes, condition=np.zeros((6, 2)))
    with pytest.raises(DataSetError, match=r"`condition` of 1 axes, got .*\(6, 2\)"):
        rp.datasets.load_mc_maze()
