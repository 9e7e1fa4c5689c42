"""Kinds of latents: what is free in them is undone, and nothing else; their names in files; estimators by name."""

import numpy as np
import pandas as pd
import pytest

import rpmodels as rp
from registry import ESTIMATORS
from rpmodels.alignment import align_angles, equal_angles
from rpmodels.errors import BuildError
from rpmodels.estimators import (
    Circle,
    Coordinates,
    Description,
    Latents,
    Proportions,
    States,
    default_for,
    estimator_named,
    registered,
)
from rpmodels.evaluation import align_states, compare_baselines
from rpmodels.evaluation.clusterings import Clusters, Shares, WordsAndTopics
from rpmodels.metrics import wrapped


def of_states(probabilities):
    """Latents from probabilities, an array or a list."""
    listed = isinstance(probabilities, list)
    states = [each.argmax(-1) for each in probabilities] if listed else probabilities.argmax(-1)
    return Latents(probabilities, probabilities=probabilities, states=states)


@pytest.fixture
def trials():
    """Probabilities of four states in trials of unequal length."""
    random = np.random.default_rng(0)
    return [random.dirichlet(np.full(4, 0.3), n) for n in (6, 9, 4)]


def test_states_along_time_are_put_in_order_over_all_trials(trials):
    order = np.array([2, 0, 3, 1])
    mixed = [each[:, order] for each in trials]
    for found in (States().align(of_states(mixed), of_states(trials)), align_states(mixed, trials)):
        for one, other in zip(found, trials, strict=True):
            np.testing.assert_array_equal(one, other)
    assert States().agreement(of_states(mixed), of_states(trials)) == 1.0


def test_the_order_is_one_for_all_trials_and_agreement_the_share_of_equal_states():
    random = np.random.default_rng(1)
    truth = [random.integers(3, size=n) for n in (40, 30)]
    wrong = [each.copy() for each in truth]
    wrong[0][:7] = (wrong[0][:7] + 1) % 3
    permuted = [(each + 1) % 3 for each in wrong]
    one, other = (of_states([np.eye(3)[each] for each in states]) for states in (permuted, truth))
    assert States().agreement(one, other) == pytest.approx(63 / 70)


def test_topics_are_ordered_by_parts_and_proportions_follow():
    """Proportions that are all alike say nothing of the order; the topics of the parts do."""
    parts = np.eye(3)[np.tile([0, 1, 2], (5, 2))]
    order = np.array([1, 2, 0])
    flat = np.full((5, 3), 1 / 3) + np.array([0.0, 1e-3, -1e-3])
    one = Latents(flat[:, order], probabilities=parts[..., order], states=parts[..., order].argmax(-1))
    other = Latents(flat, probabilities=parts, states=parts.argmax(-1))
    np.testing.assert_array_equal(Proportions().align(one, other), flat)
    assert Proportions().agreement(one, other) == 1.0


def test_coordinates_are_rotated_and_compared_by_r_squared():
    random = np.random.default_rng(0)
    latents = random.standard_normal((50, 2))
    rotation = np.linalg.qr(random.standard_normal((2, 2)))[0]
    one, other = Latents(latents @ rotation), Latents(latents)
    np.testing.assert_allclose(Coordinates().align(one, other), latents, atol=1e-12)
    assert Coordinates().agreement(one, other) == pytest.approx(1.0)
    noise = Latents(random.standard_normal((50, 2)))
    expected = 1 - rp.metrics.nmse(noise.values, latents)
    assert Coordinates().agreement(noise, other) == pytest.approx(expected)


@pytest.mark.parametrize("direction", [1, -1])
def test_angles_are_turned_and_run_backwards(direction):
    random = np.random.default_rng(0)
    angles = [random.uniform(-np.pi, np.pi, (n, 2)) for n in (20, 30)]
    turned = [wrapped(direction * each + [0.7, -2.0]) for each in angles]
    for one, other in zip(Circle().align(Latents(turned), Latents(angles)), angles, strict=True):
        np.testing.assert_allclose(np.exp(1j * one), np.exp(1j * other), atol=1e-12)
        assert (np.abs(one) <= np.pi).all()
    assert Circle().agreement(Latents(turned), Latents(angles)) == pytest.approx(1.0)


def test_the_turn_of_angles_is_the_best_there_is():
    """Against a search over all turns, forwards and backwards."""
    random = np.random.default_rng(2)
    reference = random.uniform(-np.pi, np.pi, (60, 1))
    found = wrapped(0.4 - reference + 0.8 * random.standard_normal((60, 1)))
    turns = np.linspace(-np.pi, np.pi, 20_001)
    best = max(np.cos(reference - sign * found - turns).mean(0).max() for sign in (1, -1))
    assert equal_angles(found, reference) == pytest.approx(best, abs=1e-6)
    assert np.cos(reference - align_angles(found, reference)).mean() == pytest.approx(best, abs=1e-6)
    chance = equal_angles(random.uniform(-np.pi, np.pi, (5_000, 1)), random.uniform(-np.pi, np.pi, (5_000, 1)))
    assert chance < 0.05


