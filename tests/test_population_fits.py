"""Estimators with populations: verbs against the truth of simulations, kinds of data, files, choices and refusals."""

from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

import rpmodels as rp
from oracles import population as oracle
from oracles.dense_gaussian import absorbed, gaussian_processes
from oracles.gaussians import kl, normal
from oracles.kernels import rbf
from references import Killed
from registry import made
from rpmodels import channels as channels_module
from rpmodels import evaluation, plots, report
from rpmodels.inference import Amortised, Refined
from rpmodels.learning import RPMObjective
from rpmodels.recognition import ChannelCurves
from test_population import counts, of, process, standard, tuned

TRIALS, TIMES, UNITS = 40, 15, 12


@cache
def spikes(seed=0):
    """Poisson counts of smooth latents in trials, their rates, and the latents."""
    random = np.random.default_rng(seed)
    kernel = rbf(4.0)(np.arange(TIMES), np.arange(TIMES)) + 1e-6 * np.eye(TIMES)
    z = np.einsum("ts,nsk->ntk", np.linalg.cholesky(kernel), random.standard_normal((TRIALS, TIMES, 2)))
    rate = np.exp(z @ (0.8 * random.standard_normal((2, UNITS))) - 0.3)
    return random.poisson(rate).astype(float), rate, z


@cache
def fitted():
    return made(rp.RPGPFA, 2, max_iter=60, random_state=0, dtype="float64").fit(spikes()[0])


def brief(kind=rp.RPFA, size=1, **options):
    return made(kind, size, **{"max_iter": 3, "random_state": 0, **options})


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


def correlation(one, other):
    return np.corrcoef(np.ravel(one), np.ravel(other))[0, 1]


# ---- verbs against the truth ---------------------------------------------------------------------------


def test_rates_are_those_of_the_simulation():
    x, rate, _ = spikes()
    found = fitted().rates(x)
    assert found.shape == x.shape
    assert correlation(found, rate) > 0.9
    assert correlation(found, rate) > correlation(x, rate) + 0.1
    np.testing.assert_allclose(found.mean((0, 1)), x.mean((0, 1)), rtol=0.15)


def test_probabilities_are_those_of_rates():
    x, model = spikes()[0], fitted()
    share, values = model.channel_probabilities(x)
    assert share.shape == (*x.shape, values.shape[1])
    np.testing.assert_allclose(share.sum(-1), 1.0, atol=1e-10)
    assert (share[..., np.isnan(values)] == 0).all()
    means = channels_module.curves_of(model.model_, "x").means.numpy()
    np.testing.assert_allclose((share * means).sum(-1), model.rates(x), atol=1e-10)


def test_rates_are_an_integral_under_q():
    x, model = spikes()[0][:2], fitted()
    q, curves = model.posterior(x), channels_module.curves_of(model.model_, "x")
    every = oracle.channels(curves.curves(), np.zeros(2), np.eye(2))
    means, found = curves.means.numpy(), model.rates(x)
    for n, t, c in [(0, 0, 0), (0, 7, 5), (1, 14, 11), (1, 3, 2)]:
        w, channel = every[c].w, every[c]
        along = np.array([w @ q.mean[n, t]]), np.array([[w @ q.covariance[n, t] @ w]])
        brute = oracle.expected(lambda u, c=channel, m=means[c]: m[: c.values] @ c.probabilities(u[:, 0]), *along)
        assert found[n, t, c] == pytest.approx(brute, abs=1e-3)


def test_a_channel_that_is_hidden_is_predicted_and_the_prediction_is_calibrated():
    x, rate, _ = spikes()
    model, hidden = fitted(), x.copy()
    hidden[..., :3] = np.nan
    found = model.rates(hidden)
    assert np.isfinite(found).all()
    assert min(correlation(found[..., c], rate[..., c]) for c in range(3)) > 0.5
    share, values = model.channel_probabilities(hidden)
    for c in range(3):
        for value in (0, 1):  # how often it happens where it is expected seldom, and where often
            said, happened = share[..., c, value].ravel(), (x[..., c] == values[c, value]).ravel()
            for part in np.array_split(np.argsort(said), 3):
                error = np.sqrt(max(said[part].mean(), 0.02) / len(part))
                assert happened[part].mean() == pytest.approx(said[part].mean(), abs=0.05 + 4 * error)
    # What happened is likelier than by what is known of a channel without the others.
    for c in range(3):
        code = np.minimum(x[..., c], np.nanmax(values[c])).astype(int)
        said = np.log(np.take_along_axis(share[..., c, :], code[..., None], -1))
        alone = np.log(np.bincount(code.ravel()) / code.size)[code]
        assert said.mean() > alone.mean()


