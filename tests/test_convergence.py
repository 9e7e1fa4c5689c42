"""Whether a fit has arrived, how fast its numbers move, and how strongly they are held while it searches."""

import copy

import numpy as np
import pytest
import torch

import rpmodels as rp
from data import clusters, views
from rpmodels.errors import RPModelsWarning
from rpmodels.learning import NoFinish, Run, Strong, TrainingSettings
from rpmodels.learning.batches import divide
from rpmodels.learning.convergence import trend
from rpmodels.learning.optimisers import adamw, flat_then_cosine, set_decay
from rpmodels.recognition import MLP, ConstantPrecision, Dropout, Linear, LookupTable, RecognitionFactor, gains

# ---- trends ---------------------------------------------------------------------------------


def test_noise_is_no_trend():
    random = np.random.default_rng(0)
    found = [trend(3.0 + 0.3 * random.standard_normal(400), np.full(400, 1e-3)) for _ in range(200)]
    assert not any(each.rising for each in found)
    assert all(each.steps == 80 for each in found)


def test_a_steady_climb_is_one():
    values = np.linspace(1.0, 2.0, 400) + 0.02 * np.random.default_rng(0).standard_normal(400)
    found = trend(values, np.full(400, 1e-3))
    assert found.rising
    assert found.rise == pytest.approx(0.2, rel=0.1)
    assert found.share == pytest.approx(0.2 / 1.9, rel=0.1)
    assert not trend(values[::-1], np.full(400, 1e-3)).rising


def test_a_climb_that_is_a_hundredth_of_what_there_is_has_arrived():
    assert not trend(100.0 + np.linspace(0.0, 5.0, 400), np.full(400, 1e-3)).rising


def test_steps_at_a_low_rate_say_nothing():
    """It rose until the rate fell: that it stands still since then is the rate's doing."""
    values = np.concatenate([np.linspace(0.5, 2.0, 300), np.full(100, 2.0)])
    rates = np.concatenate([np.full(300, 1e-2), np.geomspace(4e-3, 1e-4, 100)])
    assert trend(values, rates).rising
    assert not trend(values, np.full(400, 1e-2)).rising


def test_too_few_steps_tell_nothing():
    assert trend(np.arange(45.0), np.ones(45)) is None
    assert trend(np.arange(46.0), np.ones(46)) is not None
    assert trend(np.array([]), np.array([])) is None
    assert trend(np.full(100, np.nan), np.ones(100)) is None


def test_steps_that_failed_are_left_out():
    values = np.linspace(1.0, 2.0, 400)
    values[::7] = np.nan
    assert trend(values, np.ones(400)).rising


def test_a_fit_says_whether_it_arrived():
    x, _ = views(200, 1, 4, noise=0.5)
    model = rp.RPFA(1, network="mlp", n_init=1, max_iter=100, learning_rate=1e-3, random_state=0)
    with pytest.warns(RPModelsWarning, match=r"before its free energy stood still \(up by \d+% over the last 18 steps"):
        assert not model.fit(x).converged_
    with pytest.warns(RPModelsWarning, match="too few to tell"):
        assert not model.set_params(max_iter=30, learning_rate=1e-2).fit(x).converged_
    training = rp.Training(tol=0.1, patience=20)
    assert model.set_params(max_iter=300, learning_rate=1e-2, training=training).fit(x).converged_
    assert "plateau" in model.stop_reason_


@pytest.mark.parametrize(("steps", "converged"), [(40, False), (400, True)])
def test_a_record_says_so_too(steps, converged):
    x, _ = clusters(150, 3, distance=2.0)
    observations = rp.read(x)
    model, _ = rp.RPCategorical(3, network="mlp", random_state=0).build(observations)
    settings = TrainingSettings(max_iter=steps, learning_rate=1e-2, finish=NoFinish())
    assert rp.train(model, observations, settings, random_state=0).record.converged is converged


def test_an_interrupted_fit_has_not_arrived():
    def interrupt(state):
        if state.step == 40:
            raise KeyboardInterrupt

    x, _ = views(100, 1, 2)
    training = rp.Training(callbacks=[interrupt])
    with pytest.warns(RPModelsWarning, match="Interrupted"):
        model = rp.RPFA(1, network="linear", n_init=1, max_iter=100, training=training, random_state=0).fit(x)
    assert not model.converged_
    assert "L-BFGS" not in model.stop_reason_


