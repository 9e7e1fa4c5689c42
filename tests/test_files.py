"""Model files: the same numbers in another process, and a clear word about every file that cannot be used."""

import json
import pickle
from pathlib import Path

import gpytorch
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file as write_tensors
from torch import nn

import rpmodels as rp
from data import views
from processes import run
from registry import ESTIMATORS, made
from rpmodels import mixtures
from rpmodels.errors import FileError, NotFittedError, RPModelsWarning
from rpmodels.estimators import names
from rpmodels.estimators.arguments import every_argument
from rpmodels.estimators.files import written_arguments
from rpmodels.persistence import from_plain, sealed, to_plain

BRIEF = {"max_iter": 4, "n_init": 2, "retries": 0, "random_state": 0, "finish": "none"}


def table():
    return views(names=("a b", "c.d"))[0]


def trials(n=12, t=9, seed=0):
    return np.random.default_rng(seed).standard_normal((n, t, 3))


def categorical(**settings):
    data = table() | {"label": np.repeat(["x", "y", "z"], 20)}
    brief = {name: value for name, value in BRIEF.items() if name != "retries"}
    return made(rp.RPCategorical, 3, **{**brief, **settings}).fit(data), data


def factor_analysis(**settings):
    return made(rp.RPFA, 2, **{**BRIEF, **settings}).fit(table()), table()


def gpfa(**settings):
    return made(rp.RPGPFA, 2, n_inducing=4, **{**BRIEF, **settings}).fit(trials()), trials()


def summed():
    return gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel() + gpytorch.kernels.PeriodicKernel())


MODELS = {
    "categorical": categorical,
    "categorical, dirichlet": lambda: categorical(prior=0.5, tied=True, head="absolute", dtype="float64"),
    "categorical, learned": lambda: categorical(prior="learned", scaling={"a b": "robust", "c.d": "none"}),
    "categorical, probabilities": lambda: categorical(prior=np.array([0.2, 0.3, 0.5]), weight_decay=0.0),
    "factor analysis": factor_analysis,
    "factor analysis, to its end": lambda: factor_analysis(network="linear", finish="auto", n_init=1),
    "factor analysis, full": lambda: factor_analysis(
        covariance="full", learned_prior=True, precision="constant", network="linear", tied=True
    ),
    "factor analysis, targets": lambda: factor_analysis(targets={"c.d": (1,)}, marginal="kernel_density"),
    "factor analysis, parts": lambda: factor_analysis(
        e_step=rp.inference.NaturalGradient(2, rho=0.3), expected_log_mixture=rp.mixtures.MonteCarlo(7, fresh=False)
    ),
    "gpfa": gpfa,
    "gpfa, free": lambda: gpfa(e_step="free", expected_log_mixture="interior_free", atoms="per_time"),
    "gpfa, paper": lambda: gpfa(**{**rp.presets.paper(), "max_iter": 3}),
    "gpfa, kernels": lambda: gpfa(kernel=summed(), mean=gpytorch.means.ConstantMean(batch_shape=torch.Size([2]))),
    "gpfa, learned": lambda: gpfa(kernel="matern32", inducing="learned", dtype="float64"),
}
MODELS |= {f"{name}, tiny": each.fitted for name, each in ESTIMATORS.items()}
every_model = pytest.mark.parametrize("fitted", MODELS.values(), ids=MODELS.keys())


def answers(model, data):
    """Everything a fitted model can be asked, as numbers."""
    tiny = next(each for each in ESTIMATORS.values() if isinstance(model, each.kind))
    found = [flat(tiny.latents_of(model, data))]
    if hasattr(model, "posterior"):
        posterior = model.posterior(data)
        spread = posterior.covariance if hasattr(posterior, "covariance") else posterior.concentration
        middle = posterior.mean if hasattr(posterior, "mean") else posterior.angle
        found += [flat(each) for each in (spread, middle, posterior.sample(1)[0])]
    found.append(model.score_samples(data))
    if isinstance(model, rp.RPCategorical):
        found.append(model.prior_)
    if not isinstance(model.model_.pattern.marginal, mixtures.Empirical):
        return found  # draws from p₀ are no observations that have weights
    return [*found, flat(model.impute(data, model.model_.names[-1]).values)]


def flat(values):
    """Trials of any lengths in one row."""
    return np.concatenate([np.ravel(each) for each in values])


def assert_same(first, second):
    for left, right in zip(first, second, strict=True):
        np.testing.assert_array_equal(left, right)


