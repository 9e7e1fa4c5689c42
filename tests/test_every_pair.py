"""Every estimator × every public function above it: each pair works, or says in a sentence why it cannot."""

import ast
import importlib
import inspect
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import data
import rpmodels as rp
from registry import ESTIMATORS, OF_NAMES, TinyEstimator
from rpmodels import evaluation, plots, report
from rpmodels.commands import fitting, info, reporting, transforming
from rpmodels.commands.reading import Reading
from rpmodels.estimators import Circle, Latents, SeveralStates, registered
from rpmodels.evaluation import compare_baselines, cross_validate, stability
from rpmodels.report import html
from seventh import RPSign

EVERY = {**ESTIMATORS, "sign": TinyEstimator(RPSign, lambda seed: data.clusters(30, k=2, seed=seed)[0])}


def counts(seed):
    random = np.random.default_rng(seed)
    return [random.poisson(2.0, (n, 3)).astype(float) for n in (7, 5, 7, 6, 4, 7)]


POPULATION = {"channels": "separate", "retries": 0, "n_inducing": 4}
CHAINS = {"n_states": {"a": 2, "b": 2}, "targets": {"left": ["a"]}}
ASKED = {
    **EVERY,
    "population": TinyEstimator(rp.RPGPFA, counts, POPULATION),
    "chains": TinyEstimator(rp.RPHMM, ESTIMATORS["hmm"].data, CHAINS),
    "durations": TinyEstimator(rp.RPHMM, ESTIMATORS["hmm"].data, {"durations": 3}),
    "mixture": TinyEstimator(rp.RPFA, ESTIMATORS["fa"].data, {"n_components": 2, "retries": 0}),
}
"""Estimators in all forms that change what can be asked of them."""


@dataclass(frozen=True)
class Case:
    """One estimator, fitted to tiny data: of two factors, where it takes several."""

    tiny: TinyEstimator
    folder: Path

    @cached_property
    def X(self) -> Any:
        given = self.tiny.data(0)
        if isinstance(given, dict) or self.about.one_factor:
            return given
        return {"left": [each[:, :2] for each in given], "right": [each[:, 2:] for each in given]}

    @property
    def about(self):
        return self.tiny.make().description

    @cached_property
    def model(self):
        return self.tiny.make().fit(self.X)

    @cached_property
    def latents(self) -> Latents:
        return self.model.latents(self.X)

    @cached_property
    def gap(self) -> evaluation.Gap:
        return evaluation.gap(self.model, self.X, longer=2, n_runs=1)

    @cached_property
    def labels(self):
        """One of two for every observation."""
        return np.arange(len(self.latents.values)) % 2

    @cached_property
    def files(self):
        """The data as people have them: an .npz, or for trials of unequal length a long table."""
        if isinstance(self.X, np.ndarray):
            np.savez(self.folder / "data.npz", x=self.X)
            return [self.folder / "data.npz"], Reading()
        if not self.about.in_trials:
            np.savez(self.folder / "data.npz", **self.X)
            return [self.folder / "data.npz"], Reading()
        wide = [np.concatenate(rows, 1) for rows in zip(*self.X.values(), strict=True)]
        table = pd.concat({n: pd.DataFrame(rows, columns=list("abc")) for n, rows in enumerate(wide)}, names=["trial"])
        table.reset_index(level=0).to_csv(self.folder / "data.csv", index=False)
        return [self.folder / "data.csv"], Reading({"left": list("ab"), "right": ["c"]}, trial="trial")

    @cached_property
    def fit(self) -> Path:
        """The folder of a fit by command."""
        paths, reading = self.files
        settings = ["max_iter=2", "n_init=1", "verbose=0", "search.retries=0", "training.finish=none"]
        settings += [f"channels={each}" for name, each in self.tiny.options.items() if name == "channels"]
        settings += [f"{name}={json.dumps(each)}" for name, each in self.tiny.options.items() if name in OF_NAMES]
        fitting.fit_files(paths, self.about.name, self.folder / "fit", reading, settings=settings)
        return self.folder / "fit"


@pytest.fixture(scope="session")
def cases(tmp_path_factory):
    return {name: Case(each, tmp_path_factory.mktemp(name)) for name, each in ASKED.items()}


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


