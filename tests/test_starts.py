"""Where runs begin: what linear methods find, what lessons teach, and how taught and free starts compete."""

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles
from sklearn.cross_decomposition import CCA
from sklearn.metrics import adjusted_rand_score

import rpmodels as rp
from data import clusters, views
from rpmodels.fitted import FittedRPM
from rpmodels.learning import (
    AsGiven,
    Attempt,
    Context,
    GivenStart,
    KMeans,
    Mixture,
    Plan,
    RandomStart,
    Run,
    SharedStart,
    SmoothStart,
    StatesStart,
    TrainingSettings,
    tournament,
)
from rpmodels.learning.batches import divide
from rpmodels.learning.contenders import Contender
from rpmodels.learning.series_clusters import KMeansOverTime, averaged, gaussian, told_of_the_next
from rpmodels.learning.tournament import FINAL, _kept
from rpmodels.linear import shared_components, smooth_latents

EVERY = np.ones(300, bool)


def two_tables(n=300, seed=0):
    random = np.random.default_rng(seed)
    z = random.standard_normal((n, 2))
    return [z @ random.normal(size=(2, d)) + random.standard_normal((n, d)) for d in (5, 4)]


def test_of_two_tables_the_shared_components_are_those_of_cca():
    tables = two_tables()
    found = shared_components(tables, [EVERY, EVERY], 2)
    one, other = CCA(2, max_iter=5000, tol=1e-10).fit_transform(*tables)
    both = one / one.std(0) + other / other.std(0)
    for k in range(2):
        assert abs(np.corrcoef(found[:, k], both[:, k])[0, 1]) > 1 - 1e-6
    np.testing.assert_allclose(found.std(0), 1.0)
    np.testing.assert_allclose(found.mean(0), 0.0, atol=1e-10)


def test_shared_components_ignore_what_is_missing_and_how_columns_are_mixed():
    tables = two_tables()
    found = shared_components(tables, [EVERY, EVERY], 2)
    random = np.random.default_rng(1)
    mixed = [table @ random.normal(size=(table.shape[1], table.shape[1])) + 3.0 for table in tables]
    np.testing.assert_allclose(shared_components(mixed, [EVERY, EVERY], 2), found, atol=1e-6)
    here = np.arange(300) % 5 > 0
    tables[1][~here] = 1e6  # never looked at
    part = shared_components(tables, [EVERY, here], 2)
    angles = subspace_angles(part[here], found[here])
    assert np.degrees(angles.max()) < 15


def test_shared_components_of_next_to_nothing():
    nothing, constant = np.zeros(300, bool), np.ones((300, 3))
    assert np.isfinite(shared_components([two_tables()[0], constant], [EVERY, nothing], 2)).all()
    found = shared_components([constant, constant[:, :1]], [EVERY, EVERY], 2)
    np.testing.assert_array_equal(found, np.zeros((300, 2)))


def test_few_rows_do_not_agree_by_chance():
    """Two tables of noise, as wide as they are long, would be perfectly correlated."""
    random = np.random.default_rng(0)
    z = random.standard_normal((40, 1))
    tables = [np.concatenate([3 * z, random.standard_normal((40, 39))], 1) for _ in range(2)]
    found = shared_components(tables, [EVERY[:40], EVERY[:40]], 1)
    assert abs(np.corrcoef(found[:, 0], z[:, 0])[0, 1]) > 0.9


def smooth_trials(lengths, scale=6.0, latents=1, width=6, noise=0.5, seed=0):
    """Draws of a Gaussian process behind noisy channels, padded; latents, and which sites exist."""
    random = np.random.default_rng(seed)
    longest = max(lengths)
    t = np.arange(longest)
    root = np.linalg.cholesky(np.exp(-0.5 * ((t[:, None] - t) / scale) ** 2) + 1e-6 * np.eye(longest))
    z = np.einsum("st,ntk->nsk", root, random.standard_normal((len(lengths), longest, latents)))
    x = z @ random.normal(size=(latents, width)) + noise * random.standard_normal((len(lengths), longest, width))
    exists = t < np.asarray(lengths)[:, None]
    return np.where(exists[..., None], x, 0.0), z, exists


