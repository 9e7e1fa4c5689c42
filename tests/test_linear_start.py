"""Networks begin at the best linear model, and held-out observations say how far they go on from there."""

import copy

import numpy as np
import pytest
import torch

import rpmodels as rp
from rpmodels.errors import NumericalError
from rpmodels.fitted import FittedRPM
from rpmodels.learning import GivenStart, NoFinish, Objective, QuasiNewton, RPMObjective, SmoothStart, TrainingSettings
from rpmodels.learning.batches import Divided, divide
from rpmodels.learning.held_out import HeldOut
from rpmodels.learning.linear_start import LinearStart
from rpmodels.observations import read
from rpmodels.recognition import MLP, ConstantPrecision, Linear, LookupTable, WithLinear
from rpmodels.seeding import seeded

pytestmark = pytest.mark.filterwarnings("ignore::rpmodels.errors.RPModelsWarning")


def smooth(n, seed=0, bins=20, channels=4):
    """One smooth latent, linear in all channels."""
    random = np.random.default_rng(seed)
    t = np.arange(bins)
    root = np.linalg.cholesky(np.exp(-0.5 * np.square((t[:, None] - t) / 3.0)) + 1e-8 * np.eye(bins))
    z = random.standard_normal((n, bins)) @ root.T
    loadings = np.random.default_rng(99).standard_normal(channels)
    loadings *= 2.0 / np.linalg.norm(loadings)
    return z[..., None] * loadings + random.standard_normal((n, bins, channels))


def prepared(x, constant=False):
    observations = read({"x": x}, series=True)
    precision = rp.Recognition(precision="constant" if constant else "network")
    model, _ = rp.RPGPFA(1, network="mlp", recognition=precision, random_state=0).build(observations)
    model.prepare(observations)
    return model, observations


def weights_of(model):
    return {name: each.clone() for name, each in model.state_dict().items()}


def test_a_network_beside_a_linear_map_is_their_sum():
    with seeded(0):
        both = WithLinear(MLP((3,), 2, (5,)), Linear((3,), 2))
    x = torch.randn(7, 3)
    torch.testing.assert_close(both(x), both.network(x) + both.linear(x))
    both.straighten()
    torch.testing.assert_close(both(x), both.linear(x))
    both(x).square().sum().backward()
    assert max(float(each.grad.abs().max()) for each in both.network.parameters()) > 0  # it can learn to be more


@pytest.mark.parametrize("constant", [False, True])
def test_the_start_is_the_maximum_of_the_linear_model(constant):
    model, observations = prepared(smooth(30), constant)
    LinearStart(SmoothStart(400), TrainingSettings())(model, observations, 3)
    batch = observations.batch(np.arange(30), model.dtype, model.device)

    def score(other):
        return float(RPMObjective(other, observations).eval()(batch)["free_energy"].detach())

    linear = copy.deepcopy(model)
    for _, factor in linear.recognisers():
        if constant:
            assert isinstance(factor.network, ConstantPrecision)
            factor.network.network = factor.network.network.linear
        else:
            factor.network = factor.network.linear
    before = score(linear)
    assert score(model) == pytest.approx(before, rel=1e-5)
    climbed = QuasiNewton()(RPMObjective(linear, observations), observations)
    assert climbed.gained < 2e-4 * before


def test_where_a_lesson_was_worth_nothing_the_start_is_the_other_one():
    model, observations = prepared(np.random.default_rng(0).standard_normal((30, 20, 4)))
    alone = copy.deepcopy(model)
    LinearStart(SmoothStart(400), TrainingSettings(), enough=100.0)(model, observations, 3)
    with seeded(3):
        rp.recognition.reinitialise(alone.recognition)
    SmoothStart(400)(alone, observations, 3)
    found, expected = weights_of(model), weights_of(alone)
    assert set(found) == set(expected)
    for name, each in expected.items():
        torch.testing.assert_close(found[name], each)


def test_where_the_start_is_best_all_observations_have_their_say():
    model, observations = prepared(smooth(30))
    start = LinearStart(SmoothStart(400), TrainingSettings())
    start(model, observations.subset(np.arange(20)), 3)
    before = weights_of(model)
    start.settle(model, observations)
    after = weights_of(model)
    assert any(not torch.equal(after[name], before[name]) for name in before if "linear" in name)
    assert all(torch.equal(after[name], before[name]) for name in before if "network.network" in name)
    with torch.no_grad():
        model.recognition[0].network.network[-1].bias.add_(1.0)
    bent = weights_of(model)
    start.settle(model, observations)  # steps have gone on from there: nothing to settle
    assert all(torch.equal(each, bent[name]) for name, each in model.state_dict().items())


def test_latents_of_the_users_own_may_be_held_out_too():
    x = smooth(30)
    model = rp.RPGPFA(1, network="mlp", random_state=0, max_iter=20, search=rp.Search(start=x[..., :1])).fit(x)
    assert model.validation_curve_
    assert "given latents" in [each.kind for each in model.restarts_]


def test_where_numbers_fail_the_start_is_the_other_one():
    model, observations = prepared(smooth(30))
    alone = copy.deepcopy(model)

    class Failing(NoFinish):
        def __call__(self, objective, observations, rivals=()):
            raise NumericalError("no positive precision")

    LinearStart(SmoothStart(400), TrainingSettings(finish=Failing()))(model, observations, 3)
    with seeded(3):
        rp.recognition.reinitialise(alone.recognition)
    SmoothStart(400)(alone, observations, 3)
    for name, each in weights_of(alone).items():
        torch.testing.assert_close(model.state_dict()[name], each)