@pytest.fixture(autouse=True)
def _pages_of_commands_are_short(monkeypatch):
    """Pictures and shuffles are most of the time of so small a fit, and have tests of their own."""

    def page(model, X, title, **options):
        return f"<html>{type(model).__name__}: {model.score(X, **options)!r}</html>"

    for room in (fitting, reporting):
        monkeypatch.setattr(room, "model_page", page)
    monkeypatch.setattr(importlib.import_module("rpmodels.report.model_page"), "SHUFFLES", 2)
    monkeypatch.setattr(html, "picture", lambda axes, alt, *_: f"<img alt='{alt}' src='{axes.has_data()}'>")


def like(one, other):
    """Whether two results have one form: arrays of one shape, or lists of such."""
    if isinstance(one, list) or isinstance(other, list):
        return type(one) is type(other) and len(one) == len(other) and all(map(like, one, other))
    return np.shape(one) == np.shape(other)


# ---- what is asked of every pair ----------------------------------------------------------------------


def cross_validated(case):
    found = cross_validate(case.tiny.make(), case.X, cv=2)
    assert np.isfinite(found.held_out).all()
    assert len(found.held_out) == 2


def chosen(case):
    argument = case.about.size or "n_init"
    behaviour = np.linspace(0.0, 1.0, len(case.labels))
    found = evaluation.choose(case.tiny.make(2), argument, [2], case.X, y=behaviour, cv=2)
    assert found.best == 2
    assert all(np.isfinite(each).all() for each in found.tried[2].decoding.values())


def chosen_bins(case):
    found = evaluation.choose_bins(case.tiny.make(), case.X, [2], bin_width=0.1, cv=2)
    assert np.isfinite(found.tried[2].held_out).all()


def compared(case):
    found = compare_baselines(case.X, estimator=case.tiny.make(), cv=2)
    assert next(iter(found.values)) == case.tiny.kind.__name__
    assert len(found.values) > 1
    own = found.values[case.tiny.kind.__name__]
    np.testing.assert_allclose(own["agreement"], 1.0)
    if not case.about.in_time:
        decoded = compare_baselines(case.X, 1.0 * case.labels, estimator=case.tiny.make(), cv=2)
        assert all(set(each) == {"ridge", "knn"} for each in decoded.values.values())


def counted(case, separate=True):
    """Its data as counts, and the estimator with channels one by one where it knows that."""
    X = {name: _counts(each) for name, each in case.X.items()} if isinstance(case.X, dict) else _counts(case.X)
    model = case.tiny.make(1 if case.about.latent.linear else 2)
    if separate and "channels" in model.get_params():
        model.set_params(channels="separate")
    return model, X, {"cv": 2, "factor": next(iter(X)) if isinstance(X, dict) else None}


def _counts(values):
    if isinstance(values, list):
        return [_counts(each) for each in values]
    return np.floor(3.0 * np.abs(values)) if np.asarray(values).dtype.kind == "f" else values


def co_smoothed(case):
    model, X, options = counted(case)
    found = evaluation.co_smoothing(model, X, held_out=[0], **options)
    assert all(np.isfinite(each).all() for each in found.values.values())


def compared_by_bits(case):
    model, X, options = counted(case)
    found = evaluation.compare_co_smoothing(X, estimator=model, held_out=[0], methods=["PCA"], **options)
    assert list(found.values) == [case.tiny.kind.__name__, "PCA"]


def predicted_forward(case):
    model, X, options = counted(case)
    found = evaluation.forward_prediction(model, X, **options)
    assert all(np.isfinite(each).all() for each in found.values.values())


def few_shot(case):
    model, X, options = counted(case, separate=False)
    assert np.isfinite(evaluation.few_shot_co_smoothing(model, X, 2, held_out=[0], **options).values["rates"]).all()


def stable(case):
    found = stability(case.tiny.make(), case.X, n_runs=2)
    np.testing.assert_allclose(np.diag(found.agreement), 1.0, atol=1e-6)
    assert all(like(each, case.latents.values) for each in found.latents)