def test_tuning_rises_where_the_rate_does():
    x, rate, z = spikes()
    model, found = fitted(), fitted().tuning()
    assert found.expected.shape == (UNITS, len(found.u))
    np.testing.assert_allclose(np.linalg.norm(found.directions, axis=1), 1.0, atol=1e-9)
    # A log-linear unit rises, or falls, where it has data; its projection is that of the truth.
    middle = np.abs(found.u) < 1.5
    steps = np.diff(found.expected[:, middle], axis=1)
    strong = np.argsort(-found.precision)[:6]
    for c in strong:
        assert (steps[c] > -1e-3).all() or (steps[c] < 1e-3).all()
        u = model.transform(x) @ found.directions[c]
        assert abs(correlation(u, np.log(rate[..., c]))) > 0.85
    assert correlation(found.precision, np.log(rate).std((0, 1))) > 0.7
    at = model.tuning(u=[0.0, 1.0])
    assert at.expected.shape == (UNITS, 2)
    np.testing.assert_allclose(at.expected[:, 0], found.expected[:, np.argmin(np.abs(found.u))], atol=1e-6)
    assert z.shape[-1] == 2


def test_contributions_are_divergences_of_dense_normals():
    model, observations = of(standard(2), counts(10, 4))
    found = channels_module.contributions(model, observations)["x"].numpy()
    (inferred,) = model.posterior(observations)
    seen = inferred.factors["x"].channels
    for n in range(10):
        mean, covariance = normal(model.prior.family, inferred.posterior.eta[n, 0])
        for c, w in enumerate(seen.curves.directions.detach().numpy()):
            a, b = float(seen.a[n, 0, c]), float(seen.b[n, 0, c])
            precision = np.linalg.inv(covariance)
            other = np.linalg.inv(precision - b * np.outer(w, w))
            expected = kl(mean, covariance, other @ (precision @ mean - a * w), other)
            assert found[n, c] == pytest.approx(expected, abs=1e-8)


def test_contributions_over_time_are_divergences_of_dense_normals():
    random = np.random.default_rng(0)
    x = random.integers(0, 2, (6, 3, 2)).astype(float)
    model, observations = of(process(), x)
    found = channels_module.contributions(model, observations)["x"].numpy()
    t = np.arange(3.0)
    before = (0.6 * t - 0.4)[:, None], gaussian_processes([lambda s, u: 2.5 * rbf(1.5)(s, u)], t)
    (inferred,) = model.posterior(observations)
    seen = inferred.factors["x"].channels
    w = seen.curves.directions.detach().numpy()
    a, b = (each.detach().numpy() for each in (seen.a, seen.b))
    for n in range(6):
        whole = absorbed(*before, (a[n] @ w), (b[n].sum(-1))[:, None, None])
        for c in range(2):
            kept = [1 - c]
            rest = absorbed(*before, a[n][:, kept] @ w[kept], b[n][:, kept].sum(-1)[:, None, None])
            assert found[n, c] == pytest.approx(kl(*whole.flat(), *rest.flat()), abs=1e-4)


def test_what_is_absent_contributes_nothing():
    x, model = spikes()[0][:4].copy(), fitted()
    x[0, :, 5] = np.nan
    found = model.contributions(x)["x"]
    assert found.shape == (4, UNITS)
    assert found[0, 5] == pytest.approx(0.0, abs=1e-9)
    assert (found[1:] > 0).all()
    random = np.random.default_rng(0)
    both = {"spikes": x, "running": random.standard_normal((4, TIMES, 2))}
    pair = brief(rp.RPGPFA, 2).fit(both)
    gone = {**both, "running": np.full((4, TIMES, 2), np.nan)}
    there, absent = pair.contributions(both), pair.contributions(gone)
    assert there["running"].shape == (4, 1)
    assert there["spikes"].shape == (4, UNITS)
    assert (there["running"] > 0).all()
    np.testing.assert_allclose(absent["running"], 0.0, atol=1e-5)


