"""Mosaics of textures, and the photographs of van Hateren: what they hold, and what is said when they are not there."""

import os
import sys

import numpy as np
import pytest

from rpmodels.datasets import fetch
from rpmodels.datasets.textures import TEXTURES, load_van_hateren, texture_mosaics
from rpmodels.errors import DataSetError, InputError, MissingPackageError


def patches_of(images: np.ndarray, size: int) -> np.ndarray:
    n, height, width = images.shape
    cut = images.reshape(n, height // size, size, width // size, size).swapaxes(2, 3)
    return cut.reshape(n, -1, size, size)


def test_mosaics_have_the_shapes_and_the_range_they_should():
    skimage = pytest.importorskip("skimage")
    mosaics = texture_mosaics(n_images=4, random_state=0)
    assert mosaics.images.shape == (4, 280, 280)
    assert mosaics.images.dtype == np.float32
    assert mosaics.labels.shape == (4, 100)
    assert mosaics.proportions.shape == (4, 3)
    assert mosaics.images.min() >= 0
    assert mosaics.images.max() <= 1
    np.testing.assert_allclose(mosaics.proportions.sum(1), 1)
    photographs = [getattr(skimage.data, name)() for name in TEXTURES]
    assert mosaics.images.max() <= max(each.max() for each in photographs) / 255 + 1e-6


def test_every_patch_is_a_crop_of_the_texture_it_is_labelled_with():
    """Looked for in the photograph, mirrored in every way."""
    skimage = pytest.importorskip("skimage")
    mosaics = texture_mosaics(n_images=2, grid=(2, 3), patch_size=12, alpha=5.0, random_state=1)
    assert mosaics.images.shape == (2, 24, 36)
    patches = np.round(255 * patches_of(mosaics.images, 12)).astype(np.uint8).reshape(-1, 12, 12)
    seen = set()
    for patch, label in zip(patches, mosaics.labels.ravel(), strict=True):
        windows = np.lib.stride_tricks.sliding_window_view(getattr(skimage.data, TEXTURES[label])(), (12, 12))
        found = [
            (a, b)
            for a in (1, -1)
            for b in (1, -1)
            for tops in [np.argwhere(windows[:, :, 0, 0] == patch[::a, ::b][0, 0])]
            if (windows[tops[:, 0], tops[:, 1]] == patch[::a, ::b]).all((1, 2)).any()
        ]
        assert found
        seen.update(found)
    assert len(seen) > 1  # some are mirrored, some not


def test_labels_follow_the_proportions_and_these_the_dirichlet():
    pytest.importorskip("skimage")
    mosaics = texture_mosaics(n_images=400, grid=(10, 10), patch_size=2, alpha=0.5, random_state=0)
    shares = (mosaics.labels[..., None] == np.arange(3)).mean(1)
    error = shares - mosaics.proportions
    assert np.abs(error).max() < 0.25
    assert np.mean(error**2) == pytest.approx(np.mean(mosaics.proportions * (1 - mosaics.proportions)) / 100, rel=0.2)
    assert mosaics.proportions.var(0) == pytest.approx(np.full(3, 2 / 9 / 2.5), rel=0.2)  # p(1−p)/(1 + 3α)


def test_mosaics_come_again_by_seed():
    pytest.importorskip("skimage")
    one, two, other = (texture_mosaics(n_images=2, grid=(2, 2), random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.images, two.images)
    np.testing.assert_array_equal(one.labels, two.labels)
    assert (one.images != other.images).any()


def test_mosaics_that_cannot_be_made_are_refused(monkeypatch):
    pytest.importorskip("skimage")
    with pytest.raises(InputError, match="n_images"):
        texture_mosaics(n_images=0)
    with pytest.raises(InputError, match="alpha"):
        texture_mosaics(alpha=0.0)
    with pytest.raises(InputError, match="patch_size: expected at most 512"):
        texture_mosaics(patch_size=513)
    with pytest.raises(InputError, match="grid"):
        texture_mosaics(grid=(0, 3))
    monkeypatch.setitem(sys.modules, "skimage", None)
    with pytest.raises(MissingPackageError, match=r"scikit-image.*rpmodels\[textures\]"):
        texture_mosaics(n_images=1)


# ---- van Hateren --------------------------------------------------------------------------------


def camera(seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.exp(random.normal(6, 1, (1024, 1536))).clip(0, 65535).astype(np.uint16)


@pytest.fixture
def folder(tmp_path):
    """Two photographs as the camera wrote them, and something else."""
    for name, seed in (("imk00002.imc", 1), ("imk00001.iml", 0)):
        camera(seed).astype(">u2").tofile(tmp_path / name)
    (tmp_path / "readme.txt").write_text("not a photograph")
    return tmp_path


def test_raw_photographs_are_read_in_order_of_their_names(folder):
    images = load_van_hateren(folder)
    assert images.shape == (2, 280, 280)
    assert images.dtype == np.float32
    for n, image in enumerate(images):
        light = np.log(np.maximum(camera(n)[:560:2, :560:2].astype(float), 1))
        np.testing.assert_allclose(image, (light - light.mean()) / light.std(), atol=1e-4)


def test_exposure_makes_no_difference_nor_does_where_the_images_come_from(folder, tmp_path):
    raw = np.stack([camera(n)[:560:2, :560:2] for n in range(2)])
    np.savez(tmp_path / "mine.npz", images=raw / 70_000.0)
    np.testing.assert_allclose(load_van_hateren(tmp_path / "mine.npz"), load_van_hateren(str(folder)), atol=1e-4)


def test_black_and_even_images_have_finite_pixels(tmp_path):
    images = np.zeros((3, 4, 4))
    images[1] = 0.5
    images[2, 0] = [0.1, 0.2, 0.4, 0.8]
    np.savez(tmp_path / "dark.npz", images=images)
    found = load_van_hateren(tmp_path / "dark.npz")
    assert np.isfinite(found).all()
    assert found[:2].tolist() == np.zeros((2, 4, 4)).tolist()
    assert found[2, 1, 0] == found[2, 0, 0]  # black is as dark as the darkest


def test_absent_and_damaged_photographs_are_named(tmp_path, folder, monkeypatch):
    monkeypatch.setenv("RPMODELS_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(fetch.pooch, "os_cache", lambda _: tmp_path / "cache")
    with pytest.raises(DataSetError, match=r"doves_280.npz was not found in .*van_hateren.*RPMODELS_DATA"):
        load_van_hateren()
    with pytest.raises(InputError, match=r"path: expected an \.npz file, or a folder"):
        load_van_hateren(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="which has none"):
        load_van_hateren(tmp_path / "empty")
    (folder / "imk00003.iml").write_bytes(b"short")
    with pytest.raises(DataSetError, match=r"imk00003\.iml is damaged: expected 1024 × 1536"):
        load_van_hateren(folder)
    np.savez(tmp_path / "other.npz", pictures=np.zeros(3))
    (tmp_path / "junk.npz").write_bytes(b"PK junk")
    np.savez(tmp_path / "flat.npz", images=np.zeros((3, 4)))
    for name in ("other", "junk", "flat"):
        with pytest.raises(DataSetError, match=rf"{name}\.npz is damaged: expected an \.npz file with `images`"):
            load_van_hateren(tmp_path / f"{name}.npz")


@pytest.mark.skipif(
    not os.path.exists(os.path.join(os.environ.get("RPMODELS_DATA", ""), "van_hateren", "doves_280.npz")),
    reason="RPMODELS_DATA has no van_hateren/doves_280.npz",
)
def test_the_doves_selection():
    images = load_van_hateren()
    assert images.shape == (101, 280, 280)
    np.testing.assert_allclose(images.mean((1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(images.std((1, 2)), 1, atol=1e-5)
    # Photographs: neighbouring pixels are alike, and the logarithm took the skewness away.
    neighbours = np.mean(images[:, :, 1:] * images[:, :, :-1])
    assert neighbours > 0.7
    assert abs(np.median((images.astype(float) ** 3).mean((1, 2)))) < 0.5
