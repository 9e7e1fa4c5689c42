"""Whatever overflows, and at whatever step: a fit ends with finite numbers, or with a sentence and the old model."""

import numpy as np
import pytest
import torch

import rpmodels as rp
from data import clusters
from rpmodels.errors import NumericalError, RPModelsError, RPModelsWarning

X, _ = clusters(200, distance=2.0, noise=1.0)
MODELS = {
    "categorical": (rp.RPCategorical, {"n_states": 3, "n_init": 1}),
    "fa": (rp.RPFA, {"n_latents": 1, "n_init": 1, "search": rp.Search(retries=0)}),
}


def poisoned(at):
    """AdamW that writes NaN into a parameter once: after its step `at`, as an overflow would."""

    class Once(torch.optim.AdamW):
        taken = 0

        def step(self, closure=None):
            super().step(closure)
            Once.taken += 1
            if Once.taken == at:
                with torch.no_grad():
                    self.param_groups[0]["params"][0].fill_(torch.nan)

    return lambda parameters: Once(parameters, lr=1e-3)


def is_finite(model):
    found = [model.score_samples(X), model.latents(X).values, np.array([float(model.score_)])]
    found += [p.detach().numpy() for p in model.model_.pattern.parameters()]
    return all(np.isfinite(each).all() for each in found)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("finish", ["auto", "none"])
@pytest.mark.parametrize("max_iter", [1, 30])
@pytest.mark.parametrize("rate", [1e30, 1e38])
def test_steps_that_overflow_leave_the_old_model(name, finish, max_iter, rate):
    kind, arguments = MODELS[name]
    model = kind(**arguments, network="linear", max_iter=10, training=rp.Training(finish=finish), random_state=0).fit(X)
    before = model.score_samples(X), float(model.score_), model.n_iter_
    model.set_params(max_iter=max_iter, learning_rate=rate)
    said = None
    try:
        model.fit(X)
    except RPModelsError as failure:
        said = str(failure)
    if said is not None:
        assert "learning_rate" in said
        np.testing.assert_array_equal(model.score_samples(X), before[0])
        assert (float(model.score_), model.n_iter_) == before[1:]
    assert is_finite(model)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("at", [1, 2, 3, 9, 10, 18, 19, 20, 21, 24, 25, 26, 29, 30])
def test_one_bad_step_is_rescued_wherever_it_is(name, at):
    """Also the last one before starts are compared, and the last of all, which no next step notices."""
    kind, arguments = MODELS[name]
    training = rp.Training(optimiser=poisoned(at), finish="none")
    with pytest.warns(RPModelsWarning, match="went back to step"):
        model = kind(**arguments, max_iter=30, training=training, random_state=0).fit(X)
    assert model.n_iter_ == 30
    assert is_finite(model)


@pytest.mark.parametrize("finish", ["auto", "none"])
def test_a_last_step_that_fails_before_there_is_anything_to_go_back_to_is_refused(finish):
    model = rp.RPFA(1, n_init=1, max_iter=5, network="linear", search=rp.Search(retries=0), random_state=0).fit(X)
    before = model.score_samples(X)
    for max_iter in (1, 5):
        training = rp.Training(optimiser=poisoned(max_iter), finish=finish)
        with pytest.warns(RPModelsWarning), pytest.raises(NumericalError, match="nothing was kept"):
            model.set_params(max_iter=max_iter, training=training).fit(X)
        np.testing.assert_array_equal(model.score_samples(X), before)
        assert is_finite(model)


class Overflowing(rp.learning.Finish):
    """Ends with finite parameters and a score that is not."""

    def __call__(self, objective, observations, rivals=()):
        with torch.no_grad():
            for parameter in objective.parameters():
                parameter.fill_(1e38)


def test_a_score_that_is_no_number_is_refused():
    model = rp.RPFA(1, n_init=1, max_iter=5, network="linear", search=rp.Search(retries=0), random_state=0).fit(X)
    before = model.score_samples(X)
    with pytest.raises(NumericalError):
        model.set_params(training=rp.Training(finish=Overflowing())).fit(X)
    np.testing.assert_array_equal(model.score_samples(X), before)
    assert is_finite(model)


def test_train_ends_with_finite_parameters_too():
    observations = rp.read(X)
    model, _ = rp.RPFA(1, network="linear", random_state=0).build(observations)
    settings = rp.learning.TrainingSettings(max_iter=30, optimiser=poisoned(30), finish=rp.learning.NoFinish())
    with pytest.warns(RPModelsWarning, match="went back to step 25"):
        fitted = rp.train(model, observations, settings, random_state=0)
    assert all(bool(torch.isfinite(each).all()) for each in fitted.pattern.parameters())
    assert np.isfinite(float(fitted.score(observations)))


def test_an_interrupt_after_a_bad_step_keeps_a_good_state():
    def interrupt(state):
        if state.step == 28:
            raise KeyboardInterrupt

    training = rp.Training(optimiser=poisoned(28), callbacks=[interrupt], finish="none")
    with pytest.warns(RPModelsWarning, match="Interrupted"):
        model = rp.RPFA(1, n_init=1, max_iter=60, training=training, random_state=0).fit(X)
    assert is_finite(model)
