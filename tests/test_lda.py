"""RPLDA as its users meet it: images and parts, mixtures and categories, files, bad input."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import rpmodels as rp
from registry import made
from rpmodels.errors import InputError
from rpmodels.learning import RandomStart, Spectra, StatesStart
from rpmodels.learning.spectra import are_images, spectral_features
from rpmodels.learning.teaching import compact_features, k_means
from rpmodels.observations import cut_patches

SIZE = 6


def stripes(n=60, side=24, alpha=0.4, seed=0):
    """Images of patches with horizontal, vertical or no stripes, and noise."""
    random = np.random.default_rng(seed)
    rows = side // SIZE
    omega = random.dirichlet([alpha] * 3, n)
    labels = np.stack([random.choice(3, rows * rows, p=each) for each in omega])
    wave = np.tile([1.0, -1.0], SIZE // 2)
    basis = np.stack([np.tile(wave[:, None], SIZE), np.tile(wave, (SIZE, 1)), np.zeros((SIZE, SIZE))])
    patches = basis[labels] + 0.5 * random.standard_normal((*labels.shape, SIZE, SIZE))
    grid = patches.reshape(n, rows, rows, SIZE, SIZE)
    return grid.swapaxes(2, 3).reshape(n, side, side).astype(np.float32), labels, omega


def brief(**settings):
    options = {"alpha": 0.4, "patch_size": SIZE, "max_iter": 120, "n_init": 2, "learning_rate": 1e-2, "random_state": 0}
    return made(rp.RPLDA, 3, **{**options, **settings})


@pytest.fixture(scope="module")
def fitted():
    images, labels, omega = stripes()
    return brief().fit(images), images, labels, omega


def test_textures_and_mixtures_are_found_in_new_images_as_well(fitted):
    model, images, labels, _ = fitted
    match = rp.metrics.match_states(labels.ravel(), model.predict(images).ravel(), 3)
    assert (match[model.predict(images)] == labels).mean() >= 0.94
    new, truth, omega = stripes(seed=1)
    assert (match[model.predict(new)] == truth).mean() >= 0.93
    found = np.empty_like(omega)
    found[:, match] = model.transform(new)
    shares = np.eye(3)[truth].mean(1)
    assert np.abs(found - shares).mean() < 0.05
    np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(new).sum(-1), 1.0, atol=1e-5)
    assert 0 < float(model.score(new)) < model.score(new).ceiling


def test_one_patch_alone_is_recognised_as_among_others(fitted):
    model, images, _, _ = fitted
    single = model.recognise_patch(cut_patches(images[3], SIZE)[2])
    np.testing.assert_allclose(single, model.recognise(images)[3, 2], atol=1e-5)


def test_representative_patches_are_the_surest(fitted):
    model, images, labels, _ = fitted
    best = model.representative_patches(images, 4)
    assert best.image.shape == best.patch.shape == best.probability.shape == (3, 4)
    sure = model.recognise(images)
    for k in range(3):
        np.testing.assert_allclose(best.probability[k, 0], sure[..., k].max(), rtol=1e-5)
        assert (np.diff(best.probability[k]) <= 0).all()
        assert len(set(labels[best.image[k], best.patch[k]].tolist())) == 1


def test_images_of_other_sizes_and_missing_patches(fitted):
    model, images, _, _ = fitted
    mixed = [images[0], images[1][:12], images[2][:6, :18]]
    assert [each.shape for each in model.predict_proba(mixed)] == [(16, 3), (8, 3), (3, 3)]
    assert [each.shape for each in model.predict(mixed)] == [(16,), (8,), (3,)]
    assert model.transform(mixed).shape == (3, 3)
    np.testing.assert_allclose(model.transform(mixed)[0], model.transform(images)[0], atol=1e-5)
    hole = images[:2].copy()
    hole[0, :6, :6] = np.nan
    present = np.ones((2, 16), bool)
    present[0, 0] = False
    np.testing.assert_allclose(model.transform(hole), model.transform(images[:2], presence=present), atol=1e-6)


def test_parts_may_be_given_as_they_are(fitted):
    _, images, _, _ = fitted
    patches = np.stack([cut_patches(image, SIZE) for image in images])
    short = {"max_iter": 5, "n_init": 1}
    given = brief(patch_size=None, **short).fit(patches)
    cut = brief(**short).fit(images)
    np.testing.assert_array_equal(given.transform(patches), cut.transform(images))
    words = [np.random.default_rng(n).integers(0, 9, 12) for n in range(20)]
    model = rp.RPLDA(2, max_iter=5, n_init=1, random_state=0).fit(words)
    assert model.transform(words).shape == (20, 2)


@pytest.mark.parametrize("learn_alpha", ["symmetric", "per_topic"])
def test_alpha_can_be_learned(learn_alpha):
    images, _, _ = stripes(alpha=2.0)
    model = brief(learn_alpha=learn_alpha, alpha=0.5, max_iter=60, n_init=1).fit(images)
    assert model.alpha_.shape == (3,)
    assert (model.alpha_ != 0.5).all()
    assert (model.alpha_ == model.alpha_[0]).all() == (learn_alpha == "symmetric")


def test_atoms_at_every_position():
    images, labels, _ = stripes()
    model = brief(atoms="per_position", max_iter=80, n_init=1).fit(images)
    match = rp.metrics.match_states(labels.ravel(), model.predict(images).ravel(), 3)
    assert (match[model.predict(images)] == labels).mean() >= 0.85


def test_a_file_keeps_it(fitted, tmp_path):
    model, images, _, _ = fitted
    model.save(tmp_path / "stripes")
    loaded = rp.load(tmp_path / "stripes")
    np.testing.assert_array_equal(loaded.transform(images), model.transform(images))
    np.testing.assert_array_equal(loaded.predict(images), model.predict(images))


def test_cutting():
    image = np.arange(35).reshape(5, 7)
    np.testing.assert_array_equal(cut_patches(image, 3), [image[:3, :3], image[:3, 3:6]])
    assert cut_patches(image, 3, stride=2).shape == (2 * 3, 3, 3)
    reflected = cut_patches(image, 3, padding="reflect")
    assert reflected.shape == (2 * 3, 3, 3)
    np.testing.assert_array_equal(reflected[4][:2], image[3:5, 3:6])
    np.testing.assert_array_equal(reflected[4][2], image[3, 3:6])
    colour = np.stack([image, 2 * image], -1)
    np.testing.assert_array_equal(cut_patches(colour, 3)[1], colour[:3, 3:6])


def test_bad_input_is_refused():
    images, _, _ = stripes(n=4)
    with pytest.raises(InputError, match="at least as large as a patch"):
        brief(patch_size=25).fit(images)
    with pytest.raises(InputError, match="number of patches"):
        rp.RPLDA(65, patch_size=SIZE).fit(images)
    with pytest.raises(InputError, match="padding"):
        brief(padding="zeros").fit(images)
    with pytest.raises(InputError, match="learn_alpha"):
        brief(learn_alpha="yes").fit(images)
    with pytest.raises(InputError, match="alpha"):
        brief(alpha=-1.0).fit(images)
    with pytest.raises(InputError, match=r"\(H, W\)"):
        brief().fit(images[:, 0])


def test_f_against_the_prior(fitted):
    model, _, _, _ = fitted
    np.testing.assert_allclose(model.prior_, 1 / 3, atol=1e-6)
    rp.plots.mixture_against_prior(model, "patch")


def waves(n, side, seed):
    """Waves of two directions, of any phase and brightness: pixels cannot tell them apart."""
    random = np.random.default_rng(seed)
    way = random.integers(2, size=n)
    phase, grey = random.uniform(0, 2 * np.pi, (2, n, 1, 1))
    rows, columns = np.mgrid[:side, :side]
    along = np.where(way[:, None, None] == 0, rows, columns)
    return np.sin(along * np.pi / 2 + phase) + grey + 0.3 * random.standard_normal((n, side, side)), way


def test_spectra_tell_textures_apart_where_pixels_do_not():
    patches, way = waves(400, 12, 0)
    observations = rp.read({"patch": patches.reshape(40, 10, 12, 12)}, series=True)
    model = rp.RPLDA(2).build(observations)[0]
    model.prepare(observations)

    def agreement(features):
        return adjusted_rand_score(way, k_means(features, 2, 0))

    assert agreement(spectral_features(model, observations, 0)) > 0.95
    assert agreement(compact_features(model, observations, 0)) < 0.5
    StatesStart(Spectra())(model, observations, 0)
    _, factors = next(model.recognised(observations))
    taught = factors["patch"].g[..., 0] > factors["patch"].g[..., -1]
    assert adjusted_rand_score(way, taught.ravel()) > 0.8


def test_padding_is_no_cluster_of_its_own():
    patches, way = waves(400, 12, 0)
    lengths = [10] * 35 + [2] * 25  # 200 places that do not exist
    observations = rp.read({"patch": np.split(patches, np.cumsum(lengths)[:-1])}, series=True)
    model = rp.RPLDA(2).build(observations)[0]
    model.prepare(observations)
    StatesStart(Spectra())(model, observations, 0)
    _, factors = next(model.recognised(observations))
    taught = (factors["patch"].g[..., 0] > factors["patch"].g[..., -1])[observations.exists]
    assert adjusted_rand_score(way, taught) > 0.8


def test_what_is_no_image_starts_at_random():
    words = rp.read({"patch": np.random.default_rng(0).standard_normal((10, 5, 4))}, series=True)
    assert not are_images(words)
    several = rp.read({"a": np.zeros((4, 12, 12)), "b": np.zeros((4, 9, 9))})
    assert not are_images(several)
    models = [rp.RPLDA(2, random_state=0).build(words)[0] for _ in range(2)]
    for model, start in zip(models, (StatesStart(Spectra()), RandomStart()), strict=True):
        model.prepare(words)
        start(model, words, 3)
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        np.testing.assert_array_equal(one.detach(), other.detach())