@every_model
def test_a_loaded_model_is_the_model(fitted, tmp_path):
    model, data = fitted()
    path = tmp_path / "a name without suffix"
    model.save(path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    again = rp.load(path)
    assert type(again) is type(model)
    assert_same(answers(model, data), answers(again, data))
    assert repr(again.score_) == repr(model.score_)
    assert (again.n_iter_, again.stop_reason_, again.clipped_) == (model.n_iter_, model.stop_reason_, model.clipped_)
    assert again.restarts_ == model.restarts_
    assert_same(again.history_.values(), model.history_.values())
    assert list(again.history_) == list(model.history_)
    assert str(again.model_.pattern.recognition) == str(model.model_.pattern.recognition)
    assert str(again.model_.prior) == str(model.model_.prior)


@pytest.mark.parametrize("name", ["categorical, learned", "factor analysis, targets", "gpfa, kernels"])
def test_a_loaded_model_can_be_saved_and_fitted_again(name, tmp_path):
    model, data = MODELS[name]()
    model.save(tmp_path / "first")
    again = rp.load(tmp_path / "first")
    again.save(tmp_path / "second")
    headers = [header(tmp_path / name)[0] for name in ("first", "second")]
    assert headers[0] == headers[1]
    assert_same(answers(again.fit(data), data), answers(model.fit(data), data))


def test_the_same_numbers_in_a_fresh_process(tmp_path):
    model, data = gpfa(kernel=summed())
    model.save(tmp_path / "model")
    np.save(tmp_path / "x.npy", data)
    code = (
        "import sys, numpy as np, rpmodels as rp\n"
        "model = rp.load(sys.argv[1] + '/model')\n"
        "np.save(sys.argv[1] + '/z.npy', model.transform(np.load(sys.argv[1] + '/x.npy')))\n"
    )
    status, printed = run(code, tmp_path, tmp_path)
    assert status == 0, printed
    np.testing.assert_array_equal(np.load(tmp_path / "z.npy"), model.transform(data))


@pytest.mark.parametrize("fitted", [categorical, factor_analysis, gpfa])
def test_another_precision(fitted, tmp_path):
    model, data = fitted()
    model.save(tmp_path / "model")
    wide = rp.load(tmp_path / "model", dtype="float64")
    assert wide.engine.dtype == "float64"
    assert wide.model_.dtype == torch.float64
    for left, right in zip(answers(model, data)[:2], answers(wide, data)[:2], strict=True):
        assert right.dtype == np.float64
        np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-4)


# ---- parts of the user's own ----------------------------------------------------------------------


class Own(nn.Module):
    def __init__(self, n_out=4, width=5):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, n_out))

    def forward(self, x):
        return self.layers(x)


class OwnKernel(gpytorch.kernels.RBFKernel):
    pass


def test_a_network_of_ones_own_must_be_passed(tmp_path):
    model, data = factor_analysis(network={"a b": Own(), "c.d": "mlp"})
    model.save(tmp_path / "model")
    with pytest.raises(FileError, match=r"the network is your own.*rp\.load\(path, network=…\)"):
        rp.load(tmp_path / "model")
    mine = Own()
    again = rp.load(tmp_path / "model", network={"a b": mine})
    assert_same(answers(model, data), answers(again, data))
    assert not torch.equal(mine.layers[0].weight, again.model_.recogniser("a b").network.layers[0].weight)
    with pytest.raises(FileError, match="the network is your own"):
        rp.load(tmp_path / "model", network={"c.d": Own()})
    with pytest.raises(FileError, match=r"tensor\(s\) do not fit.*build them as they were"):
        rp.load(tmp_path / "model", network={"a b": Own(width=6)})
    with pytest.raises(ValueError, match="an argument of load"):
        rp.load(tmp_path / "model", networks=mine)


def test_a_network_of_ones_own_for_all_factors(tmp_path):
    model, data = factor_analysis(network=Own(), tied=True)
    model.save(tmp_path / "model")
    again = rp.load(tmp_path / "model", network=Own())
    assert_same(answers(model, data), answers(again, data))
    first, second = (each.network for each in again.model_.pattern.recognition)
    assert first is second


@pytest.mark.parametrize(
    "kernel",
    [OwnKernel(), gpytorch.kernels.RBFKernel(lengthscale_constraint=gpytorch.constraints.Interval(0.1, 9.0))],
    ids=["class", "constraint"],
)
def test_a_kernel_of_ones_own_must_be_passed(kernel, tmp_path):
    model, data = gpfa(kernel=kernel)
    model.save(tmp_path / "model")
    with pytest.raises(FileError, match="the kernel is your own"):
        rp.load(tmp_path / "model")
    assert_same(answers(model, data), answers(rp.load(tmp_path / "model", kernel=kernel), data))