def far(case):
    found, own = case.gap, case.model.score_
    assert [row.name for row in found.rows] == ["this fit", "longer", "other seed"]
    assert (found.rows[0].score, found.rows[0].ceiling) == (float(own), own.ceiling)
    assert [row.steps for row in found.rows] == [4, 8, 4]
    assert found.best == max(row.score for row in found.rows)


def shuffled(case):
    found = evaluation.shuffle_test(case.model, case.X, n_shuffles=2)
    assert found.score == pytest.approx(float(case.model.score(case.X)), abs=1e-5)


def diagnosed(case):
    assert all(each.text for each in evaluation.diagnose(case.model, case.X).findings)


def belonged(case):
    assert all(each.text for each in evaluation.belonging(case.model, case.X))


def overseen(case):
    found = evaluation.overviews(case.model, case.X)
    assert [each.factor for each in found] == list(case.model.model_.names)[: len(found)]


def decoded(case):
    few = len(case.labels) < 12  # too few for labels in either half: numbers are read then
    found = evaluation.decode(case.latents.values, 1.0 * case.labels if few else case.labels, cv=2, kind="knn")
    assert (found.mean <= 1) if few else (0 <= found.mean <= 1)  # R² has no floor


def between(case):
    found = evaluation.between_factors(case.model, case.X, next(iter(case.X)) if isinstance(case.X, dict) else "x")
    assert (found.variance > 0).all()


def aligned(case):
    values = case.latents.values
    assert like(case.about.latent.align(case.latents, case.latents), values)
    for each in (evaluation.align_latents, evaluation.align_states, evaluation.align_angles):
        assert like(each(values, values), values)


def drawn(name):
    def draw(case):
        factor = case.model.model_.names[0]
        given = {
            "factors_and_posterior": (case.model, case.X),
            "mixture_against_prior": (case.model, factor),
            "trajectories": (case.latents,),
            "tuning": (case.model, factor),
            "rates": (case.model, case.X, 0, factor),
            "latents": (case.model, case.X, case.labels),
            "states": (case.model, case.X, case.labels),
            "raster": (case.model, case.X),
            "latents_2d": (case.latents,),
            "latents_3d": (case.latents,),
        }
        axes = getattr(plots, name)(*given.get(name, (case.model,)))
        assert axes.has_data() or "one start only" in axes.texts[0].get_text()

    return draw


def on_a_page(case):
    axes = plots.overview(case.model, case.X, case.labels)
    assert 3 <= len(axes) <= 6
    assert all(each.has_data() for each in axes.values())
    next(iter(axes.values())).get_figure().canvas.draw()


def gap_drawn(case):
    assert len(plots.gap(case.gap).get_yticks()) == 3


def paged(case):
    page = report.model_page(case.model, case.X, "a page")
    assert page.count("<img") >= (4 if isinstance(case.about.latent, SeveralStates) else 5)
    assert case.tiny.kind.__name__ in page


def fitted(case):
    names = {each.name for each in case.fit.iterdir()}
    assert {"model.rpm", "latents.npz", "history.csv", "fit.json", "report.html"} <= names
    with np.load(case.fit / "latents.npz") as found:
        assert set(case.about.latent.arrays(case.latents)) <= set(found.files)
        main = next(iter(case.about.latent.arrays(case.latents)))
        assert np.isfinite(found[main]).all()


def transformed(case):
    transforming.transform_files(case.fit / "model.rpm", case.files[0], case.folder / "new.npz", Reading())
    with np.load(case.fit / "latents.npz") as one, np.load(case.folder / "new.npz") as other:
        assert one.files == other.files
        for name in one.files:
            np.testing.assert_allclose(one[name], other[name], atol=1e-6)
    transforming.transform_files(case.fit / "model.rpm", case.files[0], case.folder / "new.csv", Reading())
    header = (case.folder / "new.csv").read_text().splitlines()[0].split(",")
    assert len(set(header)) == len(header)


def told(case):
    about = info.describe(case.fit / "model.rpm")
    assert about["model"] == case.tiny.kind.__name__
    assert about["non_default_parameters"]["max_iter"] == 2
    assert case.tiny.kind.__name__ in info.as_text(about)


