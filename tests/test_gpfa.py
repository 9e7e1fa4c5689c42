"""RP-GPFA as a user meets it: forms of data, new data, recordings, bad input, and the ball."""

import warnings

import gpytorch
import numpy as np
import pytest
import torch
from sklearn.base import clone

import rpmodels as rp
from data import ball
from registry import made
from rpmodels import generative
from rpmodels.errors import InputError, RPModelsWarning
from rpmodels.estimators import layout
from rpmodels.learning import AsGiven, LongStart
from rpmodels.priors import GaussianProcessPrior
from rpmodels.recognition import has_no_hidden_layer

FAST = {"n_init": 1, "max_iter": 4, "random_state": 0}


def test_the_ball_is_recovered_and_new_trials_as_well():
    data = rp.datasets.structured_ball(n_trials=60, n_times=25, random_state=1)
    model = rp.RPGPFA(n_inducing=12, n_init=1, max_iter=90, learning_rate=0.03, random_state=0).fit(data.x[:40])
    mean = model.transform(data.x[:40])
    error = rp.metrics.nmse(mean, data.z[:40])
    assert error < 0.02
    assert rp.metrics.nmse(model.transform(data.x[40:]), data.z[40:], mean, data.z[:40]) < 1.5 * error + 1e-3
    assert 0 < model.score_ < model.score_.ceiling
    assert "a lower bound of the score" in repr(model.score_)
    assert model.score_.ceiling == pytest.approx((25 - 1) * np.log(40), rel=1e-4)
    assert model.length_scales_.shape == (1,)


def smooth_views(n, t, seed):
    """In-model data: z from the GP prior, two linear-Gaussian views of it."""
    random = np.random.default_rng(seed)
    times = np.arange(t)
    kernel = np.exp(-0.5 * ((times[:, None] - times) / 4.0) ** 2)
    z = random.multivariate_normal(np.zeros(t), kernel, n, method="eigh")
    mixing = np.random.default_rng(99).standard_normal((2, 3))
    views = {name: z[..., None] * c + random.standard_normal((n, t, 3)) for name, c in zip("ab", mixing, strict=True)}
    return views, z[..., None]


def test_ninety_percent_intervals_cover_in_model_data():
    views, z = smooth_views(60, 30, 0)
    new, truth = smooth_views(60, 30, 1)
    model = rp.RPGPFA(
        network="linear", n_init=1, max_iter=150, n_inducing=15, random_state=0,
        recognition=rp.Recognition(precision="constant", scaling="none", input_dropout=0.0),
        training=rp.Training(weight_decay=0.0),
    ).fit(views)  # fmt: skip
    posterior = model.posterior(new)
    line = rp.metrics.linear_map(model.transform(views), z)
    mean, variance = rp.metrics.aligned(posterior.mean, posterior.covariance, *line)
    assert 0.85 <= rp.metrics.coverage(mean, variance, truth) <= 0.95
    assert model.length_scales_[0] == pytest.approx(4.0, rel=0.3)


# ---- forms ----------------------------------------------------------------------------------


def test_results_have_the_form_of_the_data():
    data = ball()
    whole = made(rp.RPGPFA, **FAST).fit(data.x)
    assert whole.transform(data.x).shape == (8, 20, 1)
    posterior = whole.posterior(data.x)
    assert posterior.covariance.shape == (8, 20, 1, 1)
    assert posterior.variance.shape == (8, 20, 1)
    assert [each.shape for each in posterior.sample(2)] == [(8, 20, 1)] * 2
    trials = [x[:length] for x, length in zip(data.x, (20, 5, 9, 20, 3, 20, 20, 7), strict=True)]
    lists = made(rp.RPGPFA, **FAST).fit(trials)
    assert [len(each) for each in lists.transform(trials)] == [len(each) for each in trials]
    assert [each.shape for each in lists.posterior(trials).variance] == [(len(each), 1) for each in trials]
    assert [each.shape for each in lists.posterior(trials).sample(1)[0]] == [(len(each), 1) for each in trials]
    named = made(rp.RPGPFA, **FAST).fit({"left": data.x, "right": data.x[..., :4]})
    assert named.transform({"left": data.x}).shape == (8, 20, 1)
    mean, covariance = named.recognise(data.x, "left")
    assert mean.shape == (8, 20, 1)
    assert covariance.shape == (8, 20, 1, 1)
    columns = made(rp.RPGPFA, factors={"first": [0, 1, 2], "rest": slice(3, 10)}, **FAST).fit(data.x)
    assert columns.transform(data.x).shape == (8, 20, 1)
    assert set(columns.model_.names) == {"first", "rest"}


