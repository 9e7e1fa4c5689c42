"""Streams: the filter, one time after the other; states kept and restored; programs for elsewhere."""

import importlib.util
import json
import warnings
import zipfile

import numpy as np
import pytest
import torch

import rpmodels as rp
from rpmodels import decompositions
from rpmodels.errors import RPModelsError, RPModelsWarning
from rpmodels.inference import Amortised

N, T, D = 12, 16, 5
KINDS = ("dynamics", "process", "full process", "states", "chains", "ages", "counts", "numbers")
rng = np.random.default_rng(0)
LATENT = np.cumsum(rng.standard_normal((N, T, 2)), 1) * 0.4
ROWS = (LATENT @ rng.standard_normal((2, D)) + 0.5 * rng.standard_normal((N, T, D))).astype(np.float32)
COUNTS = rng.poisson(np.exp(0.5 * LATENT @ rng.standard_normal((2, 9)) * 0.5)).astype(np.float32)
SOUND = (LATENT[..., :1] + 0.3 * rng.standard_normal((N, T, 1))).astype(np.float32)
WORDS = np.where(LATENT[..., 1] > 0, "up", "down")
TIMES = np.cumsum(rng.uniform(0.01, 0.05, (N, T)), 1)


def brief(kind):
    """As little of a fit as there can be."""
    options = {
        "max_iter": 2, "n_init": 1, "random_state": 0, "training": rp.Training(finish="none"),
        "search": rp.Search(retries=0),
    }  # fmt: skip
    process = {"n_inducing": None, "inference": rp.Inference(atoms="pooled"), **options}
    both = {"rows": ROWS, "sound": SOUND}
    if kind == "dynamics":
        return rp.RPLDS(2, **options).fit({**both, "words": WORDS})
    if kind == "process":
        return rp.RPGPFA(2, kernel="matern32", network="linear", **process).fit(both, times=TIMES)
    if kind == "full process":
        full = rp.Recognition(covariance="full")
        return rp.RPGPFA(2, kernel="matern52", recognition=full, **process).fit(both, times=TIMES)
    if kind == "states":
        return rp.RPHMM(3, network="linear", **options).fit(both)
    if kind == "chains":
        return rp.RPHMM({"a": 2, "b": 2}, targets={"sound": ["a"]}, **options).fit(both)
    if kind == "ages":
        return rp.RPHMM(2, durations=4, **options).fit({"rows": ROWS})
    apart = {"rows": "separate"}
    if kind == "counts":
        return rp.RPLDS(2, channels=apart, **options).fit({"rows": COUNTS, "sound": SOUND})
    return rp.RPGPFA(2, kernel="matern32", channels=apart, **process).fit({"rows": ROWS})


@pytest.fixture(scope="module")
def models():
    """Made when asked for."""
    made = {}

    def model(kind):
        if kind not in made:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made[kind] = brief(kind)
        return made[kind]

    return model


def data_of(kind, n):
    """One series, some of it missing, and its times."""
    found = {"rows": (COUNTS if kind == "counts" else ROWS)[n].copy()}
    if kind in ("dynamics", "process", "full process", "states", "chains", "counts"):
        found["sound"] = SOUND[n].copy()
        found["sound"][[2, 6]] = np.nan
    if kind == "dynamics":
        found["words"] = WORDS[n].copy()
        found["words"][4:9] = ""
    found["rows"][[3, 6]] = np.nan
    if kind in ("counts", "numbers"):
        found["rows"][8, :3] = np.nan
    return found, TIMES[n] if kind in ("process", "full process") else None


def filtered(model, data, times):
    """What `filter` says at every time: an array, or mean and covariance, by time."""
    found = model.filter({name: [each] for name, each in data.items()}, **({} if times is None else {"times": [times]}))
    if isinstance(found, list):
        return [(each,) for each in found[0]]
    if isinstance(found, dict):
        return [tuple(each[0][t] for each in found.values()) for t in range(T)]
    return list(zip(found.mean[0], found.covariance[0], strict=True))


def as_tuple(found):
    if isinstance(found, dict):
        return tuple(found.values())
    return found if isinstance(found, tuple | list) else (found,)


def near(got, expected, tolerance=1e-6):
    for one, two in zip(as_tuple(got), as_tuple(expected), strict=True):
        np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)


