"""InfoNCE and deep CCA: their criteria against direct computations, their fits against what was put into the data."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from sklearn.base import clone

import rpmodels as rp
from rpmodels.baselines import DeepCCA, InfoNCE
from rpmodels.paper.baselines.pair_criteria import CanonicalCorrelations, NoiseContrast

K = 3
BRIEF = {"max_iter": 100, "n_init": 2, "learning_rate": 3e-3, "batch_size": 100, "random_state": 0}
KINDS = {InfoNCE: {"n_embedding": 8}, DeepCCA: {"n_embedding": 2}}


def views(n=300, seed=0, private=3.0):
    """Two views of the same one of K places, beside louder numbers that they do not share."""
    rng = np.random.default_rng(seed)
    places = 2.0 * np.eye(K)
    z = rng.integers(K, size=n)
    sides = [np.hstack([places[z] + 0.4 * rng.standard_normal((n, K)), private * rng.standard_normal((n, 4))]) for _ in range(2)]  # fmt: skip  # noqa: E501
    return {"x1": sides[0].astype(np.float32), "x2": sides[1].astype(np.float32)}, z


@pytest.fixture(scope="module")
def fits():
    pairs, z = views()
    return pairs, z, {kind: kind(K, **options, **BRIEF).fit(pairs) for kind, options in KINDS.items()}


def test_noise_contrast_is_the_cross_entropy_of_who_belongs_to_whom():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 6, 3))
    found = NoiseContrast(0.3)(torch.as_tensor(a), torch.as_tensor(b))
    u, v = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (a, b))
    total = 0.0
    for n in range(6):
        forth = u[n] @ v.T / 0.3
        back = v[n] @ u.T / 0.3
        total += 0.5 * (forth[n] - logsumexp(forth) + back[n] - logsumexp(back))
    assert float(found) == pytest.approx(total / 6 + np.log(6), abs=1e-10)
    same = torch.ones(6, 3, dtype=torch.float64)
    assert float(NoiseContrast(0.3)(same, same)) == pytest.approx(0.0, abs=1e-12)  # nothing known, nothing gained


def canonical_correlations(a, b):
    """By orthonormal bases of the centred columns (Björck and Golub)."""
    q, r = (np.linalg.svd(each - each.mean(0), full_matrices=False)[0] for each in (a, b))
    return np.linalg.svd(q.T @ r)[1]


def test_deep_cca_is_the_sum_of_canonical_correlations():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((500, 2))
    a, b = (z @ rng.standard_normal((2, 4)) + rng.standard_normal((500, 4)) for _ in range(2))
    criterion = CanonicalCorrelations(4, ridge=1e-12).double()
    expected = canonical_correlations(a, b).sum()
    assert float(criterion(torch.as_tensor(a), torch.as_tensor(b))) == pytest.approx(expected, abs=1e-8)
    mixed = torch.as_tensor(a @ rng.standard_normal((4, 4)) + 3.0)  # no linear map changes it
    assert float(criterion(mixed, torch.as_tensor(b))) == pytest.approx(expected, abs=1e-6)


def test_the_gradient_of_deep_cca():
    rng = np.random.default_rng(1)
    a, b = (torch.as_tensor(rng.standard_normal((12, 3))).requires_grad_() for _ in range(2))
    criterion = CanonicalCorrelations(3, ridge=1e-3).double()
    assert torch.autograd.gradcheck(criterion, (a, b))


def test_the_embedding_of_deep_cca_is_canonical():
    """Exchangeable views: variates uncorrelated, of unit variance but for √ρ, with the correlations of linear CCA."""
    rng = np.random.default_rng(2)
    z, loadings = rng.standard_normal((20_000, 2)), rng.standard_normal((2, 3))
    a, b = (z @ loadings + rng.standard_normal((len(z), 3)) for _ in range(2))
    criterion = CanonicalCorrelations(3, ridge=1e-12).double()
    criterion.collect(torch.as_tensor(a), torch.as_tensor(b))
    np.testing.assert_allclose(criterion.correlations[:2], canonical_correlations(a, b)[:2], atol=0.01)
    y = np.concatenate([criterion.embed(torch.as_tensor(each)).numpy() for each in (a, b)])
    np.testing.assert_allclose(np.cov(y.T, bias=True), np.diag(criterion.correlations), atol=1e-6)
    # The posterior mean of z, up to a rotation, is a linear map of the first two.
    left = z - y[: len(z), :2] @ np.linalg.lstsq(y[: len(z), :2], z, rcond=None)[0]
    best = z - a @ np.linalg.lstsq(a, z, rcond=None)[0]
    assert np.square(left).sum() == pytest.approx(np.square(best).sum(), rel=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_shared_is_found_and_what_is_louder_is_not(fits, kind):
    pairs, z, models = fits
    model = models[kind]
    values = model.history_["free_energy"]
    assert values[-20:].mean() > values[:5].mean() + 0.3
    new, truth = views(seed=5)
    matching = rp.metrics.match_states(z, model.predict(pairs["x1"]), K)
    assert (matching[model.predict(new["x2"])] == truth).mean() > 0.93


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_fit_offers(fits, kind):
    pairs, _, models = fits
    model, x = models[kind], pairs["x1"]
    embedded, proba = model.transform(x), model.predict_proba(x)
    assert embedded.shape == (len(x), model.n_embedding)
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-5)
    distances = np.square(embedded[:, None] - model.centres_).sum(-1)
    np.testing.assert_array_equal(model.predict(x), distances.argmin(1))
    np.testing.assert_array_equal(proba.argmax(1), distances.argmin(1))
    assert model.n_iter_ == BRIEF["max_iter"]
    assert len(model.restarts_) == 2
    assert clone(model).get_params() == model.get_params()


def test_embeddings_in_their_own_units(fits):
    pairs, _, models = fits
    np.testing.assert_allclose(np.linalg.norm(models[InfoNCE].transform(pairs["x1"]), axis=1), 1, atol=1e-5)
    correlations = models[DeepCCA].correlations_
    assert correlations.shape == (2,)
    assert 0.8 < correlations[-1] <= correlations[0] <= 1.0
    every = np.concatenate([models[DeepCCA].transform(each) for each in pairs.values()])
    np.testing.assert_allclose(np.cov(every.T, bias=True), np.diag(correlations), atol=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_number_gives_the_same_fit(kind):
    pairs, _ = views(60)
    brief = {"max_iter": 10, "n_init": 2, "batch_size": 30}
    first, second = (kind(K, random_state=2, **brief).fit(pairs) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(pairs["x1"]), second.predict_proba(pairs["x1"]))


@pytest.mark.parametrize("kind", KINDS)
def test_three_views_and_gaps(kind):
    pairs, _ = views(60)
    pairs["x3"] = pairs["x1"][:, ::-1].copy()
    pairs["x1"][:20] = np.nan
    pairs["x2"][10:25] = np.nan  # ten observations with one view only
    model = kind(K, max_iter=5, n_init=1, random_state=0).fit(pairs)
    assert np.isfinite(model.transform(pairs["x3"])).all()
    assert np.isfinite(model.history_["free_energy"]).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: InfoNCE().fit(x["x1"]), "at least 2 factors"),
        (lambda x: InfoNCE(temperature=0).fit(x), "temperature"),
        (lambda x: InfoNCE(n_embedding=0).fit(x), "n_embedding"),
        (lambda x: InfoNCE(1).fit(x), "n_states"),
        (lambda x: InfoNCE().fit({"x1": x["x1"], "x2": x["x2"][:, :3]}), "one event shape"),
        (lambda x: DeepCCA(ridge=0.0).fit(x), "ridge"),
        (lambda x: DeepCCA(batch_size=10).fit(x), "batch_size.*n_embedding = 10"),
        (lambda x: DeepCCA().transform(x["x1"]), "not fitted"),
        (lambda x: DeepCCA().correlations_, "not fitted"),
        (lambda x: InfoNCE(2, max_iter=1, n_init=1).fit(x).predict(x["x1"][:, :3]), "shape"),
    ],
)
def test_bad_input_gets_a_sentence(call, words):
    with pytest.raises(Exception, match=words):
        call(views(40)[0])
