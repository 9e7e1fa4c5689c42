"""real-data: splits and measures are those of the protocol, and every set runs on files of its form."""

import json
from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import f1_score

import rpmodels as rp
from rpmodels.datasets import fetch, hippocampus, populations, scenes
from rpmodels.evaluation.methods import WIDTHS
from rpmodels.paper.experiments import real_populations
from rpmodels.paper.experiments.experiment import every_experiment
from rpmodels.paper.experiments.real_data import EXPERIMENT, SETS, Settings
from rpmodels.paper.experiments.real_examples import axes_of, example
from rpmodels.paper.experiments.real_populations import Population, poisson_rates
from rpmodels.paper.experiments.real_recordings import Simulated, right_direction
from rpmodels.paper.experiments.real_sets import Task
from rpmodels.paper.experiments.real_states import balanced_f1, best_names, table
from rpmodels.paper.experiments.runner import run_experiment

TINY = {"max_iter": 2, "n_init": 1, "search": rp.Search(retries=0), "training": rp.Training(finish="none")}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Tiny files of the form that the loaders expect, and nothing else."""
    random = np.random.default_rng(0)
    monkeypatch.setenv("RPMODELS_DATA", str(tmp_path))
    monkeypatch.setattr(fetch.pooch, "os_cache", lambda _: tmp_path / "cache")
    for folder in ("neural", "multiview"):
        (tmp_path / folder).mkdir()
    spikes = random.poisson(0.3, (18, 40, 6)).astype(np.uint8)
    hand = random.standard_normal((18, 40, 2)).cumsum(1)
    np.savez(
        tmp_path / "neural" / "mc_maze_large_9cond_5ms.npz",
        spikes=spikes, hand_position=hand, hand_velocity=hand, condition=np.repeat(np.arange(3), 6),
    )  # fmt: skip
    lengths, targets = np.full(40, 5), np.arange(40) % 8
    angles = np.pi / 2 - targets * np.pi / 4
    rates = np.exp(1.0 + np.cos(angles[:, None] - np.linspace(0, 2 * np.pi, 12, endpoint=False)))
    np.savez(
        tmp_path / "neural" / "reach_chewie-10032013_100ms.npz",
        x=random.poisson(rates.repeat(5, 0)), pos=np.zeros((200, 2)), vel=np.zeros((200, 2)), y=targets.repeat(5),
        length=lengths,
    )  # fmt: skip
    state = np.repeat([0, 1, 2, 0, 1, 2], 40)
    counts = random.poisson(np.array([[1, 8, 2], [8, 2, 1], [2, 1, 8]])[state])
    np.savez(tmp_path / "neural" / "ca1_sleep_4s.npz", counts=counts, state=state)
    category = np.arange(240) % 4
    views = {f"v{j}": 5.0 * np.eye(4)[category].repeat(2, 1) + random.standard_normal((240, 8)) for j in range(3)}
    np.savez(tmp_path / "multiview" / "multiview_Scene-15.npz", y=category + 1, **views)
    return tmp_path


def measured(name, method, condition, **options):
    return SETS[name].measured(Task(method, condition, 0, **options)).metrics


# ---- splits -----------------------------------------------------------------------------------------


def test_every_fold_of_the_maze_has_all_conditions(files):
    data = SETS["mc_maze"].trials(0, 3)
    condition = np.repeat(np.arange(3), 6)
    held_out = [fold[1] for fold in data.folds]
    assert sorted(np.concatenate(held_out)) == list(range(18))
    assert all(np.bincount(condition[each]).tolist() == [2, 2, 2] for each in held_out)
    assert not np.array_equal(held_out[0], SETS["mc_maze"].trials(1, 3).folds[0][1])


def test_reaches_are_split_in_order(files):
    data = SETS["reach"].trials(0, 4)
    ((training, held_out),) = data.folds
    assert training.tolist() == list(range(32))
    assert held_out.tolist() == list(range(36, 40))
    np.testing.assert_allclose(data.behaviour[2][0], [1.0, 0.0], atol=1e-12)  # the third target is to the right


# ---- measures ---------------------------------------------------------------------------------------


def test_directions_are_right_within_an_eighth_of_pi():
    angles = np.linspace(-np.pi, np.pi, 50)
    points = [np.stack([np.cos(angles), np.sin(angles)], -1)]

    def turned(by):
        return [np.stack([np.cos(angles + by), np.sin(angles + by)], -1)]

    assert right_direction(points, points, turned(0.0), points) == 1.0
    assert right_direction(points, points, turned(0.9 * np.pi / 8), points) == 1.0
    assert right_direction(points, points, turned(1.1 * np.pi / 8), points) == 0.0


def test_f1_is_that_of_scikit_learn_and_the_best_of_all_names():
    random = np.random.default_rng(0)
    truth, states = random.choice(3, 500, p=[0.6, 0.35, 0.05]), random.integers(4, size=500)
    states[truth == 2] = 3
    names = best_names(truth, states, 4, 3)
    expected = f1_score(truth, names[states], average="macro", zero_division=0)
    assert balanced_f1(table(truth, states, 4, 3), names[None])[0] == pytest.approx(expected)
    one_to_one = [f1_score(truth, np.array([*p, 0])[states], average="macro") for p in permutations(range(3))]
    assert expected >= max(one_to_one)
    assert names[3] == 2  # though there are more of others in it


def test_names_of_states_come_from_the_first_half_alone(files):
    """In the second half wake and NREM are exchanged: names that had looked there would fit it better."""
    path = files / "neural" / "ca1_sleep_4s.npz"
    with np.load(path) as given:
        counts, state = given["counts"], given["state"].copy()
    second = state[120:]
    state[120:] = np.array([1, 0, 2])[second]
    np.savez(path, counts=counts, state=state)
    found = measured("ca1_sleep", "k-means", 3)
    assert found["f1_first_half"] > 0.95
    assert found["f1"] < 0.4


def test_rates_are_those_of_the_training_trials():
    random = np.random.default_rng(0)
    z = [random.standard_normal((200, 2)) for _ in range(6)]
    true = [np.exp(each @ [[0.5, -0.4, 0.0], [0.2, 0.5, 0.0]] + 0.3) for each in z]
    counts = [random.poisson(each).astype(float) for each in true]
    for each in counts:
        each[:, 2] = 0.0  # silent
    broken = [*counts[:4], *(50.0 + each for each in counts[4:])]
    found = poisson_rates(z, broken, np.arange(4))
    np.testing.assert_allclose(found[5][:, :2], true[5][:, :2], rtol=0.3)
    assert np.concatenate(found)[:, 2].max() == pytest.approx(0.5 / 800)  # half a spike in all training bins
    far = poisson_rates([*z[:4], 100.0 * z[4]], counts[:5], np.arange(4))
    assert far[4].max() <= np.exp(0.75 * 8.0)  # not the exponential of hundreds


def test_peers_never_see_behaviour_of_held_out_trials(monkeypatch):
    """Whatever happened there, the same latents are found and the same smoothing is chosen."""

    class Other(Simulated):
        def trials(self, seed, folds):
            data = super().trials(seed, folds)
            fold = data.folds[0]
            behaviour = [-7.0 * np.roll(each, 3) if n in fold[1] else each for n, each in enumerate(data.behaviour)]
            return replace(data, behaviour=behaviour, folds=[fold])

    class Plain(Simulated):
        def trials(self, seed, folds):
            data = super().trials(seed, folds)
            return replace(data, folds=data.folds[:1])

    seen = []
    original = Population._read

    def spied(self, found, data, fold):
        seen.append(np.concatenate([np.concatenate(each) for each in found.values()]))
        return original(self, found, data, fold)

    monkeypatch.setattr(Population, "_read", spied)
    one, other = (each(12, 20, 8, 2).measured(Task("PCA, smoothed", 2, 0, folds=3)) for each in (Plain, Other))
    assert one.metrics["ridge"] != other.metrics["ridge"]
    for name in ("smoothing_ridge", "smoothing_knn"):
        assert one.extras["folds"][0][name] == other.extras["folds"][0][name]
    half = len(seen) // 2
    for a, b in zip(seen[:half], seen[half:], strict=True):
        np.testing.assert_allclose(a, b)


# ---- every set --------------------------------------------------------------------------------------


def test_every_peer_runs_on_every_set(files):
    for name, condition in (("mc_maze", 2), ("reach", 3), ("ca1_sleep", 3), ("scene15", 0.3)):
        for method in (each for each in SETS[name].methods if not each.startswith("RP-")):
            found = measured(name, method, condition, folds=2)
            assert np.isfinite(list(found.values())).all(), (name, method)
    assert measured("reach", "PCA, smoothed", 3)["direction"] > 0.8
    assert measured("ca1_sleep", "Gaussian mixture", 3)["f1"] > 0.9
    assert measured("scene15", "k-means, weighted", 0.0)["accuracy"] > 0.95


@pytest.mark.parametrize(("name", "condition"), [("reach", 1), ("ca1_sleep", 3), ("scene15", 0.3)])
@pytest.mark.filterwarnings("ignore::rpmodels.RPModelsWarning")
def test_our_models_run_on_every_kind_of_set(files, name, condition):
    found = measured(name, SETS[name].own, condition, folds=2, fit=TINY)
    assert np.isfinite(list(found.values())).all()


@pytest.mark.filterwarnings("ignore::rpmodels.RPModelsWarning")
def test_a_population_is_read_from_its_own_rates(monkeypatch):
    """No regression is fitted for it; where units are recognised together, there is one, and no co-smoothing."""
    asked = []
    original = real_populations.poisson_rates
    monkeypatch.setattr(real_populations, "poisson_rates", lambda *given: asked.append(1) or original(*given))
    task = Task("RP-GPFA", 2, 0, folds=2, fit=TINY)
    own = Simulated(8, 12, 10, 2).measured(task).metrics
    assert not asked
    assert {"co_smoothing", "co_smoothing_own", "ridge_rates"} <= set(own)
    together = replace(task, fit={**TINY, "channels": "together"})
    assert not {"co_smoothing", "co_smoothing_own"} & set(Simulated(8, 12, 10, 2).measured(together).metrics)
    assert asked


@pytest.mark.filterwarnings("ignore::rpmodels.RPModelsWarning")
def test_smoothed_latents_have_the_widths_that_training_trials_choose(monkeypatch):
    """The same fit: only what is read changes, and behaviour of held-out trials decides nothing."""
    world = Simulated(9, 12, 10, 2)
    task = Task("RP-GPFA", 2, 0, folds=3, fit=TINY)
    plain, free = (world.measured(replace(task, method=name)) for name in (world.own, world.smoothed))
    known = world.trials(0, 3)
    spoilt = [each.copy() for each in known.behaviour]
    for n in known.folds[0][1]:
        spoilt[n] = spoilt[n][::-1]
    monkeypatch.setattr(world, "trials", lambda *_: replace(known, behaviour=spoilt, folds=known.folds[:1]))
    other = world.measured(replace(task, method=world.smoothed)).extras["folds"][0]
    for name in ("smoothing_ridge", "smoothing_knn"):
        widths = [each[name] for each in free.extras["folds"]]
        assert set(widths) <= set(WIDTHS)
        assert other[name] == widths[0]
    for name in ("ridge_rates", "co_smoothing", "co_smoothing_own"):
        assert free.metrics[name] == plain.metrics[name]
    for width in (0.0, 3.0):
        monkeypatch.setattr("rpmodels.evaluation.methods.WIDTHS", (width,))
        monkeypatch.setattr(world, "trials", lambda *_: known)
        found = world.measured(replace(task, method=world.smoothed)).metrics["ridge"]
        assert (found == plain.metrics["ridge"]) == (width == 0.0)


@pytest.mark.filterwarnings("ignore::rpmodels.RPModelsWarning")
def test_the_quick_preset_needs_no_files_and_writes_its_table(tmp_path, monkeypatch):
    monkeypatch.setenv("RPMODELS_DATA", str(tmp_path / "nowhere"))
    assert set(EXPERIMENT.presets["quick"].conditions) == {"simulated"}
    monkeypatch.setitem(SETS, "simulated", Simulated(8, 12, 9, 2))
    monkeypatch.setitem(
        EXPERIMENT.presets, "quick", Settings({"simulated": (1, 2)}, folds=2, fit={"max_iter": 2, "n_init": 1})
    )
    folder = run_experiment(EXPERIMENT, "quick", out=tmp_path / "out", methods=["RP-GPFA", "GPFA"])
    rows = json.loads((folder / "metrics.json").read_text())["rows"]
    assert {(row["model"], row["condition"]) for row in rows} == {
        (model, size) for model in ("RP-GPFA", "GPFA") for size in ("K=1", "K=2")
    }
    assert {row["metric"] for row in rows} >= {"ridge", "knn", "ridge_rates", "co_smoothing"}
    drawn = {path.stem for path in folder.glob("*.png")}
    of_one_fold = {f"simulated-{name}" for name in ("trajectories", "from-latents", "tuning")}
    assert drawn == {"simulated", "co-smoothing"} | of_one_fold


def test_what_is_drawn_is_of_held_out_trials_and_along_what_channels_share():
    random = np.random.default_rng(0)
    shared = np.linalg.qr(random.standard_normal((4, 4)))[0]
    nats = np.array([3.0, 1.0, 0.3, 0.1])
    told = SimpleNamespace(directions=shared, precision=nats, u=np.arange(3.0), expected=random.random((4, 3)))
    latents = [random.standard_normal((5, 4)) * [1, 2, 3, 4] for _ in range(8)]
    behaviour = [each[:, :2] @ [[1.0, 0.5], [0.0, 2.0]] for each in latents]
    fold = (np.arange(5), np.array([5, 7]))
    found = example({"ridge": latents, "knn": latents}, latents, behaviour, np.arange(8), fold, told)
    assert found["labels"] == [5, 7]
    np.testing.assert_allclose(np.abs(np.array(found["paths"][1])), np.abs(latents[7] @ shared.T)[:, :3], atol=6e-4)
    np.testing.assert_allclose(found["from rates"]["decoded"][1], behaviour[7], atol=0.01)
    np.testing.assert_allclose(found["from rates"]["true"][0], behaviour[5], atol=6e-4)
    assert found["tuning"]["units"] == [0, 1, 2, 3]
    alone = example({"direction": latents}, latents, behaviour, np.arange(8), fold)
    variances = np.linalg.eigvalsh(np.cov(np.concatenate(latents[:5]).T))[::-1]
    seen = np.concatenate(latents[:5]) @ axes_of(latents[:5])
    np.testing.assert_allclose(seen.var(0, ddof=1), variances[:3])
    assert alone["tuning"] is None


def test_the_table_asks_for_every_set_by_default_arguments():
    settings = EXPERIMENT.presets["paper"]
    assert every_experiment()["real-data"] is EXPERIMENT
    assert not settings.fit
    rows = EXPERIMENT.rows(settings)
    assert {row.method for row in rows} == set(SETS) - {"simulated"}
    assert {row.condition for row in rows if row.method == "mc_maze"} == {"K=4", "K=8", "K=16"}
    assert {"PCA, smoothed", "FA, smoothed", "GPFA"} <= {row.model for row in rows if row.method == "reach"}
    assert {row.model for row in rows if row.method == "scene15"} >= {"k-means, weighted", "CCA, k-means"}


FILES = {
    "hippocampus": (hippocampus.SPIKES, hippocampus.TRACKING),
    "mc_maze": (populations.MC_MAZE,),
    "reach": (populations.REACH,),
    "ca1_sleep": (populations.CA1_SLEEP,),
    "scene15": (scenes.SCENE_15,),
}


@pytest.mark.parametrize("name", FILES)
def test_the_recordings_themselves(name):
    if not all(file.there() for file in FILES[name]):
        pytest.skip(f"{FILES[name][0].name} is neither in RPMODELS_DATA nor in the cache")
    loaders = {"hippocampus": lambda: rp.datasets.load_hippocampus().runs(), "mc_maze": rp.datasets.load_mc_maze}
    found = loaders.get(name, getattr(rp.datasets, f"load_{name}"))()
    counts = {"hippocampus": 65, "mc_maze": 165, "reach": 159, "ca1_sleep": 10_800, "scene15": 4_485}
    assert len(found.counts if name == "ca1_sleep" else found) == counts[name]
    if name == "mc_maze":
        assert found.counts.shape == (165, 25, 132)