# ---- gains ----------------------------------------------------------------------------------


def test_what_is_a_natural_parameter_moves_faster():
    linear, mlp, table = Linear((4,), 2), MLP((4,), 2, (5,)), LookupTable(3, 2)
    assert set(gains(linear).values()) == {5.0}
    assert set(gains(Linear((400,), 2)).values()) == {1.0}
    assert set(gains(mlp).values()) == {1.0}
    assert set(gains(table).values()) == {10.0}
    wrapped = ConstantPrecision(MLP((4,), 1, (5,)), 1, 2)
    found = gains(wrapped)
    assert found[wrapped.rest] == 10.0
    assert {found[each] for each in wrapped.network.parameters()} == {1.0}
    assert set(gains(ConstantPrecision(linear, 2, 3).network).values()) == {5.0}
    assert set(gains(torch.nn.Sequential(torch.nn.Linear(4, 2))).values()) == {1.0}
    assert gains(torch.nn.ModuleList([linear, mlp, table])).keys() == {
        *linear.parameters(), *mlp.parameters(), *table.parameters(),
    }  # fmt: skip


def test_adamw_has_a_group_for_every_gain_and_decays_weights_only():
    networks = torch.nn.ModuleList([Linear((4,), 2), MLP((4,), 2, (5,)), LookupTable(3, 2)])
    other = torch.nn.Parameter(torch.zeros(3, 3))
    optimiser = adamw(networks, [*networks.parameters(), other], 1e-3, 0.1)
    by_parameter = {each: group for group in optimiser.param_groups for each in group["params"]}
    assert len(by_parameter) == len(list(networks.parameters())) + 1
    for parameter, gain in gains(networks).items():
        group = by_parameter[parameter]
        assert group["lr"] == pytest.approx(1e-3 * gain)
        # What decays does so by rate × decay a step, whatever the gain.
        shrinking = group["lr"] * group["weight_decay"]
        assert shrinking == pytest.approx(1e-3 * 0.1 if parameter.ndim > 1 else 0.0)
    assert by_parameter[other]["lr"] == 1e-3
    assert by_parameter[other]["weight_decay"] == 0.0
    set_decay(optimiser, 0.3)
    assert by_parameter[networks[2].weight]["weight_decay"] == pytest.approx(0.03)
    assert by_parameter[other]["weight_decay"] == 0.0


def test_a_step_is_the_gain_times_the_rate():
    """Adam's first step is one rate in the direction of the gradient."""
    table, mlp = LookupTable(3, 2), MLP((4,), 2, (5,))
    networks = torch.nn.ModuleList([table, mlp])
    optimiser = adamw(networks, networks.parameters(), 1e-3)
    before = table.weight.detach().clone(), mlp[1].weight.detach().clone()
    (table.weight.sum() + mlp[1].weight.sum()).backward()
    optimiser.step()
    np.testing.assert_allclose((before[0] - table.weight.detach()).numpy(), 1e-2, rtol=1e-3)
    np.testing.assert_allclose((before[1] - mlp[1].weight.detach()).numpy(), 1e-3, rtol=1e-3)
    assert torch.equal(table(torch.tensor([1])), table.weight[1:2])  # the table is what it says


def test_the_users_modules_may_use_the_word_for_something_else():
    class Gained(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)
            self.gain = torch.nn.Parameter(torch.full((3,), 7.0))

        def forward(self, x):
            return self.linear(x) * self.gain

    assert set(gains(Gained()).values()) == {1.0}
    x, _ = clusters(40)
    assert np.isfinite(float(rp.RPCategorical(3, network=Gained(), n_init=1, max_iter=3).fit(x).score_))


def test_the_rate_is_flat_and_then_falls_along_a_cosine():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.AdamW([{"params": [parameter], "lr": 3.0}], lr=3.0)
    scheduler = flat_then_cosine(optimiser, 100, 0.4)
    rates = []
    for _ in range(101):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    np.testing.assert_allclose(rates[:61], 3.0)
    assert (np.diff(rates[60:]) < 0).all()
    assert rates[80] == pytest.approx(0.505 * 3.0)
    assert rates[100] == pytest.approx(0.03)


def test_the_rate_that_is_told_is_the_one_that_was_given():
    x, _ = views(100, 1, 4)
    training = rp.Training(finish="none")
    model = rp.RPFA(1, network="linear", n_init=1, max_iter=10, learning_rate=2e-3, training=training).fit(x)
    assert model.history_["learning_rate"][0] == pytest.approx(2e-3)


