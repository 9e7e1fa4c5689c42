"""Fits that are killed, interrupted, resumed or continued: the same numbers, bit for bit, or a clear refusal."""

import importlib
import json
import math
import os
import resource
import shutil
import signal
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import rpmodels as rp
from data import ball
from data import clusters as drawn
from processes import start
from references import Killed
from registry import made
from rpmodels import persistence
from rpmodels.errors import FileError, RPModelsWarning
from rpmodels.learning import Move
from rpmodels.learning import checkpoints as checkpoints_module
from rpmodels.learning.contenders import Contender
from rpmodels.learning.tournament import FINAL


def clusters(seed=0):
    return drawn(distance=3.0, noise=1.0, seed=seed)[0]


def series(seed=0):
    return ball(6, 8, seed).x


def categorical(**options):
    return made(rp.RPCategorical, 3, **{"max_iter": 60, "batch_size": 20, "n_init": 2, "random_state": 0} | options)


def gpfa(**options):
    return made(rp.RPGPFA, **{"max_iter": 120, "n_inducing": 4, "n_init": 2, "retries": 0, "random_state": 0} | options)


def lds(**options):
    return made(rp.RPLDS, **{"max_iter": 60, "n_init": 2, "retries": 0, "random_state": 0} | options)


@cache
def uninterrupted(make, data):
    """The fit that others must end at; made once."""
    return make().fit(data())


MODELS = {
    "categorical, minibatches": (categorical, clusters),
    "categorical, held out": (lambda: categorical(validation_fraction=0.2, patience=30), clusters),
    "categorical, plateau": (lambda: categorical(tol=1e-1, patience=10, max_iter=100), clusters),
    "gpfa": (lambda: gpfa(max_iter=80), series),
    "gpfa, free and by turns": (lambda: gpfa(e_step="free", alternate=10, max_iter=80), series),
    "lds, bayes": (lambda: lds(dynamics=1.0), series),
    "own optimiser": (lambda: gpfa(optimiser=lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9), max_iter=60), series),
}


def same(one, other):
    assert one.score_ == other.score_
    assert one.n_iter_ == other.n_iter_
    assert one.stop_reason_ == other.stop_reason_
    assert [vars(each) for each in one.restarts_] == [vars(each) for each in other.restarts_]
    assert one.validation_curve_ == other.validation_curve_
    for name, column in one.history_.items():
        np.testing.assert_array_equal(column, other.history_[name])
    for ours, theirs in zip(one.model_.state_dict().values(), other.model_.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)


def killed_after(saves, monkeypatch):
    """Let so many checkpoints be written, and end everything at the next one."""
    save, count = checkpoints_module.save_state, 0

    def counted(path, state):
        nonlocal count
        count += 1
        if count > saves:
            raise Killed
        save(path, state)

    monkeypatch.setattr(checkpoints_module, "save_state", counted)


ALWAYS = ("categorical, held out", "gpfa", "gpfa, free and by turns")
"""The others are for `make soak`."""


@pytest.mark.parametrize(
    "name", [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.soak) for name in MODELS]
)
def test_a_fit_killed_at_any_checkpoint_ends_at_the_same_numbers(name, tmp_path, monkeypatch):
    make, data = MODELS[name]
    whole = uninterrupted(make, data)
    written = []
    save = checkpoints_module.save_state
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints_module, "save_state", lambda path, state: (written.append(path), save(path, state)))
        same(make().fit(data(), checkpoint=tmp_path / "whole", checkpoint_every=0.0), whole)
    assert len(written) > 5
    for saves in np.unique([2, len(written) - 2]):
        folder = tmp_path / str(saves)
        with monkeypatch.context() as patch:
            killed_after(saves, patch)
            with pytest.raises(Killed):
                make().fit(data(), checkpoint=folder, checkpoint_every=0.0)
        same(make().fit(data(), checkpoint=folder, checkpoint_every=0.0), whole)


def test_a_fit_without_a_seed_goes_on_with_the_one_it_had(tmp_path, monkeypatch):
    first = categorical(random_state=None).fit(clusters(), checkpoint=tmp_path)
    same(categorical(random_state=None).fit(clusters(), checkpoint=tmp_path), first)