def reported(case):
    page = reporting.report(case.fit, (), Reading(), case.folder / "page.html")
    assert case.tiny.kind.__name__ in page.read_text(encoding="utf-8")


PAIRS = {
    evaluation: {
        "cross_validate": cross_validated, "choose": chosen, "compare_baselines": compared, "stability": stable,
        "shuffle_test": shuffled, "diagnose": diagnosed, "decode": decoded, "between_factors": between,
        "align_latents": aligned, "align_states": aligned, "align_angles": aligned, "gap": far,
        "co_smoothing": co_smoothed, "compare_co_smoothing": compared_by_bits, "forward_prediction": predicted_forward,
        "few_shot_co_smoothing": few_shot, "choose_bins": chosen_bins, "belonging": belonged, "overviews": overseen,
    },
    plots: {
        "gap": gap_drawn, "overview": on_a_page,
        **{
            name: drawn(name)
            for name in ("factors_and_posterior", "mixture_against_prior", "trajectories", "latents_2d", "latents_3d",
                         "learning_curve", "restarts", "score_ceiling", "tuning", "rates", "latents", "states",
                         "raster")
        },
    },
    report: {"model_page": paged},
    fitting: {"fit_files": fitted},
    transforming: {"transform_files": transformed},
    info: {"describe": told, "as_text": told},
    reporting: {"report": reported},
}  # fmt: skip
PLAIN = {
    plots: {
        "belonging",
        "calibration",
        "confusion_matrix",
        "consistency",
        "latent_recovery",
        "reliability",
        "shuffle_null",
        "style",
        "trial_image",
    },
    report: {"build_demo", "build_page", "check_free"},
    fitting: {"noted", "score_plain", "count_plain", "factor_plain"},
    transforming: {"opened"},
}
"""What takes numbers or folders, never an estimator or its latents."""

STATES = {"categorical", "hmm", "lda", "sign", "durations"}
SERIES = {"gpfa", "hmm", "lds", "slds"}
WITHOUT_TIME = {*EVERY, "mixture"} - SERIES
SEVERAL = ("graph", "chains")
OF_POPULATIONS = {
    **dict.fromkeys((*EVERY, "chains", "durations"), "expected a model of continuous latents"),
    **dict.fromkeys(("fa", "mixture", "gpfa", "lds", "slds"), "is recognised by one network"),
}
NO_CHANNELS = dict.fromkeys({*STATES, "circular", *SEVERAL}, "channels are recognised one by one")
OF_ONE_LATENT = dict.fromkeys(SEVERAL, "SeveralStates")
REFUSED = {
    "between_factors": {
        **dict.fromkeys({*STATES, "circular", *SEVERAL}, "gives none: its latents are no coordinates"),
        "lda": "expected a dict of two factors or more",
    },
    "co_smoothing": NO_CHANNELS,
    "compare_co_smoothing": NO_CHANNELS,
    "forward_prediction": {
        **dict.fromkeys(WITHOUT_TIME, "expected a model over time"),
        **dict.fromkeys(("hmm", "chains", "durations"), "channels are recognised one by one"),
    },
    "choose_bins": dict.fromkeys(WITHOUT_TIME, "expected a model over time"),
    "few_shot_co_smoothing": {"lda": "bins as in latents"},
    "trajectories": {
        **dict.fromkeys(WITHOUT_TIME, "got those of a model without time"),
        **dict.fromkeys(("hmm", "chains", "durations"), "expected latents with a mean and a variance"),
    },
    "tuning": OF_POPULATIONS,
    "rates": OF_POPULATIONS,
    "factors_and_posterior": OF_ONE_LATENT,
    "mixture_against_prior": OF_ONE_LATENT,
    "states": {
        **dict.fromkeys(WITHOUT_TIME, "expected latents with states"),
        **dict.fromkeys(("gpfa", "lds", "population"), "expected latents with states"),
    },
    "raster": dict.fromkeys(WITHOUT_TIME, "got those of a model without time"),
    "latents_2d": {"circular": "expected latents from 0 to 0"},
    "latents_3d": {
        **dict.fromkeys(set(ASKED) - set(SEVERAL), "expected latents from 0 to 1"),
        "circular": "expected latents from 0 to 0",
    },
}
"""{function: {estimator: words of the sentence}}; every other pair works."""


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize(("room", "function"), [(room, each) for room, names in PAIRS.items() for each in names])
def test_every_pair_works_or_says_why_not(cases, name, room, function):
    ask = PAIRS[room][function]
    words = REFUSED.get(function, {}).get(name)
    if words is None:
        ask(cases[name])
        return
    with pytest.raises(rp.RPModelsError, match=words):
        ask(cases[name])