def test_fit_transform_is_fit_then_transform_and_trials_are_inferred_one_by_one():
    data = ball()
    model = made(rp.RPGPFA, **FAST)
    both = model.fit_transform(data.x)
    np.testing.assert_array_equal(both, model.transform(data.x))
    np.testing.assert_allclose(model.transform(data.x[3:4]), both[3:4], atol=1e-5)
    np.testing.assert_allclose(model.score_samples(data.x[3:4]), model.score_samples(data.x)[3:4], atol=1e-3)
    weighted = made(rp.RPGPFA, **FAST).fit_transform(data.x, sample_weight=np.arange(1.0, 9.0))
    assert weighted.shape == both.shape


def test_a_long_recording_is_cut_into_windows_and_stitched():
    x = rp.datasets.plain_ball(n_trials=1, n_times=230, random_state=0).x[0]
    model = made(rp.RPGPFA, window=50, **FAST).fit(x)
    assert model.transform(x).shape == (230, 1)
    assert model.posterior(x).covariance.shape == (230, 1, 1)
    times = np.arange(230) * 0.1 + 1.7e9
    timed = made(rp.RPGPFA, window=50, **FAST).fit({"x": x}, times=times)
    np.testing.assert_allclose(
        timed.transform({"x": x}, times=times), model.transform(x), atol=1e-3
    )  # the clock's unit and origin do not matter
    gaps = timed.transform({"x": x}, times=times, presence={"x": np.arange(230) % 7 != 0})
    assert np.isfinite(gaps).all()
    with pytest.raises(InputError, match="trials"):
        model.posterior(x, at=[1.0])
    with pytest.raises(InputError, match=r"shape \(230,\)"):
        model.transform(x, times=np.arange(5))


def test_factors_with_clocks_of_their_own_meet_at_all_their_times():
    data = ball()
    slow, fast = data.x[:, ::3], data.x[:, 1::2, :4]
    times = {"slow": np.arange(0.0, 20.0, 3.0), "fast": [np.arange(1.0, 20.0, 2.0)] * 8}
    model = made(rp.RPGPFA, dtype="float64", **FAST).fit({"slow": slow, "fast": list(fast)}, times=times)
    posterior = model.posterior({"slow": slow, "fast": list(fast)}, times=times)
    union = np.union1d(times["slow"], times["fast"][0])
    assert [each.shape for each in posterior.mean] == [(len(union), 1)] * 8
    np.testing.assert_array_equal(posterior.times[3], union)
    padded = {name: np.full((8, 20, width), np.nan) for name, width in (("slow", 10), ("fast", 4))}
    padded["slow"][:, ::3], padded["fast"][:, 1::2] = slow, fast
    kept = {name: each[:, union.astype(int)] for name, each in padded.items()}
    expected = model.transform(kept, times=union)
    np.testing.assert_allclose(np.stack(posterior.mean), expected, atol=1e-10)
    one_gone = dict(times, fast=[None, *times["fast"][1:]])
    means = model.transform({"slow": slow, "fast": [None, *fast[1:]]}, times=one_gone)
    assert [len(each) for each in means] == [7] + [len(union)] * 7
    with pytest.raises(InputError, match="has none of factor 'fast'"):
        model.transform({"slow": slow, "fast": list(fast)}, times={"slow": times["slow"]})