@pytest.mark.parametrize("proposes", [True, False])
def test_moves_are_not_proposed_anew(proposes, tmp_path, monkeypatch):
    """A champion that came back from later than its move must not be asked again, whatever the answer was."""
    asked = []

    class Once(Move):
        def __call__(self, model, observations, seed, failed=0):
            asked.append(seed)
            return 0 if proposes else None

    monkeypatch.setattr(rp.RPCategorical, "_move", lambda self: Once())
    options = {"max_iter": 150, "n_init": 2}
    whole = categorical(**options).fit(clusters(), checkpoint=tmp_path, checkpoint_every=0.0)
    assert len(asked) == 1
    assert len(whole.restarts_) == 2 + proposes
    same(categorical(**options).fit(clusters(), checkpoint=tmp_path, checkpoint_every=0.0), whole)
    assert len(asked) == 1


def test_workers_write_their_own_files(tmp_path):
    whole = uninterrupted(gpfa, series)
    same(gpfa(n_jobs=2).fit(series(), checkpoint=tmp_path), whole)
    runs = [path for path in tmp_path.glob("*.checkpoint") if not path.name.startswith("agreement")]
    assert len(runs) == len(whole.restarts_)
    same(gpfa(n_jobs=2).fit(series(), checkpoint=tmp_path), whole)