def at(data, t):
    return {name: each[t] for name, each in data.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_stream_is_the_filter(kind, models):
    model = models(kind)
    data, times = data_of(kind, 0)
    stream = model.stream()
    for t, expected in enumerate(filtered(model, data, times)):
        given = at(data, t)
        if t == 6:  # nothing is there: by no word, or by NaN
            given = {"words": data["words"][t]} if "words" in data else {}
        near(stream.update(given, **({} if times is None else {"time": times[t]})), expected)


@pytest.mark.parametrize("kind", ["dynamics", "process", "states", "chains", "counts"])
def test_series_at_once_are_series_one_by_one(kind, models):
    model = models(kind)
    series = [data_of(kind, n) for n in range(3)]
    singles, together = [model.stream() for _ in series], model.stream(3)
    for t in range(9):
        if t == 5:
            singles[1].reset()
            together.reset([1])
        timed = series[0][1] is not None
        each = [
            as_tuple(one.update(at(data, t), **({"time": times[t]} if timed else {})))
            for one, (data, times) in zip(singles, series, strict=True)
        ]
        rows = {name: np.stack([data[name][t] for data, _ in series]) for name in series[0][0]}
        found = together.update(rows, **({"time": np.array([times[t] for _, times in series])} if timed else {}))
        near(found, [np.stack(parts) for parts in zip(*each, strict=True)])


def test_the_filter_is_the_posterior_of_the_past(models):
    model = models("full process")
    data, times = data_of("full process", 1)
    for t, (mean, covariance) in enumerate(filtered(model, data, times)):
        past = {name: [each[: t + 1]] for name, each in data.items()}
        found = model.posterior(past, times=[times[: t + 1]])
        near((found.mean[0][-1], found.covariance[0][-1]), (mean, covariance), 1e-5)


def test_populations_are_refined_where_they_are_filtered(models):
    """As in `posterior` at one time alone; later on nearer to it than potentials as they come."""
    model = models("counts")
    assert model.model_.pattern.e_step.refinements == 1
    alone = {"rows": COUNTS[:, :1], "sound": SOUND[:, :1]}
    near(model.filter(alone).mean, model.posterior(alone).mean, 1e-5)
    whole = {"rows": COUNTS, "sound": SOUND}
    last = model.posterior(whole).mean[:, -1]
    refined = np.abs(model.filter(whole).mean[:, -1] - last).mean()
    plain = model.model_.pattern.e_step
    try:
        model.model_.pattern.e_step = Amortised()
        assert refined < 0.2 * np.abs(model.filter(whole).mean[:, -1] - last).mean()
    finally:
        model.model_.pattern.e_step = plain


def test_a_state_goes_on_where_it_was(models, tmp_path):
    for kind in ("process", "states", "counts"):
        model = models(kind)
        data, times = data_of(kind, 2)
        stream = model.stream()
        options = [{} if times is None else {"time": each} for each in (times if times is not None else range(T))]
        for t in range(5):
            stream.update(at(data, t), **options[t])
        kept = stream.state
        assert all(isinstance(each, np.ndarray) for each in kept.values())
        stream.save(tmp_path / "now")
        model.save(tmp_path / "model")
        stream.update()
        stream.reset()
        stream.restore(kept)
        expected = stream.update(at(data, 5), **options[5])
        elsewhere = rp.load(tmp_path / "model").stream()
        elsewhere.restore(tmp_path / "now")
        near(elsewhere.update(at(data, 5), **options[5]), expected, 0.0)


def test_states_of_others_are_refused(models, tmp_path):
    stream = models("dynamics").stream()
    stream.save(tmp_path / "now")
    models("dynamics").save(tmp_path / "model")
    with pytest.raises(RPModelsError, match="another model"):
        models("counts").stream().restore(tmp_path / "now")
    with pytest.raises(RPModelsError, match="no state of a stream"):
        stream.restore(tmp_path / "model")
    before = stream.state
    with pytest.raises(RPModelsError, match="of the state: expected numbers of shape"):
        models("dynamics").stream(2).restore(before)
    with pytest.raises(RPModelsError, match="The names of the state"):
        stream.restore({"mean": before["mean"]})
    with pytest.raises(RPModelsError, match="expected finite numbers"):
        stream.restore({**before, "mean": np.nan * before["mean"]})
    near(tuple(stream.state.values()), tuple(before.values()), 0.0)


def test_bad_rows_are_told_as_anywhere_and_change_nothing(models):
    stream = models("dynamics").stream()
    stream.update({"rows": ROWS[0, 0]})
    before = stream.state
    for x, said in (
        ({"image": ROWS[0, 0]}, "image"),
        ({"rows": ROWS[0, 0, :3]}, "rows"),
        ({"rows": np.where(np.arange(D) == 1, np.inf, ROWS[0, 0])}, "infinite|inf"),
        ({"rows": np.where(np.arange(D) == 1, np.nan, ROWS[0, 0])}, "partly|NaN"),
        ({"words": "left"}, "left"),
        ({"rows": ["a", "b"]}, "rows"),
        (ROWS[0, 0], "a dict with factors"),
    ):
        with pytest.raises(RPModelsError, match=said):
            stream.update(x)
    with pytest.raises(RPModelsError, match="counts steps and has no clock"):
        stream.update({"rows": ROWS[0, 0]}, time=3.0)
    with pytest.raises(RPModelsError, match="inputs: expected 0 finite numbers"):
        stream.update({"rows": ROWS[0, 0]}, inputs=[1.0])
    with pytest.raises(RPModelsError, match="3 rows, one for every series"):
        models("dynamics").stream(3).update({"rows": ROWS[0, 0]})
    near(tuple(stream.state.values()), tuple(before.values()), 0.0)
    stream.reset()
    near(stream.update({"rows": ROWS[0, 0]}), models("dynamics").stream().update({"rows": ROWS[0, 0]}), 0.0)


def test_presence_hides_what_cannot_be_nan(models):
    one, other = models("dynamics").stream(), models("dynamics").stream()
    rows = at({"rows": ROWS[0], "words": WORDS[0]}, 0)
    near(one.update(rows, presence={"words": False}), other.update({"rows": ROWS[0, 0], "words": None}), 0.0)
    pair = models("dynamics").stream(2)
    found = pair.update({"rows": ROWS[:2, 0], "words": WORDS[:2, 0]}, presence={"words": np.array([False, True])})
    near([each[0] for each in found], models("dynamics").stream().update({"rows": ROWS[0, 0]}))


def test_numbers_out_of_range_are_flagged(models):
    stream = models("dynamics").stream()
    assert stream.out_of_range == {}
    far = ROWS[0, 0].copy()
    far[:2] = 1e4
    mean, _ = stream.update({"rows": far, "words": "up"})
    assert stream.out_of_range == {"rows": 0.4, "words": 0.0}
    assert np.isfinite(mean).all()
    pair = models("counts").stream(2)
    pair.update({"rows": np.stack([COUNTS[0, 0], np.full(9, 1e3, np.float32)])})
    np.testing.assert_array_equal(pair.out_of_range["rows"], [0.0, 1.0])


def test_clocks(models):
    model = models("process")
    stream = model.stream()
    assert np.isnan(stream.time)
    rows = {"rows": ROWS[0, 0]}
    stream.update(rows, time=5.0)
    with pytest.raises(RPModelsError, match="expected 5, the time of the last update, or later; got 4"):
        stream.update(rows, time=4.0)
    with pytest.raises(RPModelsError, match="time: expected a finite number"):
        stream.update(rows, time=[1.0, 2.0])
    stream.update(time=5.0)
    stream.update()
    assert stream.time == pytest.approx(5.0 + np.median(np.diff(model.model_.times)))
    other = model.stream()
    other.update(rows, time=0.0)
    with pytest.warns(RPModelsWarning, match="time step"):
        other.update(rows, time=1e3)


def test_a_process_with_inducing_points_says_which_kernel_streams():
    small = rp.Training(finish="none")
    model = rp.RPGPFA(1, max_iter=2, n_init=1, random_state=0, network="linear", training=small).fit(ROWS)
    with pytest.raises(RPModelsError, match=r"kernel='matern52'.*n_inducing=None"):
        model.stream()


# ---- programs for elsewhere -------------------------------------------------------------------------


def run_torch(path, about, given):
    found = torch.export.load(path).module()(*[torch.from_numpy(given[name]) for name in about.inputs])
    return dict(zip(about.outputs, (each.numpy() for each in found), strict=True))


def run_onnx(path, about, given):
    import onnxruntime  # noqa: PLC0415

    session = onnxruntime.InferenceSession(str(path))
    wanted = [each.name for each in session.get_inputs()]
    return dict(zip(about.outputs, session.run(None, {name: given[name] for name in wanted}), strict=True))


def assert_exported(model, kind, path, run, steps=4):
    """The program goes on by itself, and says what the stream does."""
    stream, (data, _) = model.stream(), data_of(kind, 0)
    about = stream.export(path, **({"step": 0.03} if stream.state["time"].size and "process" in kind else {}))
    state = {name: np.array(each, about.inputs[name]["dtype"]) for name, each in about.begin.items()}
    vocabulary = {name: spec.vocabulary for name, spec in model.model_.specs.items()}
    for t in range(2, 2 + steps):
        given, here = dict(state), at(data, t)
        there = [bool(np.all(each == each) and str(each) != "") for each in here.values()]
        for (name, each), seen in zip(here.items(), there, strict=True):
            form = about.inputs[f"rows_{name}"]
            value = vocabulary[name].index(str(each)) if vocabulary[name] and seen else each if seen else 0
            given[f"rows_{name}"] = np.broadcast_to(np.asarray(value, form["dtype"]), form["shape"]).copy()
        given["present"] = np.array([there])
        found = run(path, about, given)
        known = {name: each for (name, each), seen in zip(here.items(), there, strict=True) if seen}
        expected = stream.update(known, **({"time": 0.03 * t} if "process" in kind else {}))
        if kind in ("chains", "ages"):
            expected = stream.state["probabilities"][0].astype(np.float32)
        shown = [each[0] for name, each in found.items() if not name.startswith("next_")]
        near(shown, [np.squeeze(each, 0) if each.ndim > 1 and kind in ("chains", "ages") else each
                     for each in as_tuple(expected)])  # fmt: skip
        state = {
            f"state_{name.removeprefix('next_')}": each for name, each in found.items() if name.startswith("next_")
        }
    return about


def test_the_step_as_a_program(models, tmp_path):
    about = assert_exported(models("dynamics"), "dynamics", tmp_path / "step.pt2", run_torch)
    with zipfile.ZipFile(tmp_path / "step.pt2") as file:
        (place,) = [name for name in file.namelist() if name.endswith("rpmodels.json")]
        said = json.loads(file.read(place))
    assert said["inputs"] == about.inputs
    assert said["begin"] == about.begin
    with pytest.raises(RPModelsError, match=r"ends in \.pt2 or \.onnx"):
        models("dynamics").stream().export(tmp_path / "step.bin")


@pytest.mark.soak
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "dynamics"])
def test_every_step_as_a_program(kind, models, tmp_path):
    assert_exported(models(kind), kind, tmp_path / "step.pt2", run_torch)