def test_refinement_raises_the_free_energy_of_a_fit():
    x = spikes()[0][:10]
    model = made(rp.RPGPFA, 2, max_iter=5, random_state=0).fit(x)
    before = model.score_samples(x)
    refined = made(rp.RPGPFA, 2, max_iter=5, random_state=0, e_step="natural_gradient")
    refined.fit(x)
    refined.model_.pattern.load_state_dict(model.model_.pattern.state_dict())
    refined.model_._summaries = {}
    after = refined.score_samples(x)
    assert (after >= before - 1e-4).all()
    assert after.mean() > before.mean() + 0.01
    assert correlation(model.rates(x, e_step="natural_gradient"), refined.rates(x)) > 0.99999


# ---- missing channels ------------------------------------------------------------------------------------


def test_a_fit_with_gaps_finds_what_one_without_finds():
    x, rate, _ = spikes()
    random = np.random.default_rng(0)
    gaps = np.where(random.random(x.shape) < 0.15, np.nan, x)
    gaps[0] = np.nan  # a whole trial, too
    model = made(rp.RPGPFA, 2, max_iter=30, random_state=0).fit(gaps)
    assert correlation(model.rates(gaps)[1:], rate[1:]) > 0.9
    presence = {"x": ~np.isnan(gaps).all(-1)}
    filled = np.where(np.isnan(gaps).all(-1, keepdims=True), 7.0, gaps)
    np.testing.assert_allclose(model.transform({"x": filled}, presence=presence), model.transform(gaps), atol=1e-6)


# ---- kinds of data -----------------------------------------------------------------------------------------


def shared(random, n=60, width=4, noise=0.5):
    return random.standard_normal((n, 1)) @ np.ones((1, width)) + noise * random.standard_normal((n, width))


def kinds():
    random = np.random.default_rng(0)
    x = shared(random)
    whole = random.poisson(np.exp(0.7 * x))
    constant, empty, single = whole.astype(float), whole.astype(float), whole.astype(float)
    constant[:, 2], empty[:, 1], single[1:, 1] = 3.0, np.nan, np.nan
    return {
        "int64": whole,
        "uint8": whole.astype(np.uint8),
        "bool": whole > 1,
        "binary": (whole > 1).astype(float),
        "negative whole numbers": np.round(3 * x),
        "large counts": random.poisson(np.exp(x + 5)).astype(float),
        "heavy tails": np.sinh(4 * x),
        "ties": np.round(x, 1),
        "inflated zeros": np.where(x > 0.3, x, 0.0),
        "offset": x + 1e9,
        "tiny": 1e-9 * x,
        "float32": x.astype(np.float32),
        "constant channel": constant,
        "constant number": np.column_stack([x, np.full(60, 0.1)]),
        "empty channel": empty,
        "seen once": single,
    }


@pytest.mark.parametrize("kind", kinds())
def test_any_kind_of_channel_is_fitted(kind):
    x = kinds()[kind]
    model = brief(channels="separate").fit(x)
    known = np.asarray(x, float)
    z, rates = model.transform(x), model.rates(x)
    assert np.isfinite(z).all()
    assert np.isfinite(rates).all()
    assert np.isfinite(float(model.score(x)))
    assert model.score_ <= model.score_.ceiling
    assert all(np.isfinite(each).all() for each in model.contributions(x).values())
    # What the channels share is found, whatever their scale (a start at factor analysis of scores).
    truth = shared(np.random.default_rng(0), noise=0.0)
    assert abs(correlation(z, truth[:, :1] + 0 * z)) > 0.6
    low, high = np.nanmin(known), np.nanmax(known)
    assert (rates >= low - 1e-3 * max(1, abs(low))).all()
    assert (rates <= max(high, 1) + 1e-3 * max(1, abs(high))).all()
    moved = brief(channels="separate").fit(x).transform(x)
    np.testing.assert_array_equal(moved, z)