def test_a_sum_with_a_kernel_of_ones_own_is_passed_as_a_whole(tmp_path):
    def kernel():
        return OwnKernel() + gpytorch.kernels.PeriodicKernel()

    model, data = gpfa(kernel=kernel())
    model.save(tmp_path / "model")
    with pytest.raises(FileError, match=r"the kernel is your own.*rp\.load\(path, kernel=…\)"):
        rp.load(tmp_path / "model")
    assert_same(answers(model, data), answers(rp.load(tmp_path / "model", kernel=kernel()), data))


class OwnEStep(rp.inference.Amortised):
    pass


class OwnBound(rp.mixtures.InteriorBound):
    pass


class OwnAtoms(rp.mixtures.Pooled):
    pass


class OwnMarginal(rp.mixtures.KernelDensity):
    pass


class OwnPrior(rp.priors.GaussianPrior):
    pass


class WithOwnPrior(rp.RPFA):
    """An estimator whose prior is no argument of it."""

    def _prior(self, family, observations):
        return OwnPrior(family)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("e_step", OwnEStep), ("expected_log_mixture", OwnBound), ("atoms", OwnAtoms), ("marginal", OwnMarginal)],
)
def test_parts_of_ones_own_in_groups_are_passed_by_their_own_names(name, kind, tmp_path):
    model, data = gpfa(**{name: kind()})
    model.save(tmp_path / "model")
    with pytest.raises(FileError, match=rf"the {name} is your own.*rp\.load\(path, {name}=…\)"):
        rp.load(tmp_path / "model")
    again = rp.load(tmp_path / "model", **{name: kind()})
    assert isinstance(getattr(again.inference, name), kind)
    assert again.engine is None  # which has atoms, too
    assert_same(answers(model, data), answers(again, data))


def test_a_prior_of_ones_own_that_is_no_argument(tmp_path):
    model = made(WithOwnPrior, 2, **BRIEF).fit(table())
    model.save(tmp_path / "model")
    with pytest.raises(FileError, match=r"the prior is your own.*rp\.load\(path, prior=…\)"):
        rp.load(tmp_path / "model")
    again = rp.load(tmp_path / "model", prior=OwnPrior(rp.families.DiagonalGaussian(2)))
    assert_same(answers(model, table()), answers(again, table()))
    with pytest.raises(ValueError, match=r"an argument of load: expected one of .*, prior; got 'e_step'"):
        rp.load(tmp_path / "model", e_step=OwnEStep())


def test_groups_come_back_as_they_were(tmp_path):
    model, _ = factor_analysis(tol=0.1, scaling={"a b": "none"}, dropout=0.0)
    model.save(tmp_path / "model")
    again = rp.load(tmp_path / "model")
    assert names.flat(again) == names.flat(model)
    assert (again.inference, again.engine) == (None, None)
    assert names.flat(rp.load(tmp_path / "model", training=rp.Training(tol=0.2)))["training.tol"] == 0.2


def test_what_only_fit_needs_is_not_missed(tmp_path):
    model, data = factor_analysis(optimiser=lambda parameters: torch.optim.SGD(parameters, 1e-3))
    model.save(tmp_path / "model")
    with pytest.warns(RPModelsWarning, match="optimiser was your own"):
        again = rp.load(tmp_path / "model")
    assert again.training.optimiser is None
    assert_same(answers(model, data), answers(again, data))


# ---- files that cannot be used --------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "model"
    factor_analysis()[0].save(path)
    return path


def header(path):
    with safe_open(str(path), framework="pt") as file:
        return json.loads(file.metadata()["rpmodels"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def rewritten(path, target, **changes):
    content, tensors = header(path)
    text = json.dumps({**content, **changes}, ensure_ascii=False)
    write_tensors(tensors, str(target), {"rpmodels": text, "sha256": sealed._digest(text, tensors)})


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 0.9999])
def test_a_file_cut_short(saved, share, tmp_path):
    whole = saved.read_bytes()
    (tmp_path / "short").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(FileError, match="cut short"):
        rp.load(tmp_path / "short")


def test_every_flipped_bit_is_noticed(saved, tmp_path):
    whole = saved.read_bytes()
    random = np.random.default_rng(0)
    for place in random.integers(len(whole), size=150):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(random.integers(8))
        (tmp_path / "flipped").write_bytes(flipped)
        with pytest.raises(FileError, match=r"damaged|not a model file"):
            rp.load(tmp_path / "flipped")