# ---- strong while it searches ---------------------------------------------------------------


def a_run(strong, max_iter=20, seed=0, **settings):
    x, _ = clusters(60, 3)
    observations = rp.read(x)
    recognition = rp.Recognition(dropout=0.1, input_dropout=0.15)
    model, _ = rp.RPCategorical(3, network="mlp", recognition=recognition, random_state=seed).build(observations)
    model.prepare(observations)
    training = TrainingSettings(max_iter=max_iter, weight_decay=0.02, strong=strong, finish=NoFinish(), **settings)
    return Run.start(model, divide(observations, 0.0, 0), training, seed), observations


def strengths(run):
    """(dropout, input dropout, decay) as they are now."""
    factors = [each for each in run.model.modules() if isinstance(each, RecognitionFactor)]
    inputs = {each.input_dropout for each in factors}
    hidden = {each for each in run.model.modules() if isinstance(each, Dropout)} - inputs
    decays = {group["weight_decay"] for group in run.optimiser.param_groups if group["decays"]}
    (found,) = {(h.p, i.p, d) for h in hidden for i in inputs for d in decays}
    return found


def test_regularisation_is_strong_for_a_share_of_the_steps():
    run, observations = a_run(Strong(dropout=2.5, input_dropout=3.0, weight_decay=10.0, share=0.6))
    seen = {}
    run.advance(observations, 20, [lambda state: seen.update({state.step: strengths(run)})])
    for step in range(1, 13):  # as the step that ended had it
        assert seen[step] == pytest.approx((0.25, 0.45, 0.2))
    for step in range(13, 21):
        assert seen[step] == pytest.approx((0.1, 0.15, 0.02))
    assert strengths(run) == pytest.approx((0.1, 0.15, 0.02))


def test_without_it_nothing_changes():
    run, observations = a_run(None)
    run.advance(observations, 3)
    assert strengths(run) == pytest.approx((0.1, 0.15, 0.02))


@pytest.mark.parametrize(("usual", "strong"), [(0.3, 0.5), (0.7, 0.7)])
def test_dropout_is_at_most_a_half_and_never_weakened(usual, strong):
    x, _ = clusters(60, 3)
    observations = rp.read(x)
    model, _ = rp.RPCategorical(3, recognition=rp.Recognition(dropout=usual)).build(observations)
    model.prepare(observations)
    run = Run.start(model, divide(observations, 0.0, 0), TrainingSettings(max_iter=20, strong=Strong()), 0)
    run.advance(observations, 2)
    assert strengths(run)[0] == strong


@pytest.mark.parametrize("pause", [5, 12, 15])
def test_a_run_that_goes_on_later_is_the_same(pause):
    """Before, at and after the step at which it relaxes; from a file as well."""
    whole, observations = a_run(Strong(share=0.6))
    whole.advance(observations, 20)
    paused, _ = a_run(Strong(share=0.6))
    paused.advance(observations, pause)
    restored, _ = a_run(Strong(share=0.6))
    restored.restore(copy.deepcopy(paused.state()))  # tensors of a file are no one else's
    for run in (paused, restored):
        run.advance(observations, 20)
        np.testing.assert_array_equal(run.history.table()["free_energy"], whole.history.table()["free_energy"])
        assert strengths(run) == strengths(whole)


def test_a_rescue_does_not_bring_the_strong_decay_back():
    """The good state is of step 25, when it was strong; the rescue is at step 40, when it is not any more."""
    run, observations = a_run(Strong(share=0.5), max_iter=60)

    def poison(state):
        if state.step == 40:
            with torch.no_grad():
                next(run.model.recognition.parameters()).fill_(torch.nan)

    with pytest.warns(RPModelsWarning, match="went back to step 25"):
        run.advance(observations, 60, [poison])
    assert strengths(run) == pytest.approx((0.1, 0.15, 0.02))


def test_the_users_optimiser_goes_with_it():
    """Its groups are its own business: dropout is stronger all the same."""
    run, observations = a_run(Strong(), optimiser=lambda parameters: torch.optim.SGD(parameters, lr=1e-3))
    run.advance(observations, 2)
    assert max(each.p for each in run.model.modules() if isinstance(each, Dropout)) == pytest.approx(0.45)
    assert run.optimiser.param_groups[0]["weight_decay"] == 0
