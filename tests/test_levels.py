"""How sure factors are under a penalty: slopes and constants that held-out observations choose."""

import copy

import numpy as np
import pytest
import torch

import rpmodels as rp
from data import clusters, views
from rpmodels.learning import RPMObjective
from rpmodels.learning import folds as choosing
from rpmodels.learning.climbing import Penalty, climb
from rpmodels.learning.folds import Choice, chosen
from rpmodels.learning.levels import Fold, Levels, fitted_levels

DOUBLE = rp.Engine(dtype="float64")
PRECISIONS = {"a": 24.0, "b": 16.0, "c": 16.0}


def made(estimator, x):
    observations = estimator.read(x) if hasattr(estimator, "model_") else rp.read(x)
    model, _ = estimator.build(observations)
    model.prepare(observations)
    return RPMObjective(model, observations).eval(), observations


def everything(objective, observations):
    return observations.batch(np.arange(len(observations)), objective.model.dtype, objective.model.device)


def raw(objective, observations, name):
    recogniser = dict(objective.model.recognisers())[name]
    rows = torch.as_tensor(observations.values[name][:, 0], dtype=objective.model.dtype)
    with torch.no_grad():
        return recogniser.network(recogniser.scaling(rows, objective.model.dtype))


GAUSSIANS = {
    "diagonal": ({"covariance": "diagonal"}, [2, 3]),
    "full": ({"covariance": "full"}, [2, 4]),
    "constant precision": ({"covariance": "diagonal", "precision": "constant"}, [2, 3]),
}


@pytest.mark.parametrize("kind", GAUSSIANS)
def test_slopes_are_for_means_and_constants_for_precisions(kind):
    """Two latents: raw numbers 0 and 1 are means; numbers off the diagonal of a precision have no level."""
    options, precisions = GAUSSIANS[kind]
    x, _ = views(30, 2, 3)
    estimator = rp.RPFA(2, network="linear", recognition=rp.Recognition(**options), engine=DOUBLE, random_state=0)
    objective, observations = made(estimator, x)
    names = list(observations.values)
    before = [raw(objective, observations, name) for name in names]
    slopes = torch.linspace(0.3, -0.2, len(names), dtype=torch.float64)
    constants = torch.linspace(1.0, -2.0, len(names), dtype=torch.float64)
    Levels(slopes, constants).bring(objective.model)
    for name, old, slope, constant in zip(names, before, slopes, constants, strict=True):
        expected = old.clone()
        expected[:, :2] *= slope.exp()
        expected[:, precisions] += constant
        torch.testing.assert_close(raw(objective, observations, name), expected)


def test_states_have_slopes_alone():
    x, _ = clusters(40, 3)
    objective, observations = made(rp.RPCategorical(3, network="linear", engine=DOUBLE, random_state=0), x)
    name = next(iter(observations.values))
    before, levels = raw(objective, observations, name), Levels.neutral(objective.model)
    Levels(levels.slopes + 0.5, levels.constants + 7.0).bring(objective.model)
    torch.testing.assert_close(raw(objective, observations, name), before * np.exp(0.5))


def three_views(n, seed, width):
    """x_j = c_j z + noise of unit variance with |c_j|² the precision that view j adds."""
    random = np.random.default_rng(seed)
    z, x = random.standard_normal((n, 1)), {}
    for name, precision in PRECISIONS.items():
        direction = random.standard_normal((1, width))
        x[name] = z @ (np.sqrt(precision) * direction / np.linalg.norm(direction)) + random.standard_normal((n, width))
    return x


def linear(**options):
    return rp.RPFA(1, network="linear", n_init=1, max_iter=60, engine=DOUBLE, random_state=0, **options)


def test_held_out_observations_undo_what_was_made_too_short():
    """A model at its maximum, made three times too timid: the levels that are found are those that were taken away."""
    x = three_views(300, 0, 2)
    model = linear().fit(x)
    objective, observations = made(linear(), x)
    objective.model.load_state_dict(model.model_.pattern.state_dict())
    batch = everything(objective, observations)
    parts = torch.arange(300).chunk(3)
    folds = [Fold(copy.deepcopy(objective), part) for part in parts]
    start = Levels.neutral(objective.model)
    same, reached = fitted_levels(folds, batch, start)
    assert float(same.slopes.abs().max()) < 0.05
    wrong = Levels(start.slopes - np.log(3.0), start.constants - 8.0)
    for fold in folds:
        wrong.bring(fold.objective.model)
    levels, again = fitted_levels(folds, batch, start)
    assert again == pytest.approx(reached, abs=1e-3)
    torch.testing.assert_close(levels.slopes, same.slopes + np.log(3.0), atol=0.05, rtol=0.0)
    torch.testing.assert_close(levels.constants, same.constants + 8.0, atol=0.5, rtol=0.0)