def test_a_newer_format(saved, tmp_path):
    rewritten(saved, tmp_path / "new", format=5, version="9.9")
    with pytest.raises(FileError, match=r"format 5, written by rpmodels 9\.9.*Install a newer"):
        rp.load(tmp_path / "new")


def test_another_class(saved, tmp_path):
    with pytest.raises(FileError, match="holds a fitted RPFA: expected RPGPFA"):
        rp.RPGPFA.load(saved)
    assert isinstance(rp.RPFA.load(saved), rp.RPFA)
    about = {**header(saved)[0]["about"], "class": "os"}
    rewritten(saved, tmp_path / "unknown", about=about)
    with pytest.raises(FileError, match="a fitted os, which is not known here"):
        rp.load(tmp_path / "unknown")


class Malicious:
    def __reduce__(self):
        return (Path.touch, (Path("touched-by-a-file"),))


def test_nothing_in_a_file_is_executed(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pickled").write_bytes(pickle.dumps(Malicious()))
    torch.save({"x": torch.ones(2)}, "torch")
    Path("text").write_text("hello")
    write_tensors({"x": torch.ones(2)}, "other.safetensors")
    for name in ("pickled", "torch", "text", "other.safetensors"):
        with pytest.raises(FileError, match="not a model file"):
            rp.load(name)
    recipe = {**header(saved)[0]["recipe"], "e_step": {"is": "system", "command": "touch touched-by-a-file"}}
    rewritten(saved, "recipe", recipe=recipe)
    with pytest.raises(FileError, match="unknown part 'system'"):
        rp.load("recipe")
    assert not Path("touched-by-a-file").exists()


def test_missing_files_and_unfitted_models(tmp_path):
    with pytest.raises(FileNotFoundError, match="No such file"):
        rp.load(tmp_path / "nothing")
    with pytest.raises(NotFittedError):
        rp.RPFA(1).save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_failure_leaves_the_older_file_alone(saved, tmp_path, monkeypatch):
    path = tmp_path / "model"
    path.write_bytes(saved.read_bytes())

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sealed, "write_tensors", full)
    with pytest.raises(OSError, match="No space left"):
        factor_analysis()[0].save(path)
    assert path.read_bytes() == saved.read_bytes()
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 1.5, float("-inf"), "α", [1, [2.0, None]], (1, (2,)), {"a": {1: (2,)}}, slice(1, None, 2), []],
    ids=repr,
)
def test_plain_values_come_back(value):
    assert from_plain(json.loads(json.dumps(to_plain(value), allow_nan=False)), str) == value


def test_arrays_come_back():
    for value in (np.arange(6.0).reshape(2, 3), np.array(["a", "bc"]), np.array([True, False])):
        again = from_plain(json.loads(json.dumps(to_plain(value))), str)
        assert again.dtype == value.dtype
        np.testing.assert_array_equal(again, value)


# ---- files of earlier versions --------------------------------------------------------------------

FILES = Path(__file__).parent / "files"


@pytest.mark.parametrize(("name", "verb"), [("categorical", "predict_proba"), ("gpfa", "transform")])
def test_files_of_format_1_open_and_answer_as_they_did(name, verb):
    expected = json.loads((FILES / "format-1.json").read_text())[name]
    model = rp.load(FILES / f"format-1-{name}")
    x = {factor: np.array(values) for factor, values in expected["x"].items()}
    np.testing.assert_allclose(getattr(model, verb)(x), expected[verb], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.score_samples(x), expected["score_samples"], rtol=1e-3, atol=1e-4)
    assert set(names.flat(model)) == set(every_argument(type(model)))
    model._chosen()  # refuses none of them


def test_arguments_of_format_1_have_found_their_groups():
    model = rp.load(FILES / "format-1-gpfa")
    assert (model.recognition.targets, model.search.retries, model.n_inducing) == ({"right": [0]}, 0, 4)
    old = {"max_iter": 3, "tol": 0.1, "atoms": "pooled", "engine": {"$map": [["workers", 2]]}, "device": "cpu"}
    moved = {"max_iter": 3, "training.tol": 0.1, "engine.workers": 2, "engine.device": "cpu"}
    assert written_arguments(rp.RPGPFA, old) == {**moved, "inference.atoms": "pooled"}
    assert written_arguments(rp.RPLDA, old) == {**moved, "atoms": "pooled"}
    assert written_arguments(rp.RPFA, {"engine": None}) == {}