@pytest.mark.parametrize("lengths", [[30] * 12, [30, 12, 5, 25, 1, 18, 30, 9, 30, 22], [130, 70]], ids=str)
def test_smooth_latents_are_the_true_ones(lengths):
    """Also of unequal lengths, and of trials longer than a piece."""
    x, z, exists = smooth_trials(lengths)
    found = smooth_latents(x, exists, 1)
    assert found.latents.shape == z.shape
    assert abs(np.corrcoef(found.latents[exists][:, 0], z[exists][:, 0])[0, 1]) > 0.9
    assert (found.latents[~exists] == 0).all()
    assert found.latents[exists].std() == pytest.approx(1.0)
    assert 3.0 < found.time_scales[0] < 12.0
    padded = smooth_latents(np.where(exists[..., None], x, 1e3), exists, 1)  # which is never looked at
    np.testing.assert_array_equal(padded.latents, found.latents)


def test_smooth_latents_of_several_and_with_missing_rows():
    x, z, exists = smooth_trials([30] * 15, latents=2, seed=1)
    random = np.random.default_rng(0)
    gaps = random.random(exists.shape) < 0.15
    found = smooth_latents(np.where(gaps[..., None], np.nan, x), exists, 2).latents
    assert np.isfinite(found).all()
    flat, true = found.reshape(-1, 2), z.reshape(-1, 2)
    left = true - flat @ np.linalg.lstsq(flat, true, rcond=None)[0]
    assert (1 - left.var(0) / true.var(0) > 0.9**2).all()


def test_more_latents_than_channels_are_still_an_answer():
    x, z, exists = smooth_trials([20] * 6, width=2)
    found = smooth_latents(x, exists, 3)
    assert found.latents.shape == (6, 20, 3)
    assert found.time_scales.shape == (3,)
    assert np.isfinite(found.latents).all()
    assert abs(np.corrcoef(found.latents[..., 0].ravel(), z.ravel())[0, 1]) > 0.8


def prepared(estimator, observations):
    model, _ = estimator.build(observations)
    model.prepare(observations)
    return model


def means(model, observations):
    """Posterior means of all sites (N·T, K)."""
    fitted = FittedRPM.collected(model, observations)
    return torch.cat([each.posterior.mu[..., : model.prior.family.latents] for each in fitted.posterior(observations)])


@pytest.mark.parametrize("step", [1.0, 0.02])
def test_a_smooth_start_knows_time_scales_and_latents(step):
    x, z, exists = smooth_trials([25] * 12, scale=5.0)
    observations = rp.read({"x": x}, series=True, times=step * np.arange(25))
    model = prepared(rp.RPGPFA(1, network="linear", random_state=0), observations)
    SmoothStart()(model, observations, 0)
    scales = smooth_latents(x, exists, 1).time_scales
    assert float(model.prior.length_scales()[0]) == pytest.approx(step * scales[0], rel=0.05)
    assert 2.5 * step < float(model.prior.length_scales()[0]) < 10 * step
    found = means(model, observations).detach().numpy().reshape(-1)
    assert abs(np.corrcoef(found, z.reshape(-1))[0, 1]) > 0.9


def test_a_smooth_start_of_images_is_a_random_one():
    frames = np.random.default_rng(0).standard_normal((6, 10, 5, 5))
    observations = rp.read({"x": frames}, series=True)
    models = [prepared(rp.RPGPFA(1, random_state=0), observations) for _ in range(2)]
    for model, start in zip(models, (SmoothStart(), RandomStart()), strict=True):
        start(model, observations, 3)
    for one, other in zip(*(model.state_dict().values() for model in models), strict=True):
        assert torch.equal(one, other)


def test_a_shared_start_knows_what_views_have_in_common():
    x, z = views(200, 1, 4, noise=0.5)
    x["b"][:20] = np.nan
    observations = rp.read(x)
    model = prepared(rp.RPFA(1, network="linear", random_state=0), observations)
    SharedStart()(model, observations, 0)
    found = means(model, observations).detach().numpy().reshape(-1)
    assert abs(np.corrcoef(found, z[:, 0])[0, 1]) > 0.9


@pytest.mark.parametrize("clusters_of", [KMeans(), KMeans(by_factor=False), Mixture()], ids=lambda each: each.name)
def test_starts_from_clusters_know_the_classes(clusters_of):
    x, z = clusters(150, 3, distance=2.0, places=4)
    observations = rp.read(x)
    model = prepared(rp.RPCategorical(3, random_state=0), observations)
    start = StatesStart(clusters_of)
    assert start.taught
    assert start.name == clusters_of.name
    start(model, observations, 0)
    posteriors = FittedRPM.collected(model, observations).posterior(observations)
    found = torch.cat([each.posterior.mu[:, 0].argmax(-1) for each in posteriors])
    assert adjusted_rand_score(z, found) > 0.9


