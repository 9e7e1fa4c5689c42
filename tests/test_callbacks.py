"""The callback protocol, and its TensorBoard adapter."""

import builtins
import copy
import pickle
import sys

import numpy as np
import pytest
from sklearn.base import clone

import rpmodels as rp
from data import views
from registry import ESTIMATORS
from rpmodels.callbacks import State, TensorBoard
from rpmodels.errors import RPModelsError

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def estimator(*callbacks, **options):
    return ESTIMATORS["fa"].make(1, callbacks=list(callbacks), **{"max_iter": 6, **options})


def curves(folder):
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    return {name: {each.step: each.value for each in events.Scalars(name)} for name in events.Tags()["scalars"]}


def test_a_callback_sees_every_step_and_may_stop_the_run():
    seen = []

    def enough(state):
        seen.append((state.step, state.terms["free_energy"], state.learning_rate, state.finite))
        if state.step == 4:
            state.stop_reason = "enough"

    model = estimator(enough).fit(views(40, width=2, noise=0.3)[0])
    assert (model.n_iter_, model.stop_reason_) == (4, "enough")
    steps, values, rates, finite = zip(*seen, strict=True)
    assert steps == (1, 2, 3, 4)
    np.testing.assert_array_equal(values, model.history_["free_energy"])
    np.testing.assert_array_equal(rates, model.history_["learning_rate"])
    assert all(finite)


def test_tensorboard_has_every_term_of_every_step(tmp_path):
    with TensorBoard(tmp_path / "run") as board:
        model = estimator(board).fit(views(40, width=2, noise=0.3)[0])
    written = curves(tmp_path / "run")
    assert set(written) == set(model.history_) - {"step"}
    for name, curve in written.items():
        assert list(curve) == model.history_["step"].tolist()
        np.testing.assert_allclose(list(curve.values()), model.history_[name], rtol=1e-6)


def test_a_later_run_replaces_the_curves_from_its_first_step_on(tmp_path):
    board = TensorBoard(tmp_path)
    for step in (1, 2, 3, 4):
        board(State(step, {"free_energy": 0.0}, True, 0.1))
    for step in (3, 4, 5):  # resumed from the checkpoint of step 2
        board(State(step, {"free_energy": 1.0}, True, 0.1))
    board.close()
    board.close()
    assert curves(tmp_path)["free_energy"] == {1: 0.0, 2: 0.0, 3: 1.0, 4: 1.0, 5: 1.0}


def test_fewer_rows_and_the_last_one(tmp_path):
    with TensorBoard(str(tmp_path), every=2) as board:
        for step in (1, 2, 3):
            board(State(step, {"free_energy": float(step)}, True, 0.1, "done" if step == 3 else None))
    assert curves(tmp_path)["free_energy"] == {2: 2.0, 3: 3.0}


def test_it_is_copied_without_its_open_file(tmp_path):
    board = TensorBoard(tmp_path)
    assert not list(tmp_path.iterdir())  # nothing is opened before the first step
    model = estimator(board).fit(views(40, width=2, noise=0.3)[0])
    (twin,) = clone(model).training.callbacks
    for each in (twin, pickle.loads(pickle.dumps(board)), copy.deepcopy(board)):
        assert (each.log_dir, each._writer) == (tmp_path, None)
    pickle.loads(pickle.dumps(model)).score(views(40, width=2, noise=0.3)[0])
    board.close()
    assert len(list(tmp_path.iterdir())) == 1
    model.save(tmp_path.parent / "model")
    with pytest.warns(rp.RPModelsWarning, match="callbacks"):
        assert rp.load(tmp_path.parent / "model").training.callbacks == []


def test_rows_are_on_disk_when_it_is_gone(tmp_path):
    board = TensorBoard(tmp_path)
    board(State(1, {"free_energy": 2.0}, True, 0.1))
    del board
    assert curves(tmp_path)["free_energy"] == {1: 2.0}


def test_without_the_package_it_says_what_to_install(tmp_path, monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        if name == "torch.utils.tensorboard":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(RPModelsError, match="pip install tensorboard") as failure:
        TensorBoard(tmp_path)(State(1, {}, True, 0.1))
    assert isinstance(failure.value, ImportError)