def test_no_function_and_no_estimator_is_left_out():
    for room, names in PAIRS.items():
        exported = getattr(room, "__all__", None)
        own = [name for name, each in vars(room).items() if getattr(each, "__module__", "") == room.__name__]
        public = [name for name in exported or own if not name.startswith("_")]
        functions = {name for name in public if inspect.isfunction(getattr(room, name))}
        assert set(names) | PLAIN.get(room, set()) == functions
    assert set(EVERY) == set(registered())
    assert all(each.kind is registered()[name] for name, each in EVERY.items())


# ---- latents are those of the verbs -------------------------------------------------------------------


@pytest.mark.parametrize("name", [*ESTIMATORS, "chains", "durations", "mixture"])
def test_latents_are_what_the_verbs_give(cases, name):
    case, found = cases[name], cases[name].latents
    if isinstance(case.about.latent, Circle):
        np.testing.assert_allclose(found.values[:, 0], case.model.predict(case.X), atol=1e-6)
        points = found.resultant * case.about.latent.points(found)
        np.testing.assert_allclose(points, case.model.transform(case.X), atol=1e-6)
        return
    verbs = {
        "values": "transform" if hasattr(case.model, "transform") else "predict_proba",
        "probabilities": "predict_proba",
        "states": "predict",
    }
    for field, verb in verbs.items():
        if not hasattr(case.model, verb):
            assert getattr(found, field) is None
            continue
        expected = getattr(case.model, verb)(case.X)
        if isinstance(expected, dict):  # several latents by name: side by side in one array
            for one, *others in zip(found.values, *expected.values(), strict=True):
                np.testing.assert_allclose(one, np.concatenate(others, -1), atol=1e-6)
            continue
        assert like(getattr(found, field), expected)
        for one, other in zip(getattr(found, field), expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
    if case.about.latent.linear:
        for one, other in zip(found.spread, case.model.posterior(case.X).variance, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
    assert (found.times is not None) == case.about.in_time


# ---- the generative side of every estimator -----------------------------------------------------------


def imputed(case, factor):
    rows = case.X if case.about.one_factor else case.X[factor]
    found, shown = case.model.impute(case.X, factor), case.model.impute(case.X, factor, rows=rows)
    per_site = zip(*(map(np.asarray, each) for each in (found.values, shown.values, shown.spread, rows)), strict=True)
    for weights, mean, spread, row in per_site:
        np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-4)
        assert mean.shape == spread.shape == row.shape
        assert np.isfinite(mean).all()
    assert (found.effective > 1).all()
    assert like(found.error, found.values)


def sampled(case, factor):
    shown, z = case.model.sample(3)
    assert set(shown) == set(case.model.model_.names)
    assert len(z) == 3
    trials = next(iter(case.X.values())) if isinstance(case.X, dict) else case.X
    sites = np.shape(z)[: 1 + case.about.in_trials]
    assert sites == (3, max(map(len, trials))) if case.about.in_trials else sites == (3,)
    assert all(each.shape[: len(sites)] == sites for each in shown.values())


def weighed(case, factor):
    _, z = case.model.sample(3)
    weights = case.model.conditional_weights(factor, z)
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-4)
    assert weights.shape[:-1] == np.shape(z)[: 1 + case.about.in_trials]
    if case.about.latent.finite or isinstance(case.about.latent, SeveralStates):
        np.testing.assert_allclose(case.model.conditional_weights(factor).sum(-1), 1.0, atol=1e-4)
    else:
        with pytest.raises(rp.RPModelsError, match="got None, which stands for every state"):
            case.model.conditional_weights(factor)