def lasting(stay, n=40, length=50, noise=1.0, seed=0):
    """Three states that last, in two noisy columns; every fifth site is missing, and the last trials are short."""
    random = np.random.default_rng(seed)
    z = np.zeros((n, length), np.int64)
    z[:, 0] = random.integers(3, size=n)
    for t in range(1, length):
        z[:, t] = np.where(random.random(n) < stay, z[:, t - 1], random.integers(3, size=n))
    angles = 2 * np.pi * z / 3
    x = np.stack([np.cos(angles), np.sin(angles)], -1) + noise * random.standard_normal((n, length, 2))
    x[random.random((n, length)) < 0.2] = np.nan
    return [each[: 30 if number > 30 else length] for number, each in enumerate(x)], z


def told_by(method, x, z):
    observations = rp.read(x, series=True)
    model = prepared(rp.RPHMM(3, random_state=0), observations)
    found = method(model, observations, 3, 0).reshape(observations.exists.shape)
    there = observations.present["x"]
    return adjusted_rand_score(z[there], found[there])


def test_states_that_last_are_told_from_neighbours():
    x, z = lasting(0.95)
    assert told_by(KMeansOverTime(), x, z) > 0.8
    assert told_by(KMeans(), x, z) < 0.5


def test_states_that_change_at_every_site_are_told_from_it_alone():
    """The next state is the next but one of three, so that averages tell nothing."""
    x, z = lasting(1.0, noise=0.2)
    z = (z + np.arange(z.shape[1])) % 3
    angles = 2 * np.pi * z / 3
    x = np.stack([np.cos(angles), np.sin(angles)], -1) + 0.3 * np.random.default_rng(0).standard_normal((*z.shape, 2))
    assert told_by(KMeansOverTime(), x, z) > 0.95
    assert told_by(KMeansOverTime(widths=(4.0,)), x, z) < 0.1


def test_averages_are_of_what_is_there():
    random = np.random.default_rng(0)
    rows, there = random.standard_normal((2, 9, 1)), np.ones((2, 9), bool)
    there[0, 3], there[1, 6:] = False, False
    rows[~there] = 100.0
    kernel = np.exp(-0.5 * np.square(np.subtract.outer(np.arange(9), np.arange(9)) / 2.0))
    expected = [(kernel * seen) @ np.where(seen, row, 0.0) / (kernel * seen).sum(1)
                for row, seen in zip(rows[..., 0], there, strict=True)]  # fmt: skip
    np.testing.assert_allclose(averaged(rows, there, gaussian(2.0))[there, 0], np.array(expected)[there], atol=1e-3)


def test_what_was_says_what_comes():
    row, centres = np.array([0.0, 1.0, 0.1, 0.9, 0.0]).reshape(1, 5, 1), np.array([[0.0], [1.0]])
    assert told_of_the_next(row, np.ones((1, 5), bool), 0.0, centres) == pytest.approx(np.log(2.0))
    assert told_of_the_next(row, np.array([[1, 1, 0, 1, 0]], bool), 0.0, centres) == 0.0
    # Noise without states: averages of neighbours are alike, but say nothing of each other.
    noise = np.random.default_rng(0).standard_normal((50, 100, 1))
    assert told_of_the_next(noise, np.ones((50, 100), bool), 4.0, np.array([[-0.1], [0.1]])) < 2e-3


def test_wide_factors_do_not_outvote_narrow_ones():
    """The classes are in two columns; the other factor is a hundred columns of something else."""
    random = np.random.default_rng(0)
    z, other = random.integers(2, size=(2, 200))
    narrow = 4.0 * np.eye(2)[z] + 0.3 * random.standard_normal((200, 2))
    wide = np.where(other[:, None] == 1, 1.0, -1.0) * 0.6 + random.standard_normal((200, 100))
    observations = rp.read({"narrow": narrow, "wide": wide})
    model = prepared(rp.RPCategorical(2, random_state=0), observations)
    agree = {each: adjusted_rand_score(z, KMeans(by_factor=each)(model, observations, 2, 0)) for each in (True, False)}
    assert agree[True] > 0.9
    assert agree[False] < 0.1