def test_angles_are_points_on_a_circle_for_regressions():
    near = Latents(np.array([[np.pi - 0.01], [-np.pi + 0.01]]))
    one, other = Circle().points(near)
    assert np.linalg.norm(one - other) == pytest.approx(2 * np.sin(0.01))
    listed = Circle().points(Latents([near.values, near.values]))
    np.testing.assert_array_equal(listed[1], Circle().points(near))


def test_files_call_latents_by_their_names():
    rows = np.arange(6.0).reshape(3, 2)
    cases = {
        Coordinates(): (Latents(rows, spread=rows + 10), "mean variance", "latent0 latent1 variance0 variance1"),
        States(): (of_states(rows), "probabilities states", "state p0 p1"),
        Proportions(): (
            Latents(rows, probabilities=np.stack([rows] * 4, 1), states=np.zeros((3, 4), int)),
            "proportions probabilities topics", "topic0 topic1",
        ),
        Circle(): (Latents(rows, resultant=rows + 10), "angle resultant", "angle0 angle1 resultant0 resultant1"),
    }  # fmt: skip
    for kind, (found, arrays, columns) in cases.items():
        assert " ".join(kind.arrays(found)) == arrays
        table = kind.columns(kind.arrays(found))
        assert " ".join(table) == columns
        np.testing.assert_array_equal(table[columns.split()[-1]], next(iter(kind.arrays(found).values()))[..., -1] + (
            10 if kind in (Coordinates(), Circle()) else 0
        ))  # fmt: skip


# ---- registry ----------------------------------------------------------------------------------------


def test_estimators_are_found_by_their_names_on_the_command_line():
    assert set(ESTIMATORS) <= set(registered())
    for name, tiny in ESTIMATORS.items():
        assert estimator_named(name) is tiny.kind
    with pytest.raises(rp.RPModelsError, match="--model: expected one of categorical, circular, fa"):
        estimator_named("pca")


def test_variants_inherit_their_name_and_two_estimators_of_one_name_are_refused():
    variant = type("Variant", (rp.RPFA,), {})
    assert registered()["fa"] is rp.RPFA
    assert variant.description is rp.RPFA.description
    rival = type("Rival", (rp.RPFA,), {"description": Description("fa", Coordinates(), "n_latents")})
    with pytest.raises(BuildError, match="RPFA and Rival are both called 'fa'"):
        registered()
    rival.description = Description("rival", Coordinates(), "n_latents")
    assert registered()["rival"] is rival
    del rival.description  # what is left of it is a variant
    assert "rival" not in registered()


def test_the_default_estimator_goes_with_the_data():
    trials, table = np.zeros((4, 5, 2)), np.zeros((8, 2))
    for series in (trials, list(trials), {"a": trials}, {"a": list(trials)}):
        assert isinstance(default_for(series), rp.RPGPFA)
    for rows in (table, {"a": table, "b": table}, pd.DataFrame(table)):
        assert isinstance(default_for(rows), rp.RPFA)
    frame = pd.concat({n: pd.DataFrame(each) for n, each in enumerate(trials)}, names=["trial", "time"])
    assert isinstance(default_for(frame), rp.RPGPFA)
    assert isinstance(default_for({"a": frame}), rp.RPGPFA)


# ---- what states and topics are compared with ----------------------------------------------------------


def separate(seed, n_trials=12, n_parts=20):
    """Parts of three well-separated kinds, one mixture per trial."""
    random = np.random.default_rng(seed)
    z = [random.choice(3, n_parts, p=random.dirichlet(np.full(3, 0.5))) for _ in range(n_trials)]
    return [8.0 * np.eye(3)[each] + 0.1 * random.standard_normal((n_parts, 3)) for each in z], z


@pytest.mark.parametrize("method", [Clusters("k-means"), Shares(), WordsAndTopics()], ids=lambda each: each.name)
def test_rivals_find_kinds_that_are_far_apart(method):
    trials, z = separate(0, 100)
    found = method.latents(trials[:60], trials, 3, 0)
    matching = rp.metrics.match_states(np.concatenate(z), np.concatenate(found.states), 3)
    right = [matching[states] == each for states, each in zip(found.states, z, strict=True)]
    assert np.mean(right) > (0.9 if isinstance(method, WordsAndTopics) else 0.999)
    if not isinstance(method, Clusters):
        shares = np.concatenate(found.values)[:, np.argsort(matching)]
        truth = np.stack([np.bincount(each, minlength=3) / 20 for each in z])
        assert np.abs(shares - truth).mean() < (0.15 if isinstance(method, WordsAndTopics) else 1e-9)


def test_labels_of_states_along_time_and_of_parts_give_accuracies():
    trials, z = separate(1, 24)
    for name in ("hmm", "lda"):
        model = ESTIMATORS[name].make(size=3)
        found = compare_baselines(trials, z, estimator=model, cv=2)
        assert {measure for each in found.values.values() for measure in each} == {"accuracy"}
        assert found.values["k-means"]["accuracy"].min() > 0.99
    # One label for a trial: of the mixtures it is decoded.
    kinds = np.array(["few", "many"])[np.arange(24) % 4 // 2]
    found = compare_baselines(trials, kinds, estimator=model, cv=2)
    assert {measure for each in found.values.values() for measure in each} == {"ridge", "knn"}