# ---- whose folder it is -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "data", "words"),
    [
        (lambda: categorical(max_iter=90), clusters, "max_iter"),
        (categorical, lambda: clusters(seed=1), "the data"),
        (gpfa, series, "class"),
        (lambda: categorical(network=torch.nn.Linear(4, 3)), clusters, "network"),
    ],
)
def test_a_folder_of_another_fit_is_refused_and_left_alone(make, data, words, tmp_path):
    categorical().fit(clusters(), checkpoint=tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(FileError, match=words):
        make().fit(data(), checkpoint=tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("text", ["", "[]", '{"name": "my project"}', "not json"])
def test_a_manifest_of_something_else_is_refused(text, tmp_path):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(FileError, match="another folder"):
        categorical().fit(clusters(), checkpoint=tmp_path)


def test_other_processes_and_words_do_not_make_another_fit(tmp_path):
    first = categorical().fit(clusters(), checkpoint=tmp_path)
    same(categorical(verbose=1, callbacks=[lambda state: None]).fit(clusters(), checkpoint=tmp_path), first)


def test_a_damaged_checkpoint_is_named(tmp_path):
    categorical().fit(clusters(), checkpoint=tmp_path)
    victim = sorted(tmp_path.glob("*.checkpoint"))[0]
    content = bytearray(victim.read_bytes())
    content[-5] ^= 1
    victim.write_bytes(bytes(content))
    with pytest.raises(FileError, match=victim.name):
        categorical().fit(clusters(), checkpoint=tmp_path)


def moved(folder, other):
    """The checkpoints of one folder under the names of another's."""
    for theirs, ours in zip(sorted(other.glob("*.checkpoint")), sorted(folder.glob("*.checkpoint")), strict=False):
        ours.write_bytes(theirs.read_bytes())


def swapped(folder, _):
    """The files of two starts exchanged."""
    one, two = sorted(folder.glob("as-given-*.checkpoint"))[0], sorted(folder.glob("linear-states*.checkpoint"))[0]
    kept = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(kept)


def flipped(folder, _):
    """One bit of a seed."""
    path = folder / "manifest.json"
    seed = str(json.loads(path.read_text())["seeds"][1])
    path.write_text(path.read_text().replace(seed, seed[:-1] + chr(ord(seed[-1]) ^ 1)))


def seeded_otherwise(folder, _):
    """Another seed under a seal of its own: what it must be follows from random_state."""
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    del content[checkpoints_module.SEAL]
    content["seeds"][1] ^= 1
    path.write_text(json.dumps({**content, checkpoints_module.SEAL: checkpoints_module._digest(content)}))


def begun_earlier(folder, _):
    """As versions wrote it whose files do not say to which fit they belong."""
    path = folder / "manifest.json"
    content = json.loads(path.read_text()) | {"format": 1}
    del content[checkpoints_module.SEAL]
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (moved, "not of this fit"), (swapped, "not of the start"), (flipped, "manifest.json is damaged"),
        (seeded_otherwise, "random_state"), (begun_earlier, "an earlier version has begun"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)  # fmt: skip
def test_files_that_belong_elsewhere_are_named(change, said, two_fits, tmp_path):
    mine, other = tmp_path / "mine", two_fits[1]
    shutil.copytree(two_fits[0], mine)
    change(mine, other)
    before = {path: path.read_bytes() for path in mine.iterdir()}
    with pytest.raises(FileError, match=said):
        brief().fit(clusters(), checkpoint=mine)
    assert {path: path.read_bytes() for path in mine.iterdir()} == before


def brief(**options):
    return categorical(**{"max_iter": 20, "finish": "none", "network": "linear"} | options)


@pytest.fixture(scope="module")
def two_fits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fits")
    for name, seed in (("one", 0), ("other", 1)):
        brief().fit(clusters(seed), checkpoint=folder / name)
    return folder / "one", folder / "other"


def test_what_a_killed_writer_left_in_the_folder_is_swept(tmp_path):
    brief().fit(clusters(), checkpoint=tmp_path)
    (tmp_path / ".as-given.x.writing").mkdir()
    brief().fit(clusters(), checkpoint=tmp_path)
    assert not list(tmp_path.glob(".*"))


def test_a_network_of_ones_own_is_known_by_its_architecture(tmp_path, monkeypatch):
    """A script that is run again makes other weights: the fit goes on from those it was begun with."""

    def own(seed, width=5):
        torch.manual_seed(seed)
        layers = [torch.nn.Linear(4, width), torch.nn.Tanh(), torch.nn.Linear(width, 3)]
        return {"a": torch.nn.Sequential(*layers), "b": "linear"}

    whole = brief(network=own(0)).fit(clusters())
    with monkeypatch.context() as patch:
        killed_after(3, patch)
        with pytest.raises(Killed):
            brief(network=own(0)).fit(clusters(), checkpoint=tmp_path, checkpoint_every=0.0)
    with pytest.warns(RPModelsWarning, match="goes on from the latter"):
        same(brief(network=own(1)).fit(clusters(), checkpoint=tmp_path), whole)
    with pytest.raises(FileError, match="network"):
        brief(network=own(0, width=6)).fit(clusters(), checkpoint=tmp_path)


def test_a_checkpoint_is_no_model_and_a_model_no_checkpoint(tmp_path):
    model = categorical().fit(clusters(), checkpoint=tmp_path)
    with pytest.raises(FileError, match="checkpoint"):
        rp.load(sorted(tmp_path.glob("*.checkpoint"))[0])
    model.save(tmp_path / "model")
    with pytest.raises(FileError, match="checkpoint"):
        persistence.load_state(tmp_path / "model")


def test_a_state_that_no_file_can_hold_is_refused_before_the_work_is_lost(tmp_path):
    def scheduler(optimiser):
        made = torch.optim.lr_scheduler.StepLR(optimiser, 10)
        made.own = object()
        return made

    with pytest.raises(TypeError, match="scheduler"):
        categorical(scheduler=scheduler).fit(clusters(), checkpoint=tmp_path)


# ---- what can go wrong meanwhile --------------------------------------------------------------------


def test_a_full_disk_ends_no_fit_and_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    whole = uninterrupted(gpfa, series)
    save, count = checkpoints_module.save_state, 0

    def filling(path, state):
        nonlocal count
        count += 1
        if count > 6:
            raise OSError(28, "No space left on device")
        save(path, state)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints_module, "save_state", filling)
        with pytest.warns(RPModelsWarning, match="No space left"):
            same(gpfa().fit(series(), checkpoint=tmp_path, checkpoint_every=0.0), whole)
    same(gpfa().fit(series(), checkpoint=tmp_path, checkpoint_every=0.0), whole)


def test_what_the_disk_says_arrives_and_leaves_the_last_file(tmp_path):
    """With a limit on the size of files, which is as good as a full disk."""
    persistence.save_state(tmp_path / "state", {"a": torch.zeros(10)})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
        with pytest.raises(OSError, match=r"(?i)file too large"):
            persistence.save_state(tmp_path / "state", {"a": torch.zeros(10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert len(persistence.load_state(tmp_path / "state")["a"]) == 10


def test_an_unsaved_rival_makes_later_files_of_the_champion_worthless(tmp_path, monkeypatch):
    def refused(self, key, state):
        return (
            "move" not in key
            and checkpoints_module.save_state(self.path(key), {"fit": self.fit, "key": key, "state": dict(state)})
            is None
        )

    class Always(Move):
        def __call__(self, model, observations, seed, failed=0):
            return 0

    monkeypatch.setattr(rp.RPCategorical, "_move", lambda self: Always())
    # Starts that agree meet no rivals.
    monkeypatch.setattr(importlib.import_module("rpmodels.learning.tournament"), "agreed", lambda *_: None)
    monkeypatch.setattr(checkpoints_module.Checkpoints, "save", refused)
    steps = []
    train_to = Contender.train_to
    monkeypatch.setattr(
        Contender,
        "train_to",
        lambda self, data, until: (train_to(self, data, until), steps.append((until, self.checkpoints)))[0],
    )
    categorical(max_iter=300, n_init=2).fit(clusters(), checkpoint=tmp_path)
    interval = round(300 * 0.055)
    final = interval * math.ceil(FINAL * 300 / interval)  # where the taught start meets the free one, and moves begin
    late = [kept for until, kept in steps if until > final]
    assert late
    assert late == [None] * len(late)


def test_states_survive_the_journey(tmp_path):
    state = {
        "tensor": torch.arange(6.0).reshape(2, 3).double(),
        "array": np.array([1, 2, 3]),
        "scalar": torch.tensor(3),
        "nested": [(1, 2.5, None, True), {"inf": float("-inf"), 0: "text"}],
        "random": np.random.default_rng(0).bit_generator.state,
    }
    persistence.save_state(tmp_path / "s", state)
    back = persistence.load_state(tmp_path / "s")
    assert torch.equal(back["tensor"], state["tensor"])
    np.testing.assert_array_equal(back["array"], state["array"])
    assert back["nested"] == state["nested"]
    assert back["random"] == state["random"]
    assert back["scalar"].shape == ()


# ---- Ctrl-C -----------------------------------------------------------------------------------------


class InterruptedAt:
    def __init__(self, step):
        self.step = step

    def __call__(self, state):
        if state.step == self.step:
            raise KeyboardInterrupt


def test_an_interrupt_keeps_what_was_learnt():
    with pytest.warns(RPModelsWarning, match="step 80 of 120"):
        model = gpfa(n_init=1, callbacks=[InterruptedAt(80)]).fit(series())
    assert model.n_iter_ == 80
    assert model.stop_reason_ == "interrupted at step 80"
    assert np.isfinite(model.transform(series())).all()


def test_an_interrupt_among_the_restarts_keeps_the_best(monkeypatch):
    calls = []
    train_to = Contender.train_to

    def interrupted(self, observations, until):
        calls.append(until)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return train_to(self, observations, until)

    monkeypatch.setattr(Contender, "train_to", interrupted)
    with pytest.warns(RPModelsWarning, match="Interrupted at step"):
        model = gpfa(n_init=3).fit(series())
    first = [each.free_energies[0] for each in model.restarts_[:2]]
    assert model.history_["free_energy"][-10:].mean() == pytest.approx(max(first))


def test_an_interrupt_before_anything_was_learnt_is_an_interrupt(monkeypatch):
    model = gpfa().fit(series())
    before = model.score_

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module("rpmodels.learning.field"), "enter", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(series(seed=1))
    assert model.score_ == before


def test_an_interrupted_fit_can_be_resumed(tmp_path):
    whole = uninterrupted(gpfa, series)
    with pytest.warns(RPModelsWarning, match="Interrupted"):
        gpfa(callbacks=[InterruptedAt(85)]).fit(series(), checkpoint=tmp_path, checkpoint_every=0.0)
    same(gpfa().fit(series(), checkpoint=tmp_path, checkpoint_every=0.0), whole)


# ---- warm starts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "data"), [(categorical, clusters), (gpfa, series)], ids=["categorical", "gpfa"])
def test_a_warm_start_goes_on_from_the_last_fit(make, data):
    model = make(warm_start=True).fit(data())
    reached = float(model.score_)
    weights = {name: each.clone() for name, each in model.model_.state_dict().items() if "network" in name}
    model.set_params(max_iter=3, learning_rate=1e-6)
    model.fit(data())
    assert [each.kind for each in model.restarts_] == ["as given"]
    assert float(model.score_) == pytest.approx(reached, abs=0.05)
    for name, each in weights.items():
        torch.testing.assert_close(model.model_.state_dict()[name], each, atol=1e-3, rtol=1e-3)


def test_a_warm_start_keeps_the_scaling_it_learnt_with():
    model = categorical(warm_start=True, max_iter=40).fit(clusters())
    shifted = {name: values + 1.0 for name, values in clusters().items()}
    before = model.recognise(clusters()["a"], "a")
    model.set_params(max_iter=1, learning_rate=1e-9).fit(shifted)
    np.testing.assert_allclose(model.recognise(clusters()["a"], "a"), before, atol=1e-5)


def test_a_warm_start_refuses_data_of_another_shape():
    model = categorical(warm_start=True, max_iter=20).fit(clusters())
    with pytest.raises(ValueError, match="expected"):
        model.fit({name: values[:, :2] for name, values in clusters().items()})


def test_a_cold_start_forgets(recwarn):
    once = uninterrupted(categorical, clusters)
    same(categorical(max_iter=10).fit(clusters(seed=3)).set_params(max_iter=60).fit(clusters()), once)


# ---- kill -9 ----------------------------------------------------------------------------------------

PROGRAM = """
import sys, numpy as np, rpmodels as rp
x = rp.datasets.plain_ball(n_trials=8, n_times=12, random_state=0).x
model = rp.RPGPFA(max_iter=150, n_inducing=5, random_state=0, search=rp.Search(retries=0, n_jobs=int(sys.argv[3])))
print("begun", flush=True)
model.fit(x, checkpoint=sys.argv[1], checkpoint_every=0.05)
np.savez(sys.argv[2], latents=model.transform(x), score=float(model.score_), f=model.history_["free_energy"])
"""


def begin(folder, out, n_jobs):
    """The program in a process of its own, once it has begun to fit."""
    program = start(PROGRAM, folder.parent, folder, out, n_jobs)
    deadline = time.monotonic() + 60
    while "begun" not in program.printed():
        assert time.monotonic() < deadline, program.printed()
        time.sleep(0.01)
    return program


def numbers(path):
    with np.load(path) as stored:
        return dict(stored)


def in_one_go(tmp_path):
    program = begin(tmp_path / "whole", tmp_path / "whole.npz", 1)
    begun = time.monotonic()
    assert program.wait() == 0
    return numbers(tmp_path / "whole.npz"), time.monotonic() - begun


def check_kills(tmp_path, kills, n_jobs, seed):
    whole, seconds = in_one_go(tmp_path)
    rng = np.random.default_rng(seed)
    for number in range(kills):
        folder, out = tmp_path / f"k{number}", tmp_path / f"k{number}.npz"
        program = begin(folder, out, n_jobs)
        time.sleep(rng.uniform(0.05, 0.9) * seconds)
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
        assert begin(folder, out, n_jobs).wait() == 0
        resumed = numbers(out)
        for name in whole:
            np.testing.assert_array_equal(resumed[name], whole[name], err_msg=f"kill {number}")


def test_killed_twice_and_resumed(tmp_path):
    check_kills(tmp_path, 2, n_jobs=1, seed=0)


@pytest.mark.soak
@pytest.mark.parametrize(("kills", "n_jobs"), [(int(os.environ.get("RPMODELS_KILLS", "20")), 1), (5, 2)])
def test_killed_at_many_random_moments(kills, n_jobs, tmp_path):
    check_kills(tmp_path, kills, n_jobs, seed=1)


@pytest.mark.soak
def test_workers_of_a_killed_fit_end_by_themselves(tmp_path):
    def alive(pid):
        try:
            os.kill(pid, 0)
        except OSError:
            return False
        status = Path(f"/proc/{pid}/stat").read_text() if Path(f"/proc/{pid}/stat").exists() else ""
        return ") Z" not in status

    program = begin(tmp_path / "c", tmp_path / "c.npz", 2)
    deadline = time.monotonic() + 60
    children: list[int] = []
    while len(children) < 3 and time.monotonic() < deadline:
        listed = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text()
        children = [int(each) for each in listed.split()]
        time.sleep(0.05)
    assert children
    os.kill(program.pid, signal.SIGKILL)
    program.wait()
    deadline = time.monotonic() + 30
    while any(map(alive, children)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not [pid for pid in children if alive(pid)]


def test_no_warning_where_nothing_is_wrong(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RPModelsWarning)
        categorical().fit(clusters(), checkpoint=tmp_path)
        categorical().fit(clusters(), checkpoint=tmp_path)