def test_offsets_and_scales_of_numbers_do_not_matter():
    x = shared(np.random.default_rng(0))
    plain = brief(channels="separate").fit(x)
    for other in (x + 1e9, 1e-9 * x, 1e6 * x):
        model = brief(channels="separate").fit(other)
        np.testing.assert_allclose(model.transform(other), plain.transform(x), atol=2e-3)
        assert float(model.score_) == pytest.approx(float(plain.score_), abs=2e-3)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int16, np.float32, np.float64])
def test_types_of_counts_do_not_matter(kind):
    x = tuned(60, 4, 1)[0].clip(0, 200)
    plain, other = (brief(channels="separate").fit(each) for each in (x, x.astype(kind)))
    np.testing.assert_allclose(other.transform(x.astype(kind)), plain.transform(x), atol=1e-5)
    np.testing.assert_allclose(other.rates(x), plain.rates(x), atol=1e-4)


def test_what_was_never_seen_counts_as_the_highest():
    x = tuned(200, 4, 1)[0]
    model = brief(channels="separate").fit(x)
    _, values = model.channel_probabilities(x[:1])
    highest = np.nanmax(values, 1)
    assert (highest < x.max(0)).any()  # rare ones are pooled
    tables = np.flatnonzero(highest < 24)
    new = np.tile(highest, (2, 1))
    new[1] += 1000
    one, other = model.transform(new)
    np.testing.assert_array_equal(one, other)
    assert np.isfinite(model.score_samples(new)).all()
    means = channels_module.curves_of(model.model_, "x").means.numpy()
    for c, top in zip(tables, highest[tables].astype(int), strict=True):
        assert means[c, top] == pytest.approx(x[x[:, c] >= top, c].mean())
        assert np.isnan(values[c, top + 1 :]).all()
    # A gap among the counts is a value like the others.
    skipped = model.transform(np.where(x == 1, 2, x))
    assert np.isfinite(skipped).all()


def test_double_precision_changes_nothing_but_digits():
    x = tuned(60, 8, 2)[0]
    one, other = (brief(size=2, dtype=each).fit(x) for each in ("float32", "float64"))
    assert other.model_.dtype == torch.float64
    np.testing.assert_allclose(one.transform(x), other.transform(x), atol=1e-3)


# ---- models with populations ----------------------------------------------------------------------------------


def test_every_model_of_continuous_latents_has_them():
    x = spikes()[0][:12]
    for kind in (rp.RPGPFA, rp.RPLDS):
        assert brief(kind, 2).fit(x).rates(x).shape == x.shape
    table = x.reshape(-1, UNITS)
    assert brief(rp.RPFA, 2).fit(table).rates(table).shape == table.shape
    unequal = [each[: 5 + n % 4] for n, each in enumerate(x)]
    model = brief(rp.RPGPFA, 2).fit(unequal)
    assert [each.shape for each in model.rates(unequal)] == [each.shape for each in unequal]
    share, _ = model.channel_probabilities(unequal)
    assert [each.shape[:2] for each in share] == [each.shape for each in unequal]


def test_populations_may_speak_of_some_latents():
    x = spikes()[0][:12]
    given = {"left": x[..., :6], "right": x[..., 6:]}
    model = brief(rp.RPGPFA, 3, channels="separate", targets={"left": (0, 1), "right": (1, 2)}).fit(given)
    z = model.transform(given)
    only = model.transform({"left": given["left"]})
    assert np.abs(only[..., 2]).max() < 1e-5  # left knows nothing of it
    assert np.abs(z[..., 2]).max() > 0.05
    assert model.tuning("left").directions.shape == (6, 2)
    assert model.rates(given, "right").shape == given["right"].shape


def test_a_population_beside_networks():
    x, _, z = spikes()
    random = np.random.default_rng(0)
    given = {
        "spikes": x,
        "place": z @ random.standard_normal((2, 3)) + 0.3 * random.standard_normal((TRIALS, TIMES, 3)),
    }
    model = made(rp.RPGPFA, 2, max_iter=30, random_state=0).fit(given)
    assert "spikes (12 channels, each by itself), place (3 channels together)" in repr(model)
    from_place = model.rates({"place": given["place"]}, "spikes")  # units that were not recorded at all
    assert correlation(from_place, spikes()[1]) > 0.6