def test_only_what_a_fold_has_not_seen_is_counted():
    x = three_views(40, 1, 2)
    objective, observations = made(linear(), x)
    climb(objective, observations, Penalty(1.0), 1)
    batch, start = everything(objective, observations), Levels.neutral(objective.model)
    before = [each.clone() for each in objective.parameters()]
    rows = torch.arange(3, 30)
    levels, reached = fitted_levels([Fold(objective, rows)], batch, start)
    assert all(torch.equal(one, other) for one, other in zip(before, objective.parameters(), strict=True))
    levels.bring(objective.model)
    assert reached == pytest.approx(float(objective.evaluate(batch).energy.total[rows].mean().detach()))


def test_levels_that_gain_no_more_than_noise_are_neutral():
    """At the maximum itself no other levels are better by more than rounding."""
    x = three_views(300, 0, 2)
    objective, observations = made(linear(), x)
    climb(objective, observations, Penalty(0.0), 5)
    batch, start = everything(objective, observations), Levels.neutral(objective.model)
    levels, reached = fitted_levels([Fold(objective, torch.arange(300))], batch, start)
    assert not levels.slopes.any()
    assert not levels.constants.any()
    assert reached == pytest.approx(float(objective.evaluate(batch).energy.total.mean().detach()))


def precision_errors(model, x):
    """Log precision that each factor adds, beside the true one."""
    found = {name: np.mean(1.0 / model.recognise(x[name], name)[1][:, 0, 0] - 1.0) for name in PRECISIONS}
    return np.log([found[name] / PRECISIONS[name] for name in PRECISIONS])


def test_precisions_are_not_shrunk_with_the_weights():
    """50 rows of five channels: under the penalty alone precisions are a third of what they are."""
    rows = three_views(550, 3, 5)
    x, new = ({name: each[part] for name, each in rows.items()} for part in (slice(50), slice(50, None)))
    model = linear().fit(x)
    strength = float(model.stop_reason_.rsplit("penalised by ", 1)[1].rstrip(")"))
    assert strength > 0
    objective, observations = made(linear(), x)
    objective.model.load_state_dict(model.model_.pattern.state_dict())
    climb(objective, observations, Penalty(strength), 5)
    alone = copy.deepcopy(model)
    alone.model_ = objective.fitted(observations)
    assert np.mean(precision_errors(alone, x)) < -1.0
    assert np.mean(precision_errors(model, x)) > -0.6
    assert float(model.score(new)) > float(alone.score(new))


def test_weights_come_back_from_a_penalty_that_made_them_zero(monkeypatch):
    x = three_views(40, 4, 3)
    objective, observations = made(linear(), x)
    climb(objective, observations, Penalty(1.0), 2)
    monkeypatch.setattr(choosing, "STRENGTHS", (1e6, 1.0))
    choice = chosen(objective, observations)
    assert choice.strength == 1.0


def test_too_few_observations_choose_nothing():
    objective, observations = made(linear(), three_views(9, 5, 3))
    assert chosen(objective, observations) is None


def test_what_is_learnt_of_the_prior_follows_the_levels():
    x, _ = clusters(60, 3, distance=2.0)
    objective, observations = made(
        rp.RPCategorical(3, prior="learned", network="linear", engine=DOUBLE, random_state=0), x
    )
    neutral = Levels.neutral(objective.model)
    choice = Choice(1.0, Levels(neutral.slopes - 1.0, neutral.constants))
    batch = everything(objective, observations)
    with torch.no_grad():
        before = float(objective(batch)["free_energy"])
    climbed = choice.climbed(objective, observations, 5)
    assert all(each.requires_grad for each in objective.model.recognition.parameters())
    with torch.no_grad():
        assert float(objective(batch)["free_energy"]) - before == pytest.approx(climbed.gained, abs=1e-9)
    with objective.model.prior.by_gradient():
        logits = [each for name, each in objective.named_parameters() if name.endswith("logits")]
        objective(batch)["free_energy"].backward()
        assert logits
        assert all(float(each.grad.abs().max()) < 1e-3 for each in logits)
