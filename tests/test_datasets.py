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