def test_recordings_with_clocks_of_their_own():
    x = rp.datasets.plain_ball(n_trials=1, n_times=120, random_state=0).x[0]
    times = {"a": np.arange(0.0, 120.0, 2.0), "b": np.arange(120.0)}
    model = made(rp.RPGPFA, window=50, **FAST).fit({"a": x[::2], "b": x[:, :4]}, times=times)
    posterior = model.posterior({"a": x[::2], "b": x[:, :4]}, times=times)
    assert posterior.mean.shape == (120, 1)
    np.testing.assert_array_equal(posterior.times, np.arange(120.0))


def test_trials_without_one_of_the_factors():
    data = ball()
    lengths = (20, 5, 9, 20, 3, 20, 20, 7)
    whole = [x[:length] for x, length in zip(data.x, lengths, strict=True)]
    gaps = [None if n in (2, 5) else x[:, :3] for n, x in enumerate(whole)]
    as_nan = [np.full((len(x), 3), np.nan) if n in (2, 5) else x[:, :3] for n, x in enumerate(whole)]
    model = made(rp.RPGPFA, dtype="float64", **FAST).fit({"a": whole, "b": gaps})
    means = model.transform({"a": whole, "b": gaps})
    assert [len(each) for each in means] == list(lengths)
    for left, right in zip(means, model.transform({"a": whole, "b": as_nan}), strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_allclose(means[2], model.transform({"a": whole[2:3]})[0], atol=1e-10)
    with pytest.raises(InputError, match="Trial 2 is None in every factor"):
        model.transform({"a": [None if n == 2 else x for n, x in enumerate(whole)], "b": gaps})


@pytest.mark.parametrize("total", [7, 50, 51, 99, 100, 230])
def test_windows_cover_a_recording_and_stitching_takes_the_deepest(total):
    places = layout.windows(total, 50, 25)
    covered = np.zeros(total, int)
    for start, length in places:
        covered[start : start + length] += 1
    assert covered.min() >= 1
    window_of = np.stack([np.pad(np.full(n, i), (0, 50 - n)) for i, (_, n) in enumerate(places)])[..., None]
    time_of = np.stack([np.pad(np.arange(s, s + n), (0, 50 - n)) for s, n in places])[..., None]
    form = layout.Recording([s for s, _ in places], [n for _, n in places], np.arange(total, dtype=float))
    np.testing.assert_array_equal(form.form(time_of)[:, 0], np.arange(total))
    chosen = form.form(window_of)[:, 0]
    for t in range(total):
        start, length = places[chosen[t]]
        inner_edges = [t - start if start > 0 else total, start + length - 1 - t if start + length < total else total]
        assert min(inner_edges) >= min(12, total)


def test_missing_factors_and_bins_are_dropped_exactly():
    data = ball()
    model = made(rp.RPGPFA, dtype="float64", **FAST).fit({"a": data.x, "b": data.x[..., :3]})
    gone = data.x.astype(float).copy()
    gone[2, 5:9] = np.nan
    marked = np.ones((8, 20), bool)
    marked[2, 5:9] = False
    by_nan = model.transform({"a": gone, "b": data.x[..., :3]})
    by_presence = model.transform({"a": data.x, "b": data.x[..., :3]}, presence={"a": marked})
    np.testing.assert_allclose(by_nan, by_presence, atol=1e-9)
    nothing = model.posterior({"a": np.full_like(gone, np.nan)})
    np.testing.assert_allclose(nothing.mean, 0, atol=1e-9)
    np.testing.assert_allclose(nothing.variance, 1, atol=1e-6)
    np.testing.assert_allclose(model.score_samples({"a": np.full_like(gone, np.nan)}), 0, atol=1e-9)


def test_predictions_at_new_times_return_to_the_prior():
    data = ball()
    model = made(rp.RPGPFA, **FAST).fit(data.x)
    far = model.posterior(data.x, at=[3.5, 1e6])
    assert far.mean.shape == (8, 2, 1)
    np.testing.assert_allclose(far.variance[:, 1], 1, atol=1e-3)
    assert (far.variance[:, 0] < 1).all()


def test_irregular_times_need_pooled_atoms():
    data = ball()
    random = np.random.default_rng(0)
    times = [np.sort(random.uniform(0, 20, 20)) for _ in range(8)]
    model = made(rp.RPGPFA, **FAST).fit(list(data.x), times=times)
    assert model.model_.pattern.atoms.shared
    assert np.isfinite(model.transform(list(data.x), times=times)[0]).all()
    with pytest.raises(InputError, match="needs trials on one grid of times, and trial 1"):
        made(rp.RPGPFA, atoms="per_time", **FAST).fit(list(data.x), times=times)


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel": "matern32"},
        {"kernel": "periodic"},
        {"n_latents": 2, "kernel": gpytorch.kernels.RBFKernel() + gpytorch.kernels.MaternKernel(nu=0.5)},
        {"inducing": "learned", "n_inducing": 6},
        {"inducing": np.linspace(0, 19, 5)},
        {"n_latents": 2, "covariance": "full", "precision": "constant"},
        {"n_latents": 2, "inducing": np.random.default_rng(0).uniform(0, 19, (2, 5))},
        {"mean": gpytorch.means.ConstantMean()},
        {"e_step": "natural_gradient"},
        {"e_step": "free", "alternate": 2},
        {"atoms": "per_time", "batch_size": 4},
        {"atoms": "pooled", "marginal": "gaussian"},
        {"n_latents": 2, "targets": {"x": [1]}},
        {"length_scale": 3.0, "validation_fraction": 0.25, "patience": 2},
        {"expected_log_mixture": rp.mixtures.GaussHermite(4)},
        {**rp.presets.paper(), "max_iter": 4},
        {**rp.presets.paper("second_order"), "max_iter": 4},
    ],
    ids=lambda each: ",".join(map(str, each)),
)
def test_every_choice_fits_and_repeats(settings):
    data = ball(n=8, t=20)
    fits = [made(rp.RPGPFA, **{**FAST, **settings}).fit(data.x) for _ in range(2)]
    first, second = (fit.transform(data.x[:2]) for fit in fits)
    np.testing.assert_array_equal(first, second)
    assert np.isfinite(first).all()
    assert np.isfinite(float(fits[0].score(data.x[:2])))