NO_ATOMS = {"impute": "expected to show is model.rates", "conditional_weights": "it has no atoms"}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("verb", ["impute", "sample", "conditional_weights"])
def test_every_estimator_has_a_generative_side_or_says_why_not(cases, name, verb):
    ask = {"impute": imputed, "sample": sampled, "conditional_weights": weighed}[verb]
    factor = cases[name].model.model_.names[-1]
    if name == "population" and verb in NO_ATOMS:
        with pytest.raises(rp.RPModelsError, match=NO_ATOMS[verb]):
            ask(cases[name], factor)
        return
    ask(cases[name], factor)


# ---- frames are divided by trials ---------------------------------------------------------------------


def frame_of(trials):
    parts = {f"s{n}": pd.DataFrame(each, columns=list("abc")) for n, each in enumerate(trials)}
    return pd.concat(parts, names=["trial", "time"])


@pytest.mark.parametrize("name", ["gpfa", "hmm", "lds", "slds", "lda"])
def test_a_frame_indexed_by_trial_and_time_is_divided_by_trials(name):
    tiny = ESTIMATORS[name]
    trials = list(tiny.data(0))
    groups = np.arange(len(trials)) // 3
    for options in ({"cv": 3}, {"cv": 2, "groups": groups}):
        one, other = (cross_validate(tiny.make(), each, **options) for each in (trials, frame_of(trials)))
        assert [float(each) for each in other.held_out] == [float(each) for each in one.held_out]
        assert [float(each) for each in other.training] == [float(each) for each in one.training]


@pytest.mark.parametrize("name", ["hmm", "lda"])
def test_comparisons_and_pages_count_the_trials_of_a_frame(name):
    tiny = ESTIMATORS[name]
    trials = list(tiny.data(0))
    frame = frame_of(trials)
    one, other = (compare_baselines(each, estimator=tiny.make(), cv=2).values for each in (trials, frame))
    assert list(one) == list(other)
    for method, measures in one.items():
        np.testing.assert_array_equal(measures["agreement"], other[method]["agreement"])
    page = report.model_page(tiny.make().fit(frame), frame, "a page")
    assert re.search(rf"observations</\w+>\s*<\w+>{len(trials)}</", page)


@pytest.mark.parametrize("name", ["gpfa", "hmm", "lds", "slds"])
@pytest.mark.parametrize("ask", [cross_validate, lambda model, X: compare_baselines(X, estimator=model)])
def test_rows_of_one_recording_are_no_trials(name, ask):
    with pytest.raises(rp.RPModelsError, match=r"one long recording.*Cut it into trials"):
        ask(ESTIMATORS[name].make(), np.zeros((40, 3)))


def test_what_an_estimator_does_not_take_is_refused_before_any_work(cases):
    case, times = cases["hmm"], np.arange(7.0)
    for ask in (evaluation.diagnose, evaluation.shuffle_test, evaluation.gap, cross_validate, stability):
        with pytest.raises(rp.RPModelsError, match="times: RPHMM takes none"):
            ask(case.model, case.X, times=times)
    with pytest.raises(rp.RPModelsError, match="times: RPHMM takes none"):
        report.model_page(case.model, case.X, "a page", times=times)


def test_inputs_are_divided_with_their_trials():
    random = np.random.default_rng(0)
    x, u = random.standard_normal((8, 6, 3)), random.standard_normal((8, 6, 2))
    model = ESTIMATORS["lds"].make()
    found = cross_validate(model, x, cv=2, inputs=u)
    for (training, test), score in zip(evaluation.TrialFolds(2).split(x), found.held_out, strict=True):
        again = ESTIMATORS["lds"].make().fit(x[training], inputs=u[training])
        assert float(again.score(x[test], inputs=u[test])) == float(score)


# ---- nobody above asks for a class ---------------------------------------------------------------------


def test_no_room_above_names_an_estimator():
    classes = {each.kind.__name__ for each in ESTIMATORS.values()} | {"ContinuousEstimator"}
    source = Path(rp.__file__).parent
    for room in ("evaluation", "plots", "report", "commands"):
        for path in (source / room).glob("*.py"):
            if path.name == "examples.py":  # the code that the demo shows
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            named |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
            named |= {each.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for each in node.names}
            assert not named & classes, path
