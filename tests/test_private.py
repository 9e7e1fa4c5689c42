"""Shared and private latents by counts: the same model as with targets written out, and what they are for."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import rpmodels as rp
from registry import made
from rpmodels.errors import InputError
from rpmodels.learning.own_latents import mixed_scales, rotation

BRIEF = {"max_iter": 8, "n_init": 1, "random_state": 0}
KINDS = [rp.RPFA, rp.RPGPFA, rp.RPLDS]


def both(seed=0, trials=24, times=15, units=10):
    """Spikes of one latent that position has too and of two stronger ones of their own; and the latents."""
    random, t = np.random.default_rng(seed), np.arange(times)
    smooth = np.linalg.cholesky(np.exp(-0.5 * ((t[:, None] - t) / 4) ** 2) + 1e-6 * np.eye(times))
    z = np.einsum("ts,nsk->ntk", smooth, random.standard_normal((trials, times, 3)))
    loadings = random.standard_normal((3, units)) * np.array([0.35, 1.0, 1.0])[:, None]
    spikes = random.poisson(np.exp(z @ loadings - 0.3).clip(max=30))
    position = z[..., :1] @ np.array([[1.0, -1.5]]) + 0.5 * random.standard_normal((trials, times, 2))
    return {"spikes": spikes, "position": position}, z


def data(kind):
    x, _ = both()
    return {name: each.reshape(-1, each.shape[-1]) for name, each in x.items()} if kind is rp.RPFA else x


def explained(latents, truth):
    rows = latents.reshape(-1, latents.shape[-1])
    rows = np.column_stack([rows, np.ones(len(rows))])
    left = truth.ravel() - rows @ np.linalg.lstsq(rows, truth.ravel(), rcond=None)[0]
    return 1 - left.var() / truth.var()


# ---- the same as targets ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_counts_are_targets_written_out(kind):
    X, channels = data(kind), {"spikes": "separate"}
    counted = made(kind, 1, private={"spikes": 2}, channels=channels, **BRIEF).fit(X)
    written = made(kind, 3, targets={"spikes": (0, 1, 2), "position": (0,)}, channels=channels, **BRIEF).fit(X)
    assert float(counted.score_) == float(written.score_)
    np.testing.assert_array_equal(counted.transform(X), written.transform(X))
    for model in (counted, written):
        assert model.shared_.tolist() == [0]
        assert {name: each.tolist() for name, each in model.private_.items()} == {"spikes": [1, 2]}
    kind_name = kind.__name__.lower()
    assert list(counted.get_feature_names_out()) == [f"{kind_name}0", f"{kind_name}_spikes0", f"{kind_name}_spikes1"]
    # What position says is of the shared latent alone; only dynamics carry it on to others.
    assert counted.recognise(X["position"], "position")[0].shape[-1] == 1
    if kind is not rp.RPLDS:
        from_position = counted.transform({"position": X["position"]})
        assert np.abs(from_position[..., 1:]).max() < 1e-5 < np.abs(from_position[..., 0]).max()


def test_private_latents_of_several_factors_stand_in_their_order():
    X, _ = both()
    model = made(rp.RPGPFA, 2, private={"position": 1, "spikes": 2}, **BRIEF).fit(X)
    assert model.model_.pattern.targets == {"spikes": (0, 1, 3, 4), "position": (0, 1, 2)}
    assert model.transform(X).shape[-1] == 5
    assert model.tuning().directions.shape == (10, 4)
    assert model.shared_.tolist() == [0, 1]
    assert {name: each.tolist() for name, each in model.private_.items()} == {"spikes": [3, 4], "position": [2]}


def test_without_any_all_latents_are_shared():
    model = made(rp.RPGPFA, 2, **BRIEF).fit(both()[0])
    assert (model.shared_.tolist(), dict(model.private_)) == ([0, 1], {})
    alone = made(rp.RPGPFA, 2, **BRIEF).fit(both()[0]["spikes"])
    assert (alone.shared_.tolist(), dict(alone.private_)) == ([0, 1], {})


# ---- arguments and files --------------------------------------------------------------------------


def test_they_are_an_argument_like_others(tmp_path: Path):
    X, _ = both()
    model = rp.RPGPFA(1, **BRIEF).set_params(recognition__private={"spikes": 2})
    assert clone(model).get_params()["recognition__private"] == {"spikes": 2}
    model.fit(X).save(tmp_path / "model.safetensors")
    again = rp.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert again.recognition.private == {"spikes": 2}
    assert again.private_["spikes"].tolist() == [1, 2]
    other = clone(again).set_params(recognition__private=None).fit(X)
    assert other.transform(X).shape[-1] == 1


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (
            rp.RPGPFA,
            {"private": {"spikes": 0}},
            "recognition.private: expected None or a dict {factor: an int",
        ),
        (rp.RPGPFA, {"private": {"spike": 1}}, "Unknown factor 'spike'"),
        (rp.RPGPFA, {"private": {"spikes": 1}, "targets": {"position": (0,)}}, "beside recognition.targets"),
        (rp.RPFA, {"private": {"position": 1}}, "channels={'position': 'separate'}"),
        (rp.RPHMM, {"private": {"spikes": 1}}, "recognition.private is not for RPHMM: its latents are states"),
        (rp.RPCircular, {"private": {"spikes": 1}}, "recognition.private is not for RPCircular: its latent is one"),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else "",
)
def test_what_cannot_be_private_is_said(kind, options, said):
    with pytest.raises(InputError, match=said):
        made(kind, **options, **BRIEF).fit(data(kind if kind is not rp.RPCircular else rp.RPFA))


def test_the_only_factor_shares_with_nobody():
    with pytest.raises(InputError, match="expected two factors or more"):
        made(rp.RPGPFA, 1, private={"x": 1}, **BRIEF).fit(both()[0]["spikes"])


# ---- what they are for ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [rp.RPGPFA, rp.RPLDS], ids=lambda kind: kind.__name__)
def test_what_is_private_no_longer_takes_the_shared_latent(kind):
    X, z = both(seed=1, trials=40, times=20, units=14)
    options = {"max_iter": 60, "n_init": 1, "random_state": 0}
    taken = made(kind, 1, **options).fit(X)
    assert explained(taken.transform(X), z[..., 0]) < 0.2
    model = made(kind, 1, private={"spikes": 2}, **options).fit(X)
    found = model.transform(X)
    assert explained(found[..., model.shared_], z[..., 0]) > 0.9
    for k in (1, 2):
        assert explained(found[..., model.private_["spikes"]], z[..., k]) > 0.8
    # The shared latent is told from spikes alone, by the same coordinate.
    assert explained(model.transform({"spikes": X["spikes"]})[..., model.shared_], z[..., 0]) > 0.6


# ---- where they begin -----------------------------------------------------------------------------


def test_a_linear_model_is_turned_to_where_factors_look():
    """Latents in any rotation: afterwards the place of each factor's own has what no other factor shows."""
    random = np.random.default_rng(0)
    true = random.standard_normal((2000, 4))  # shared, shared, of a, of b
    seen = {"a": [0, 1, 2], "b": [0, 1, 3]}
    tables = {
        name: true[:, each] @ random.standard_normal((3, 6)) + 0.1 * random.standard_normal((2000, 6))
        for name, each in seen.items()
    }
    mixed = true @ np.linalg.qr(random.standard_normal((4, 4)))[0]
    turned = rotation(mixed, tables, {"a": [2], "b": [3]})
    np.testing.assert_allclose(turned @ turned.T, np.eye(4), atol=1e-10)
    found = mixed @ turned
    for k in (2, 3):
        assert abs(np.corrcoef(found[:, k], true[:, k])[0, 1]) > 0.99
    for k in (0, 1):
        assert explained(found[:, :2], true[:, k]) > 0.99
    assert rotation(mixed, tables, {}) is None  # nobody has any
    assert rotation(mixed, {"a": tables["a"]}, {"a": [2]}) is None  # nobody to compare with


def test_time_scales_follow_their_latents():
    exchanged = np.eye(3)[:, [2, 0, 1]]
    np.testing.assert_allclose(mixed_scales(np.array([1.0, 2.0, 8.0]), exchanged), [8.0, 1.0, 2.0])
    half = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    np.testing.assert_allclose(mixed_scales(np.array([1.0, 4.0]), half), [2.0, 2.0])