def test_long_scales_are_tried_among_the_starts():
    data = ball()
    model = rp.RPGPFA(n_init=4, max_iter=8, random_state=0).fit(data.x)
    assert sorted({attempt.kind.removesuffix(", again") for attempt in model.restarts_}) == [
        "GPFA",
        "as given",
        "long length scale",
        "random",
    ]
    prior = model._prior(rp.families.DiagonalGaussian(1), rp.read({"x": data.x}, series=True))
    assert isinstance(prior, GaussianProcessPrior)
    before = float(prior.length_scales()[0])
    assert before == pytest.approx(1.0)  # 20 inducing points on 20 times: one spacing
    prior.stretch(LongStart.times)
    assert float(prior.length_scales()[0]) == pytest.approx(LongStart.times * before)
    assert isinstance(model._starts()[0], AsGiven)


def test_a_collapsed_fit_is_tried_again_aloud():
    noise = np.random.default_rng(0).standard_normal((6, 10, 3)).astype(np.float32)
    with pytest.warns(RPModelsWarning) as caught:
        rp.RPGPFA(n_init=1, max_iter=1, learning_rate=1e-9, random_state=0).fit(noise)
    texts = [str(each.message) for each in caught]
    assert sum("trying again" in text for text in texts) == 3
    assert any("found no dependence" in text for text in texts)


def test_a_time_limit_stops_the_final_run():
    data = ball()
    model = rp.RPGPFA(
        n_init=1, max_iter=10_000, random_state=0, training=rp.Training(callbacks=[rp.TimeLimit(0.2)])
    ).fit(data.x)
    assert model.n_iter_ < 10_000
    assert "time limit: 0.2 s" in model.stop_reason_