def test_what_is_taught_is_found_once():
    class Counted(SmoothStart):
        found = 0

        def find(self, *given):
            self.found += 1
            return super().find(*given)

    model, observations = prepared(np.random.default_rng(0).standard_normal((30, 20, 4)))
    start = Counted(8)
    LinearStart(start, TrainingSettings(max_iter=8), enough=np.inf)(model, observations, 3)  # taught twice
    assert start.found == 1


def test_networks_without_a_linear_map_are_left_to_the_other_start():
    observations = read({"a": np.arange(40) % 3, "b": np.arange(40) % 3})
    networks = {name: LookupTable(3, 3) for name in ("a", "b")}
    model = rp.RPM(rp.priors.CategoricalPrior.uniform(3), networks)
    model.prepare(observations)
    alone, start = copy.deepcopy(model), GivenStart(np.arange(len(observations))[:, None] % 3)
    LinearStart(start, TrainingSettings())(model, observations, 3)
    start(alone, observations, 3)
    for name, each in weights_of(alone).items():
        torch.testing.assert_close(model.state_dict()[name], each)


def test_an_mlp_finds_what_is_linear_and_a_longer_fit_finds_no_more():
    x = smooth(240, seed=5)
    training, new = x[:40], x[40:]
    linear = rp.RPGPFA(1, network="linear", random_state=0).fit(training)
    curved = rp.RPGPFA(1, network="mlp", random_state=0).fit(training)
    assert curved.score(new) > 0.97 * linear.score(new)
    assert "held-out score" in curved.stop_reason_
    assert curved.converged_
    longer = rp.RPGPFA(1, network="mlp", random_state=0, max_iter=1000).fit(training)
    assert float(longer.score_) == pytest.approx(float(curved.score_), rel=0.01)
    without = rp.RPGPFA(1, network="mlp", random_state=0, training=rp.Training(validation_fraction=0.0)).fit(training)
    assert without.score(new) < curved.score(new)  # what it had learnt by heart


def test_starts_are_compared_by_held_out_observations():
    model = rp.RPGPFA(1, network="mlp", random_state=0, max_iter=120).fit(smooth(40))
    best = max(model.restarts_, key=lambda each: each.free_energies[-1])
    values = [row["validation"] for row in model.validation_curve_]
    assert best.free_energies[-1] in [pytest.approx(value) for value in values]


@pytest.mark.parametrize(
    ("settings", "n"),
    [
        ({"network": "linear"}, 40),
        ({"network": "mlp"}, 15),
        ({"network": "mlp", "training": rp.Training(tol=1e-3)}, 40),
        ({"network": "mlp", "training": rp.Training(validation_fraction=0.0)}, 40),
    ],
    ids=["linear", "few trials", "tolerance", "asked not to"],
)
def test_where_nothing_is_held_out(settings, n):
    model = rp.RPGPFA(1, random_state=0, max_iter=10, n_init=1, **settings).fit(smooth(n))
    assert model.validation_curve_ == []


def test_less_than_its_error_is_no_better():
    class Scripted(Objective):
        def __init__(self, values):
            super().__init__()
            self.values = iter(values)

        def forward(self, batch):
            raise NotImplementedError

        after_step = fitted = forward

        def state_dict(self):
            return {"seen": torch.zeros(())}

        def scored(self, observations, parts, atoms):
            now = np.asarray(next(self.values), float)
            return [now, now]

    observations = read({"a": np.random.default_rng(0).standard_normal((8, 2)), "b": np.zeros((8, 2))})
    held_out, training = np.arange(4), np.arange(4, 8)
    data = Divided(observations, observations.subset(training), observations.subset(held_out), training)
    noisy, clear, broken = [2.0, 0.0, 1.5, 0.6], [1.3, 1.3, 1.4, 1.2], [np.nan] * 4
    watching = HeldOut(Scripted([[1.0] * 4, noisy, broken, clear]), data, 100, None)
    for step, best in enumerate([1.0, 1.0, 1.0, 1.3]):
        watching._look(step)
        assert watching.best == pytest.approx(best)


def test_held_out_observations_are_scored_as_if_alone():
    x = smooth(30)
    model, observations = prepared(x)
    data = divide(observations, 0.2, 0)
    np.testing.assert_array_equal(data.everything.subset(data.held_out).values["x"], data.validation.values["x"])
    watching = HeldOut(RPMObjective(model, data.training).eval(), data, 100, 10)
    watching._look(1)
    alone = FittedRPM.collected(model, data.training.subset(np.arange(10) * 2)).score(data.validation)
    assert watching.curve[0]["validation"] == pytest.approx(float(alone), rel=1e-5)


def test_it_can_be_saved(tmp_path):
    x = smooth(30)
    model = rp.RPGPFA(1, network="mlp", random_state=0, max_iter=20).fit(x)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(rp.load(tmp_path / "model").transform(x), model.transform(x))


def test_too_many_data_for_a_deterministic_end_walk_instead():
    model, observations = prepared(smooth(30))
    before = weights_of(model)
    LinearStart(SmoothStart(400), TrainingSettings(max_iter=20, finish=NoFinish()))(model, observations, 3)
    after = weights_of(model)
    assert any(not torch.equal(after[name], before[name]) for name in before if "linear" in name)