def test_two_populations_of_one_array():
    x = spikes()[0][:12]
    halves = {"a": rp.Population(list(range(5))), "b": rp.Population(slice(5, 12))}
    model = brief(rp.RPGPFA, 2, factors=halves).fit(x)
    assert model.rates(x, "b").shape == (12, TIMES, 7)
    with pytest.raises(rp.RPModelsError, match="one of the populations a, b, got None"):
        model.rates(x)
    with pytest.raises(rp.RPModelsError, match="a Population without columns"):
        brief(rp.RPGPFA, 2, factors={**halves, "c": rp.Population()}).fit(x)


# ---- which factors are populations ---------------------------------------------------------------------------


def found_in(data, kind=rp.RPGPFA, **options):
    observations = rp.read(data, series=kind is not rp.RPFA)
    return set(brief(kind, 2, **options)._populations(observations))


def test_counts_of_enough_channels_are_populations():
    random = np.random.default_rng(0)
    units, few = random.poisson(1.0, (20, 5, 8)), random.poisson(1.0, (20, 5, 7))
    numbers, images = random.standard_normal((20, 5, 9)), random.poisson(1.0, (20, 5, 9, 9))
    given = {"units": units, "few": few, "numbers": numbers, "images": images}
    assert found_in(given) == {"units"}
    assert found_in({"units": units, "few": few}, channels="together") == set()
    assert found_in(given, channels={"few": "separate", "units": "together"}) == {"few"}
    assert found_in(given, network={"units": "mlp"}) == set()
    assert found_in(given, network="linear") == set()
    tables = {"units": units[:, 0], "numbers": numbers[:, 0]}
    assert found_in(tables, rp.RPFA) == set()  # what tables share is asked for, not what columns do
    assert found_in({"units": units[:, 0]}, rp.RPFA) == {"units"}
    assert found_in(tables, rp.RPFA, factors={"units": rp.Population()}) == {"units"}
    assert found_in({"x": random.random((20, 5, 8)) < 0.3}) == {"x"}
    assert found_in({"x": units - 1}) == set()


def test_what_cannot_be_says_so():
    x = spikes()[0][:6]
    images = np.zeros((6, 4, 5, 5))
    words = np.array([["a", "b", "a", "b"]] * 6)
    for given, match in ((images, "channels"), (words, "channels")):
        with pytest.raises(rp.RPModelsError, match=match):
            brief(rp.RPGPFA, 2, channels={"x": "separate"}).fit({"x": given, "y": x[:, :4]})
    with pytest.raises(rp.RPModelsError, match="nothing"):
        brief(rp.RPGPFA, 2, channels={"nothing": "separate"}).fit({"x": x})
    with pytest.raises(rp.RPModelsError, match="one by one"):
        brief(rp.RPGPFA, 2, channels="one by one").fit(x)
    with pytest.raises(rp.RPModelsError, match="expected a full Gaussian"):
        brief(rp.RPGPFA, 2, covariance="diagonal").fit(x)
    with pytest.raises(rp.RPModelsError, match=r"recognition.head='relative', or channels='together'"):
        brief(rp.RPGPFA, 2, head="absolute", e_step="natural_gradient").fit(x)
    gaps = x.copy()
    gaps[0, 0, 0] = np.nan
    with pytest.raises(rp.RPModelsError, match=r"partly NaN.*channels='separate'"):
        brief(rp.RPGPFA, 2, channels="together").fit(gaps)
    together = brief(rp.RPGPFA, 2, channels="together").fit(x)
    with pytest.raises(rp.RPModelsError, match="partly NaN"):
        together.transform(gaps)
    for ask in (together.rates, together.channel_probabilities):
        with pytest.raises(rp.RPModelsError, match="This model has none"):
            ask(x)
    with pytest.raises(rp.RPModelsError, match="This model has none"):
        together.tuning()
    assert together.contributions(x)["x"].shape == (6, 1)
    with pytest.raises(rp.RPModelsError, match="'y'"):
        fitted().rates(x, "y")
    with pytest.raises(rp.RPModelsError, match="u: expected finite numbers"):
        fitted().tuning(u=[[0.0]])
    with pytest.raises(rp.RPModelsError, match="12"):
        fitted().rates(x[..., :5])
    with pytest.raises(rp.RPModelsError, match="it has no atoms"):
        fitted().model_.atoms("x")