def test_smoothed_input_is_noticed_and_unsmoothed_is_not():
    random = np.random.default_rng(0)
    white = random.standard_normal((5, 60, 4))
    kernel = np.exp(-0.5 * (np.arange(-6, 7) / 2.0) ** 2)
    smooth = np.apply_along_axis(lambda each: np.convolve(each, kernel, "same"), 1, white)
    with pytest.warns(RPModelsWarning, match="looks smoothed"):
        made(rp.RPGPFA, **FAST).fit(smooth)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for data in (white, ball().x):
            rp.read({"x": data}, series=True).check_series(per_site=False)


def test_behaviour_beside_counts_is_told_what_fits_it():
    random = np.random.default_rng(0)
    walk = random.standard_normal((5, 60, 3)).cumsum(1).cumsum(1)
    counts = random.poisson(1.0, (5, 60, 4)).astype(float)

    def warned(private=(), presence=None, **factors):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rp.read(factors, series=True, presence=presence).check_series(False, private)
        return [str(each.message) for each in caught]

    (said,) = warned(spikes=counts, place=walk)
    assert "Factor 'place', a few numbers beside counts" in said
    assert "looks smoothed" not in said
    assert "presence={'place': every tenth bin}" in said
    assert "rp.Recognition(private={'place': 2})" in said
    # Beside no counts, or as many channels, it is what should not have been smoothed.
    wide = np.tile(walk, 3)
    for factors in ({"place": walk}, {"place": walk, "other": random.standard_normal((5, 60, 4))}):
        (said,) = warned(**factors)
        assert "Factor 'place' looks smoothed" in said
    (said,) = warned(spikes=counts, sensors=wide)
    assert "Factor 'sensors' looks smoothed" in said
    # What the advice was, once it is followed.
    assert warned(spikes=counts, place=walk, private=["place"]) == []
    assert warned(spikes=counts, place=walk, presence={"place": np.tile(np.arange(60) % 10 == 0, (5, 1))}) == []
    assert len(warned(spikes=counts, sensors=wide, private=["sensors"])) == 1


def test_latents_of_its_own_settle_the_warning_in_a_fit():
    random = np.random.default_rng(0)
    X = {
        "spikes": random.poisson(1.0, (5, 30, 4)),
        "place": random.standard_normal((5, 30, 2)).cumsum(1).cumsum(1),
    }
    with pytest.warns(RPModelsWarning, match="smooth as behaviour is"):
        made(rp.RPGPFA, **FAST).fit(X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made(rp.RPGPFA, private={"place": 1}, **FAST).fit(X)
    assert not [each for each in caught if "smooth" in str(each.message)]


def test_warnings_of_lonely_times_and_too_many_inducing_points():
    data = ball(n=4)
    trials = [data.x[0], data.x[1][:10], data.x[2][:10], data.x[3][:10]]
    with pytest.warns(RPModelsWarning, match=r"10 time point\(s\), the first at 10.0, have one trial only"):
        made(rp.RPGPFA, atoms="per_time", **FAST).fit(trials)
    with pytest.warns(RPModelsWarning, match="n_inducing = 99 is more than the 20 distinct times"):
        model = made(rp.RPGPFA, n_inducing=99, **FAST).fit(data.x)
    assert model.model_.prior.n_inducing == 20


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ({}, {"times": np.zeros(20)}, "strictly increasing"),
        ({}, {"times": np.r_[0.0, 0.0, np.arange(1, 19)]}, "strictly increasing"),
        ({}, {"times": np.r_[np.nan, np.arange(1.0, 20)]}, "finite and strictly increasing"),
        ({}, {"times": np.arange(7)}, r"times: expected shape \(20,\)"),
        ({"n_latents": 0}, {}, "n_latents: expected an integer ≥ 1"),
        ({"n_inducing": 0}, {}, "n_inducing"),
        ({"n_inducing": "many"}, {}, "n_inducing: expected None, 'auto' or an integer"),
        ({"kernel": "cubic"}, {}, "kernel: expected 'rbf'"),
        ({"kernel": gpytorch.kernels.RBFKernel(batch_shape=torch.Size([3]))}, {}, r"batch shape \(3,\)"),
        ({"inducing": "somewhere"}, {}, "inducing: expected 'fixed'"),
        ({"inducing": np.full(3, np.nan)}, {}, "inducing: expected .* an array of finite numbers"),
        ({"atoms": "split"}, {}, "inference.atoms: expected 'auto'"),
        ({"length_scale": -1.0}, {}, "length_scale"),
        ({"length_scale": "long"}, {}, "length_scale"),
        ({"batch_size": "half"}, {}, "batch_size"),
        ({"e_step": "amortised", "head": "absolute"}, {}, "absolute factors may know less"),
    ],
    ids=str,
)
def test_bad_input_is_named_before_any_work(settings, options, message):
    with pytest.raises(ValueError, match=message):
        made(rp.RPGPFA, **{**FAST, **settings}).fit(ball().x, **options)