@pytest.mark.soak
@pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="the extra onnx is not installed")
@pytest.mark.parametrize("kind", KINDS)
def test_every_step_in_onnx(kind, models, tmp_path):
    assert_exported(models(kind), kind, tmp_path / "step.onnx", run_onnx)


def test_the_extra_is_named_where_it_is_missing(models, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'rpmodels\[onnx\]'"):
        models("states").stream().export(tmp_path / "step.onnx")
    assert not list(tmp_path.iterdir())


def test_recognition_as_a_program(models, tmp_path):
    model = models("dynamics")
    about = model.export(tmp_path / "rows.pt2", "rows", n_rows=3)
    found = run_torch(tmp_path / "rows.pt2", about, {"rows_rows": ROWS[0, :3]})
    mean, covariance = model.recognise(ROWS[0], "rows")
    near((found["mean"], found["covariance"]), (mean[:3], covariance[:3]), 1e-5)
    if importlib.util.find_spec("onnxruntime") is not None:
        about = model.export(tmp_path / "rows.onnx", "rows", n_rows=3)
        near(run_onnx(tmp_path / "rows.onnx", about, {"rows_rows": ROWS[0, :3]})["mean"], mean[:3], 1e-5)


def test_factorisations_written_out():
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(3, 4, 4, generator=generator, dtype=torch.float64)
    matrix, right = root @ root.mT + torch.eye(4), torch.randn(3, 4, 2, generator=generator, dtype=torch.float64)
    lower = torch.linalg.cholesky(matrix)
    close = torch.testing.assert_close
    close(decompositions.cholesky(matrix)[0], lower)
    close(decompositions.cholesky(matrix, upper=True)[0], lower.mT)
    for upper, factor in ((False, lower), (True, lower.mT.contiguous())):
        close(
            decompositions.solve_triangular(factor, right, upper=upper),
            torch.linalg.solve_triangular(factor, right, upper=upper),
        )
        close(
            decompositions.solve_triangular(factor, right.mT, upper=upper, left=False),
            torch.linalg.solve_triangular(factor, right.mT, upper=upper, left=False),
        )
        close(decompositions.cholesky_solve(right, factor, upper), torch.cholesky_solve(right, factor, upper))
        close(decompositions.cholesky_inverse(factor, upper), torch.cholesky_inverse(factor, upper))
    places, x = torch.tensor([[0.0, 1.0, 1.0, 3.0]]), torch.tensor([[-1.0, 0.0, 1.0, 2.0, 4.0]])
    for right_side in (False, True):
        close(decompositions.searchsorted(places, x, right=right_side), torch.searchsorted(places, x, right=right_side))
