"""Behaviour on a clock of its own is brought to the bins, and the result says how; groups are never divided."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.decomposition import PCA

import events_data
import rpmodels as rp
from registry import made
from rpmodels.errors import InputError
from rpmodels.evaluation.clocks import clocks_of
from rpmodels.evaluation.decoding import READINGS
from rpmodels.evaluation.folds import TrialFolds, folds_of
from rpmodels.evaluation.methods import Smoothed

BRIEF = {"max_iter": 2, "n_init": 1, "random_state": 0, "finish": "none", "retries": 0, "n_inducing": 5}


def brief(kind=rp.RPGPFA, **options):
    return made(kind, 1, **{**BRIEF, **options})


def quietly(call, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rp.RPModelsWarning)
        return call(*args, **options)


def latents_and_path(n=12, seed=1000):
    """Latents of unequal trials at 20 Hz, and what they are of at 200 Hz and at 4 Hz."""
    rng = np.random.default_rng(seed)
    found = []
    for length in rng.integers(20, 30, n):
        phase, t = rng.uniform(0, 6), 0.05 * (np.arange(length) + 0.5)
        fine, coarse = np.arange(0, 0.05 * length, 0.005), np.arange(0, 0.05 * length + 0.25, 0.25)
        path = [np.sin(1.5 * each + phase)[:, None] for each in (t, fine, coarse)]
        found.append((path[0] + 0.05 * rng.standard_normal(path[0].shape), t, path[0], path[1], fine, path[2], coarse))
    return [list(each) for each in zip(*found, strict=True)]


def test_decoders_read_behaviour_at_its_own_rate():
    z, t, same, fine, at, coarse, rare = latents_and_path()
    direct = rp.evaluation.decode(z, same)
    averaged = rp.evaluation.decode(z, fine, times=t, at=at)
    linear = rp.evaluation.decode(z, coarse, times=t, at=rare)
    assert averaged.mean == pytest.approx(direct.mean, abs=0.01)
    assert linear.mean == pytest.approx(direct.mean, abs=0.05)
    assert "behaviour averaged within bins" in repr(averaged)
    assert linear.interpolation == "interpolated linearly at bins"
    assert "behaviour" not in repr(direct)
    by_hand = [x.reshape(-1, 10, 1).mean(1) for x in (each[: 10 * len(b)] for each, b in zip(fine, t, strict=True))]
    assert averaged.held_out == pytest.approx(rp.evaluation.decode(z, by_hand).held_out, abs=1e-9)


def test_labels_at_their_own_times():
    z, t, _, fine, at, *_ = latents_and_path()
    labels = [np.where(each[:, 0] > 0, "up", "down") for each in fine]
    found = rp.evaluation.decode(z, labels, times=t, at=at)
    assert found.is_accuracy
    assert "taken at the time nearest to every bin" in repr(found)
    assert found.mean > 0.9


def test_clocks_that_are_the_same_change_nothing():
    z, t, same, *_ = latents_and_path()
    found = rp.evaluation.decode(z, same, times=t, at=t)
    assert found.interpolation == ""
    assert found.held_out == rp.evaluation.decode(z, same).held_out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"at": True}, "expected to know when the bins are"),
        ({"at": True, "times": True, "how": "spline"}, "how: expected one of auto, mean, linear, nearest"),
        ({"at": 500.0, "times": True}, "there is none near any of them"),
    ],
)
def test_bad_clocks(options, said):
    z, t, _, fine, at, *_ = latents_and_path()
    late = options["at"] if isinstance(options["at"], float) else 0.0
    given = {**options, "at": [each + late for each in at], **({"times": t} if "times" in options else {})}
    with pytest.raises(InputError, match=said):
        rp.evaluation.decode(z, fine, **given)


def test_clocks_of_factors_are_joined():
    times = {"a": [np.array([0.0, 1.0]), np.array([0.5])], "b": np.array([0.0, 2.0])}
    joined = clocks_of(times, np.array([3, 3]))
    assert [each.tolist() for each in joined] == [[0.0, 1.0, 2.0], [0.0, 0.5, 2.0]]


UNITS, EPOCHS, CLOCK, POSITION = events_data.session(n_trials=8)
SPIKES = rp.adapters.binned(UNITS, 0.05, EPOCHS)
OWN = [CLOCK[(start <= CLOCK) & (end > CLOCK)] for start, end in EPOCHS]
PATHS = [POSITION[np.searchsorted(CLOCK, own)][:, None] for own in OWN]
SINCE = [own - start for own, (start, _) in zip(OWN, EPOCHS, strict=True)]


def test_comparisons_and_choices_take_behaviour_with_its_clock():
    beside = SPIKES.beside(POSITION[:, None], CLOCK)
    options = {"estimator": brief(), "cv": 2, "methods": ["PCA"]}
    found = quietly(rp.evaluation.compare_baselines, SPIKES, PATHS, at=SINCE, **options)
    same = quietly(rp.evaluation.compare_baselines, SPIKES, beside, **options)
    for method, measures in same.values.items():
        for measure, each in measures.items():
            np.testing.assert_allclose(found.values[method][measure], each, atol=1e-9)
    assert "(y averaged within bins)" in repr(found)
    assert "averaged" not in repr(same)
    chosen = quietly(rp.evaluation.choose, brief(), "n_latents", [1], SPIKES, y=PATHS, at=SINCE, cv=2)
    known = quietly(rp.evaluation.choose, brief(), "n_latents", [1], SPIKES, y=beside, cv=2)
    assert chosen.tried[1].decoding["ridge"] == pytest.approx(known.tried[1].decoding["ridge"], abs=1e-9)
    assert "y averaged within bins" in repr(chosen)
    bins = quietly(rp.evaluation.choose_bins, brief(), SPIKES, [2, 1], y=PATHS, at=SINCE, cv=2)
    assert bins.tried[1].decoding["ridge"] == pytest.approx(known.tried[1].decoding["ridge"], abs=1e-9)
    assert bins.tried[2].interpolation == "averaged within bins"


def test_a_model_that_counts_rows_may_know_when_they_are():
    model = made(rp.RPHMM, 2, max_iter=2, n_init=1, random_state=0)
    found = quietly(rp.evaluation.cross_validate, model, SPIKES, y=PATHS, at=SINCE, cv=2)
    plain = quietly(rp.evaluation.cross_validate, model, SPIKES.trials, times=SPIKES.times, y=PATHS, at=SINCE, cv=2)
    assert found.decoding == plain.decoding
    with pytest.raises(InputError, match="times: RPHMM takes none"):
        rp.evaluation.cross_validate(model, SPIKES.trials, times=SPIKES.times, cv=2)
    with pytest.raises(InputError, match="expected to know when the bins are"):
        rp.evaluation.cross_validate(model, SPIKES.trials, y=PATHS, at=SINCE, cv=2)


def test_behaviour_in_containers_knows_its_times():
    pd = pytest.importorskip("pandas")
    frames = [pd.DataFrame(path, index=t) for path, t in zip(PATHS, SINCE, strict=True)]
    found = quietly(rp.evaluation.cross_validate, brief(), SPIKES, y=frames, cv=2)
    plain = quietly(rp.evaluation.cross_validate, brief(), SPIKES, y=PATHS, at=SINCE, cv=2)
    assert found.decoding == plain.decoding


# ---- groups ---------------------------------------------------------------------------------------


def test_groups_that_are_too_few_or_divided():
    with pytest.raises(InputError, match="at most the number of groups, 2, got 5"):
        folds_of(5, list(range(10)), np.repeat([0, 1], 5))
    with pytest.raises(InputError, match="group 0 is in training and held out"):
        folds_of([(np.arange(3), np.arange(3, 10))], list(range(10)), np.repeat([0, 1], 5))
    with pytest.raises(InputError, match="one for each of 10 trials"):
        folds_of([(np.arange(5), np.arange(5, 10))], list(range(10)), [0, 1])
    assert len(folds_of([(np.arange(5), np.arange(5, 10))], list(range(10)), np.repeat([0, 1], 5))) == 1


def test_widths_are_chosen_on_whole_groups(monkeypatch):
    rng = np.random.default_rng(0)
    x = [rng.standard_normal((30, 3)) for _ in range(6)]
    groups = np.array(["a", "b", "c"] * 2)
    seen = []

    def kept(self, X, y=None, groups=None):
        for training, held_out in split(self, X, y, groups):
            seen.append((set(groups[training]), set(groups[held_out])))
            yield training, held_out

    split = TrialFolds.split
    monkeypatch.setattr(TrialFolds, "split", kept)
    Smoothed("PCA, smoothed", PCA).chosen(x, [each[:, :1] for each in x], READINGS, 1, 0, groups)
    assert len(seen) == 3
    assert all(not training & held_out for training, held_out in seen)


# ---- what other packages are going to change ------------------------------------------------------


def test_no_warnings_of_others():
    code = """