def test_times_that_a_mixture_per_time_never_saw_are_refused():
    data = ball(n=6)
    model = made(rp.RPGPFA, atoms="per_time", **FAST).fit(data.x[:, :15])
    with pytest.raises(InputError, match=r"5 time\(s\) of these data were never seen, first 15"):
        model.transform(data.x)
    with pytest.raises(InputError, match=r"never seen, first 0\.5"):
        model.transform(data.x[:, :15], times=np.arange(15) + 0.5)
    assert model.transform(data.x[:, :7]).shape == (6, 7, 1)
    with pytest.raises(InputError, match="needs trials on one grid of times, and trial 0"):
        model.transform(data.x[:, 3:15], times=np.arange(3.0, 15.0))


def test_a_sample_from_the_prior_and_atoms():
    data = ball(n=5)
    model = made(rp.RPGPFA, **FAST).fit(data.x)
    z, atoms = generative.sample(model.model_, 3, torch.Generator().manual_seed(0))
    assert z.shape == (3, 20, 1)
    assert atoms["x"].shape == (3, 20)


def test_scikit_learn_manners():
    model = rp.RPGPFA(3, n_inducing=7, kernel="matern52")
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.set_params(n_latents=2).n_latents == 2
    with pytest.raises(rp.RPModelsError, match="not fitted yet"):
        model.transform(ball().x)


def test_counts_get_a_linear_network_and_nothing_else_does():
    random = np.random.default_rng(0)
    X = {
        "spikes": [random.poisson(1.0, (12, 4)) for _ in range(20)],
        "speed": [random.standard_normal((12, 2)) for _ in range(20)],
    }

    def hidden(**settings):
        model = made(rp.RPGPFA, 1, max_iter=1, n_init=1, retries=0, random_state=0, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RPModelsWarning)
            return {
                name: not has_no_hidden_layer(factor.network)
                for name, factor in model.fit(X).model_.pattern.recognisers()
            }

    assert hidden() == {"spikes": False, "speed": True}
    assert hidden(network={"speed": "linear"}) == {"spikes": False, "speed": False}
    assert hidden(network={"spikes": "mlp"}) == {"spikes": True, "speed": True}
    assert hidden(network="mlp") == {"spikes": True, "speed": True}


def test_posterior_by_another_e_step():
    """Refined by natural gradients, at test time alone: what a model with that E-step would say, and no worse."""
    x = ball().x
    model = rp.RPGPFA(1, n_init=1, max_iter=30, engine=rp.Engine(dtype="float64"), random_state=0).fit(x)
    amortised, refined = model.posterior(x), model.posterior(x, e_step="natural_gradient")
    assert np.abs(refined.mean - amortised.mean).max() > 1e-6
    before = float(model.score(x))
    model.model_.pattern.e_step = rp.inference.NaturalGradient()
    np.testing.assert_array_equal(refined.mean, model.posterior(x).mean)
    assert float(model.score(x)) > before
    with pytest.raises(InputError, match="e_step"):
        model.posterior(x, e_step="best")