# ---- files -------------------------------------------------------------------------------------------------


def test_a_file_gives_the_same_numbers(tmp_path):
    x, model = spikes()[0], fitted()
    model.save(tmp_path / "model.rpm")
    again = rp.load(tmp_path / "model.rpm")
    for verb in ("transform", "rates", "score_samples"):
        np.testing.assert_array_equal(getattr(again, verb)(x), getattr(model, verb)(x))
    for one, other in zip(again.channel_probabilities(x), model.channel_probabilities(x), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(again.contributions(x[:3])["x"], model.contributions(x[:3])["x"])
    np.testing.assert_array_equal(again.tuning().expected, model.tuning().expected)
    assert repr(again).split("\n")[-1] == repr(model).split("\n")[-1]
    assert "factor x (12 channels, each by itself)" in repr(again)
    single = rp.load(tmp_path / "model.rpm", dtype="float32")
    np.testing.assert_allclose(single.rates(x), model.rates(x), rtol=1e-3, atol=1e-4)


def test_a_choice_of_factors_survives_a_file(tmp_path):
    x = spikes()[0][:12] + 1e8  # no counts of a table: numbers with an offset, kept in double precision
    model = brief(rp.RPGPFA, 2, factors={"a": rp.Population([0, 1, 2]), "b": rp.Population([3, 4])}).fit(x)
    model.save(tmp_path / "model.rpm")
    again = rp.load(tmp_path / "model.rpm")
    np.testing.assert_array_equal(again.rates(x, "b"), model.rates(x, "b"))
    assert again.get_params()["factors"] == model.get_params()["factors"]
    assert isinstance(again.model_.recogniser("a").network, ChannelCurves)


def test_a_fit_that_was_killed_ends_at_the_same_numbers(tmp_path):
    x = spikes()[0][:12].copy()
    x[3, :, 4] = np.nan

    def make(*callbacks):
        return made(rp.RPGPFA, 2, max_iter=12, batch_size=5, random_state=0, callbacks=list(callbacks))

    def kill(state):
        if state.step == 9:
            raise Killed

    with pytest.raises(Killed):
        make(kill).fit(x, checkpoint=tmp_path, checkpoint_every=0)
    whole, again = make().fit(x), make().fit(x, checkpoint=tmp_path, checkpoint_every=0)
    np.testing.assert_array_equal(again.history_["free_energy"], whole.history_["free_energy"])
    np.testing.assert_array_equal(again.rates(x), whole.rates(x))
    assert again.score_ == whole.score_


# ---- those above -----------------------------------------------------------------------------------------------


def test_a_diagnosis_names_the_channel_whose_mixture_is_far():
    model, x = made(rp.RPGPFA, 2, max_iter=3, random_state=0).fit(spikes()[0]), spikes()[0]
    assert "misfit" not in evaluation.diagnose(model, x)
    with torch.no_grad():
        model.model_.recogniser("x").network.bend[7] += 4.0
    model.model_._summaries = {}
    found = evaluation.diagnose(model, x)
    assert "misfit" in found
    assert "F of channel 7 of factor 'x' is" in repr(found)
    far = channels_module.distances(model.model_, "x")
    mixture = model.model_.summary("x")
    mean, variance, share = (each[0, 7] if each.ndim == 3 else each[7] for each in mixture.members())
    first = float((share * mean).sum())
    second = float((share * (variance + mean**2)).sum()) - first**2
    expected = kl(np.array([first]), np.array([[second]]), np.zeros(1), np.eye(1))
    assert float(far[7]) == pytest.approx(expected, rel=1e-4)


def test_pictures_of_populations():
    model, (x, _, _) = fitted(), spikes()
    axes = plots.tuning(model)
    assert len(axes.lines) == 6
    best = int(np.argmax(model.tuning().precision))
    assert axes.lines[0].get_label().startswith(f"channel {best} (")
    np.testing.assert_allclose(axes.lines[0].get_ydata(), model.tuning().expected[best])
    assert {each.get_label().split()[1] for each in plots.tuning(model, channels=[3, 1]).lines} == {"1", "3"}
    axes = plots.rates(model, x, 3)
    shown = axes.collections[0].get_array().reshape(UNITS, TIMES)
    np.testing.assert_allclose(shown, model.rates(x)[3].T)
    left = axes.figure.axes[0].collections[0].get_array().reshape(UNITS, TIMES)
    np.testing.assert_allclose(left, x[3].T)
    own = plt.figure().add_subplot()
    assert plots.rates(model, x, ax=own) is own
    axes = plots.mixture_against_prior(model, "x", channel=4, site=2)
    assert "channel 4" in axes.get_xlabel()
    for line in axes.lines:
        u, density = line.get_data()
        assert np.trapezoid(density, u) == pytest.approx(1.0, abs=1e-3)
    far = int(channels_module.distances(model.model_, "x").argmax())
    assert f"channel {far}" in plots.mixture_against_prior(model, "x").get_xlabel()
    page = report.model_page(model, x[:5], "a page")
    assert "no atoms" not in page


def test_pictures_that_cannot_be_say_so():
    model, (x, _, _) = fitted(), spikes()
    for ask, match in (
        (lambda: plots.tuning(model, channels=[12]), "some from 0 to 11"),
        (lambda: plots.tuning(model, channels=0), "a number > 0"),
        (lambda: plots.rates(model, x, 99), "one from 0 to 39"),
        (lambda: plots.rates(model, x[0]), "one long recording"),
        (lambda: plots.mixture_against_prior(model, "x", channel=12), "one from 0 to 11"),
        (lambda: plots.tuning(model, "y"), "'y'"),
    ):
        with pytest.raises(rp.RPModelsError, match=match):
            ask()
    table = tuned(30, 8, 1)[0]
    flat = brief().fit(table)
    with pytest.raises(rp.RPModelsError, match="one of trials over time"):
        plots.rates(flat, table)
    states = made(rp.RPHMM, 2, max_iter=2, n_init=1, random_state=0).fit(x[:5])
    for draw in (lambda: plots.tuning(states), lambda: plots.rates(states, x)):
        with pytest.raises(rp.RPModelsError, match="expected a model of continuous latents"):
            draw()


def test_gaps_of_populations_know_their_data():
    x = spikes()[0][:8]
    model = brief(rp.RPGPFA, 2).fit(x)
    assert len(evaluation.gap(model, x, longer=2, n_runs=1).rows) == 3
    with pytest.raises(rp.RPModelsError, match="expected the data that this RPGPFA was fitted to"):
        evaluation.gap(model, x[:5], longer=2, n_runs=1)


@pytest.mark.parametrize(("e_step", "first", "last"), [("auto", Amortised, Refined), ("refined", Refined, Refined)])
def test_populations_are_refined_in_the_last_steps_and_afterwards(monkeypatch, e_step, first, last):
    seen = []
    evaluate = RPMObjective.evaluate

    def watched(self, batch):
        if self.training:
            seen.append(type(self._e_step))
        return evaluate(self, batch)

    monkeypatch.setattr(RPMObjective, "evaluate", watched)
    model = rp.RPGPFA(1, max_iter=20, random_state=0, inference=rp.Inference(e_step=e_step)).fit(spikes()[0][:8])
    falling = round(20 * model.low_rate)
    assert seen == [first] * (20 - falling) + [last] * falling
    assert isinstance(model.model_.pattern.e_step, Refined)


def test_networks_are_not_refined():
    x = spikes()[0][:8]
    model = rp.RPGPFA(1, max_iter=2, n_init=1, random_state=0, channels="together").fit(x)
    assert isinstance(model.model_.pattern.e_step, Amortised)


@pytest.mark.parametrize("e_step", ["auto", "refined"])
def test_refined_fits_are_saved_and_read_as_they_were(tmp_path, e_step):
    x = spikes()[0][:12]
    model = brief(rp.RPGPFA, 2, inference=rp.Inference(e_step=e_step)).fit(x)
    model.save(tmp_path / "model.rpm")
    again = rp.load(tmp_path / "model.rpm")
    np.testing.assert_array_equal(again.transform(x), model.transform(x))
    assert again.model_.pattern.e_step.late == (e_step == "auto")
    assert np.abs(model.posterior(x, e_step="amortised").mean - model.posterior(x).mean).max() > 1e-4