def test_a_given_start_with_states():
    x, _ = clusters(150, 3, distance=2.0, places=4)
    observations = rp.read(x)
    kmeans = KMeans()(prepared(rp.RPCategorical(3), observations), observations, 3, 0)
    labels = (kmeans + 1) % 3  # a numbering of its own, which the model takes over
    model = prepared(rp.RPCategorical(3, random_state=0), observations)
    GivenStart(labels[:, None])(model, observations, 0)
    posteriors = FittedRPM.collected(model, observations).posterior(observations)
    found = torch.cat([each.posterior.mu[:, 0].argmax(-1) for each in posteriors]).numpy()
    assert (found == labels).mean() > 0.95


def test_a_given_start_with_numbers():
    x, z = views(200, 2, 5, noise=0.3)
    observations = rp.read(x)
    model = prepared(rp.RPFA(2, network="linear", random_state=0), observations)
    GivenStart(z[:, None])(model, observations, 0)
    found = means(model, observations).detach().numpy().reshape(-1, 2)
    for k in range(2):
        assert np.corrcoef(found[:, k], z[:, k])[0, 1] > 0.9  # in their order, and with their signs


def test_lessons_are_a_share_of_the_fit():
    """Of a fit of 8 steps a quarter: 2 steps, which is far less than a whole lesson."""
    x, z = views(200, 1, 4, noise=0.5)
    observations = rp.read(x)
    errors = []
    for longest in (8, None):
        model = prepared(rp.RPFA(1, network="linear", random_state=0), observations)
        GivenStart(z[:, None], longest)(model, observations, 0)
        found = means(model, observations).detach().numpy().reshape(-1)
        errors.append(np.mean((found - z[:, 0]) ** 2))
    assert errors[0] > 2 * errors[1]


class Taught(RandomStart):
    """Random weights that are said to be taught."""

    name = "taught"
    taught = True


def test_leagues_halve_by_themselves_until_the_final():
    observations = rp.read(clusters(10)[0])
    model = prepared(rp.RPCategorical(3), observations)
    run = Run.start(model, divide(observations, 0.0, 0), TrainingSettings(), 0)

    def contender(start, free_energy):
        return Contender(start, Attempt(start.name, 0, [free_energy], [0.0]), run)

    taught = [contender(Taught(), value) for value in (9.0, 8.0, 7.0)]
    free = [contender(RandomStart(), value) for value in (3.0, 2.0, 1.0)]
    everyone = sorted(taught + free, key=lambda each: each.free_energy, reverse=True)

    def kept(alive, final, finalists=1):
        return [each.free_energy for each in _kept(alive, final, finalists)]

    first = _kept(everyone, final=False, finalists=1)
    assert [each.free_energy for each in first] == [9.0, 8.0, 3.0, 2.0]
    second = _kept(first, final=False, finalists=1)
    assert [each.free_energy for each in second] == [9.0, 3.0]
    assert kept(second, final=False) == [9.0, 3.0]
    assert kept(second, final=True) == [9.0]
    assert kept(first, final=True) == [9.0, 3.0]  # leagues end first
    assert kept(second, final=False, finalists=3) == [9.0, 3.0]
    assert kept(first, final=False, finalists=3) == [9.0, 8.0, 3.0]  # as many as may be compared by their ends
    assert kept(everyone, final=True, finalists=3) == [9.0, 8.0, 3.0]  # whatever their league


def test_a_taught_start_that_leads_early_removes_no_free_one_before_the_final():
    x, _ = clusters(100, 3, distance=2.0)
    observations = rp.read(x)
    pattern = prepared(rp.RPCategorical(3, random_state=0), observations)
    starts = [AsGiven(), RandomStart(), StatesStart(KMeans())]
    longest, interval = 100, 4
    plan = Plan(pattern, TrainingSettings(max_iter=longest, learning_rate=1e-3), starts, interval)
    _, attempts = tournament(plan, divide(observations, 0.0, 0), Context(random_state=0))
    *free, taught = [attempt.free_energies for attempt in attempts]
    assert min(taught[:5]) > max(max(each) for each in free)  # it leads all the way
    compared = sorted(len(each) for each in free)
    assert compared[0] == 1  # of the two free ones the better half
    assert interval * compared[1] >= FINAL * longest
    assert interval * (compared[1] - 1) < FINAL * longest


def test_half_of_the_starts_are_taught():
    for n_init, taught in ((1, 0), (2, 1), (3, 1), (6, 3), (12, 4)):
        starts = rp.RPCategorical(3, n_init=n_init)._starts()
        assert len(starts) == n_init
        assert sum(each.taught for each in starts) == taught
        assert isinstance(starts[0], AsGiven)