import numpy as np, rpmodels as rp
rng = np.random.default_rng(0)
z = [rng.standard_normal((20, 2)) for _ in range(9)]
number, label = [x[:, :1] for x in z], [(x[:, 0] > 0).astype(int) for x in z]
for kind in ("ridge", "knn"):
    rp.evaluation.decode(z, number, kind=kind, cv=3, groups=[0, 1, 2] * 3)
    rp.evaluation.decode(z, label, kind=kind, cv=3)
x = [rng.poisson(1.0, (20, 6)) for _ in z]
brief = dict(max_iter=2, n_init=1, training=rp.Training(finish="none"), search=rp.Search(retries=0), random_state=0)
model = rp.RPGPFA(1, n_inducing=5, **brief)
E = rp.evaluation
E.compare_baselines(x, number, estimator=model, cv=3, groups=[0, 1, 2] * 3)
E.compare_baselines(x, estimator=rp.RPHMM(2, max_iter=2, n_init=1, random_state=0), cv=2)
E.choose(model, "n_latents", [1], x, y=label, cv=2)
E.choose_bins(model, x, [2], bin_width=0.1, y=number, cv=2)
E.stability(model, x, n_runs=2)
E.co_smoothing(rp.RPGPFA(1, n_inducing=5, channels="separate", **brief), x, cv=2)
E.few_shot_co_smoothing(model, x, 3, cv=2)
model.fit(x)
E.diagnose(model, x)
E.shuffle_test(model, x, n_shuffles=2)
E.gap(model, x, longer=2, n_runs=1)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", code],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
