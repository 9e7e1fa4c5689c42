"""Factors that say p(label | state) themselves: known (pinned) or learned (generative)."""

import itertools

import numpy as np
import pytest
import torch
from sklearn.base import clone

import data
import rpmodels as rp
from registry import STEPS, made, tiny_data
from rpmodels import generative
from rpmodels.errors import RPModelsError
from rpmodels.fitted import FittedRPM
from rpmodels.learning.clusters import named
from rpmodels.priors import CategoricalPrior, DiscreteGraph, MarkovChainPrior
from rpmodels.recognition import GenerativeTable, pinned_table
from rpmodels.seeding import seeded

LABELS = np.array(["no", "so", "yes"])
SHARES = np.array([0.2, 0.5, 0.3])


def tiny(prior, sites=1, n=6, known=None, seed=0):
    """Random linear factors x0, x1 and labels with a random p(label | state), in float64."""
    x = {name: each[:, :sites] for name, each in tiny_data(n, sites=sites, seed=seed).items()}
    random = np.random.default_rng(seed)
    codes = np.concatenate([[0, 1, 2], random.choice(3, n * sites - 3, p=SHARES)]).reshape(n, sites)
    observations = rp.read({**x, "label": LABELS[codes]}, series=True)
    with seeded(seed):
        networks = {name: rp.recognition.Linear((3,), prior.family.raw_size) for name in x}
        table = GenerativeTable.of(codes.ravel(), np.ones(codes.size), 3, prior.family.raw_size, known)
    model = rp.RPM(prior, networks | {"label": table}, scaling="none", dtype=torch.float64)
    with torch.no_grad():
        for parameter in model.recognition.parameters():
            parameter.mul_(3.0)
    model.prepare(observations)
    return FittedRPM.collected(model, observations), observations, x, codes


PRIORS = {
    "states": (lambda: CategoricalPrior.learned(3), 1),
    "graph": (lambda: DiscreteGraph.learned({"state": 3}), 1),
    "chain": (lambda: MarkovChainPrior.fixed(torch.tensor([0.5, 0.3, 0.2]), STEPS), 2),
}


@pytest.mark.parametrize("kind", PRIORS)
@pytest.mark.parametrize("known", [None, pinned_table("label", 3, 3, 0.1, None)], ids=["learned", "known"])
def test_the_likelihood_stays_normalised(kind, known):
    make, sites = PRIORS[kind]
    model, _, x, codes = tiny(make(), sites, known=known)
    p0 = np.bincount(codes.ravel(), minlength=3) / codes.size
    rows = list(itertools.product(range(6), repeat=2))
    # Every combination of what the factors can show: observations of x0 and x1, any sequence of labels.
    total = 0.0
    for labels in itertools.product(range(3), repeat=sites):
        grid = {name: x[name][[row[j] for row in rows]] for j, name in enumerate(x)}
        grid["label"] = np.tile(LABELS[list(labels)], (len(rows), 1))
        observations = rp.read(grid, series=True, known=model.specs)
        weights = np.exp(model.free_energies(observations, in_training=True).values)
        total += weights.mean() * np.prod(p0[list(labels)])
    if sites == 1:
        assert total == pytest.approx(1.0, abs=1e-12)
    else:  # of series only whole trials are atoms of both times: sum over what each time can show
        assert total == pytest.approx(_by_time(model, x, p0), abs=1e-10)


def _by_time(model, x, p0):
    """Σ over the same trials with labels summed out: what there is without labels."""
    rows = list(itertools.product(range(6), repeat=2))
    grid = {name: x[name][[row[j] for row in rows]] for j, name in enumerate(x)}
    observations = rp.read(grid, series=True, known=model.specs)
    return float(np.exp(model.free_energies(observations, in_training=True).values).mean())


def test_log_w_is_that_of_the_joint():
    model, observations, _, codes = tiny(CategoricalPrior.fixed(torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)))
    table = torch.softmax(model.recogniser("label").network.logits, -1).detach().numpy()
    p0 = np.bincount(codes.ravel(), minlength=3) / codes.size
    said = np.log(table[:, codes[:, 0]].T / p0[codes[:, 0]][:, None])
    for name in ("x0", "x1"):
        f = torch.cat(list(model.recognise(observations, name)))[:, 0].softmax(-1).numpy()
        said += np.log(f / f.mean(0))
    expected = np.log(np.exp(said) @ [0.5, 0.3, 0.2])
    np.testing.assert_allclose(model.free_energies(observations, in_training=True).values, expected, atol=1e-12)
    np.testing.assert_allclose(generative.label_table(model, "label"), table, atol=1e-12)


def test_missing_labels_are_dropped():
    model, _, x, _ = tiny(CategoricalPrior.learned(3))
    without = rp.read(x, series=True, known=model.specs)
    empty = rp.read({**x, "label": np.full((6, 1), "")}, series=True, known=model.specs)
    one, other = (model.free_energies(each).values for each in (without, empty))
    np.testing.assert_array_equal(one, other)
    every = [{**x, "label": np.full((6, 1), each)} for each in LABELS]
    weights = [np.exp(model.free_energies(rp.read(each, series=True, known=model.specs)).values) for each in every]
    p0 = model.recogniser("label").network.log_p0.exp().numpy()
    np.testing.assert_allclose(p0 @ weights, np.exp(one), atol=1e-12)  # Σ_y p(y, x) = p(x)


def latent_classes(codes, n_states, steps=3000):
    """The likelihood that EM of latent-class analysis reaches from its best of ten starts."""
    best = -np.inf
    for seed in range(10):
        random = np.random.default_rng(seed)
        pi, tables = np.full(n_states, 1 / n_states), random.dirichlet(np.ones(3), (codes.shape[1], n_states))
        for _ in range(steps // 10):
            joint = pi * np.prod([tables[j][:, each].T for j, each in enumerate(codes.T)], 0)
            q = joint / joint.sum(1, keepdims=True)
            pi = q.mean(0)
            tables = np.stack([np.stack([q[each == y].sum(0) for y in range(3)], 1) for each in codes.T])
            tables /= tables.sum(-1, keepdims=True)
        best = max(best, float(np.log(joint.sum(1)).sum()))
    return best


def test_generative_factors_alone_are_latent_class_analysis():
    random = np.random.default_rng(0)
    z, tables = random.integers(2, size=400), random.dirichlet(np.full(3, 0.4), (4, 2))
    codes = np.stack([[random.choice(3, p=each[k]) for k in z] for each in tables], 1)
    x = {f"item{j}": LABELS[each] for j, each in enumerate(codes.T)}
    factors = dict.fromkeys(x, rp.Generative())
    options = {"max_iter": 300, "n_init": 4, "prior": "learned", "dtype": "float64", "random_state": 0}
    model = made(rp.RPCategorical, 2, factors=factors, **options).fit(x)
    p0 = np.stack([np.bincount(each, minlength=3) / 400 for each in codes.T])
    independent = sum(np.log(p0[j][each]).sum() for j, each in enumerate(codes.T))
    assert model.score_samples(x).sum() + independent == pytest.approx(latent_classes(codes, 2), abs=0.02)


def labelled(share, seed=0, n=400, places=3, noise=0.8):
    x, z = data.clusters(n, seed=seed, places=places, noise=noise, width=5)
    known = np.random.default_rng(seed).random(n) < share
    return x, z, [LABELS[k] if have else None for k, have in zip(z, known, strict=True)]


@pytest.fixture(scope="module", params=[rp.Pinned(), rp.Generative()], ids=["pinned", "generative"])
def few(request):
    x, z, label = labelled(0.1)
    brief = {"max_iter": 150, "n_init": 2, "random_state": 0, "factors": {"label": request.param}}
    return made(rp.RPCategorical, 3, **brief).fit({**x, "label": label}), x, z, label


def test_states_are_called_by_their_labels(few):
    model, x, _, _ = few
    new, truth, _ = labelled(0.0, seed=1)
    assert (model.predict_label(new, "label") == LABELS[truth]).mean() > 0.9
    if isinstance(model.factors["label"], rp.Pinned):
        assert list(model.state_names("label")) == list(LABELS)
        np.testing.assert_array_equal(LABELS[model.predict(x)], model.predict_label(x, "label"))
    found = model.label_probabilities({"a": new["a"]}, "label")
    np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-5)
    sure = found.max(1)
    right = LABELS[found.argmax(1)] == LABELS[truth]
    assert abs(sure.mean() - right.mean()) < 0.06  # calibrated


def test_a_known_label_pins_its_state(few):
    model, x, z, _ = few
    said = model.predict_proba({**x, "label": LABELS[z]})
    assert (LABELS[said.argmax(1)] == LABELS[z]).all() or not isinstance(model.factors["label"], rp.Pinned)


def test_files_and_clones_keep_it(few, tmp_path):
    model, x, _, label = few
    model.save(tmp_path / "m")
    again = rp.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_label(x, "label"), model.predict_label(x, "label"))
    scores = [each.score_samples({**x, "label": label}) for each in (model, again)]
    np.testing.assert_array_equal(*scores)
    assert again.factors == model.factors == clone(model).factors
    found = model.impute(x, "label").values
    np.testing.assert_allclose(found, model.label_probabilities(x, "label"), atol=1e-5)


def test_a_table_of_ones_own_and_adapting():
    x, _, label = labelled(0.5)
    table = np.array([[0.9, 0.1, 0.0], [0.0, 1.0, 0.0], [0.0, 0.2, 0.8], [0.4, 0.3, 0.3]])
    brief = {"max_iter": 60, "n_init": 1, "random_state": 0, "factors": {"label": rp.Pinned(table=table)}}
    model = made(rp.RPCategorical, 4, **brief).fit({**x, "label": label})
    np.testing.assert_allclose(generative.label_table(model.model_, "label"), table, atol=1e-5)
    adapted = model.adapt_prior({"a": x["a"]})
    np.testing.assert_allclose(generative.label_table(adapted.model_, "label"), table, atol=1e-5)


def test_over_time_and_on_graphs():
    random = np.random.default_rng(0)
    z = (np.arange(40)[None] // 8 + random.integers(3, size=(12, 1))) % 3
    x = 2.0 * np.eye(3)[z] + 0.7 * random.standard_normal((12, 40, 3))
    label = np.where(random.random(z.shape) < 0.1, LABELS[z], "")
    brief = {"max_iter": 100, "n_init": 2, "random_state": 0, "factors": {"label": rp.Pinned()}}
    model = made(rp.RPHMM, 3, **brief).fit({"x": x, "label": label})
    assert (model.predict({"x": x}) == z).mean() > 0.9  # by their own names, nothing matched
    place, other = random.integers(3, size=300), random.integers(2, size=300)
    seen = {
        "camera": 2.0 * np.eye(3)[place] + random.standard_normal((300, 3)),
        "sound": 2.0 * np.eye(6)[2 * place + other] + random.standard_normal((300, 6)),
        "label": np.where(random.random(300) < 0.3, LABELS[place], ""),
    }
    targets = {"camera": ["place"], "label": ["place"]}
    graph = made(rp.RPGraph, {"place": 3, "other": 2}, targets=targets, **brief).fit(seen)
    del seen["label"]
    assert (LABELS[place] == graph.predict_label(seen, "label")).mean() > 0.8
    np.testing.assert_allclose(graph.label_probabilities(seen, "label").sum(1), 1.0, atol=1e-5)


def test_clusters_get_the_states_of_their_labels():
    known = pinned_table("label", 3, 3, 0.01, None)
    model, observations, _, codes = tiny(CategoricalPrior.learned(3), n=12, known=known)
    found = (codes[:, 0] + 1) % 3
    np.testing.assert_array_equal(named(found, model.pattern, observations, 3), codes[:, 0])


@pytest.mark.parametrize(
    ("kind", "size", "factors", "text"),
    [
        (rp.RPCategorical, 2, {"label": rp.Pinned()}, "3 labels cannot be pinned to 2 states"),
        (rp.RPCategorical, 3, {"a": rp.Pinned()}, "for one label"),
        (rp.RPCategorical, 3, {"label": rp.Pinned(table=np.eye(2))}, "3 rows of 3 numbers"),
        (rp.RPCategorical, 3, {"label": rp.Pinned(error=2.0)}, "the error of factor 'label'"),
        (rp.RPCategorical, 3, {"nobody": rp.Generative()}, "nobody"),
        (rp.RPFA, 1, {"label": rp.Pinned()}, "are numbers"),
        (rp.RPCircular, None, {"label": rp.Generative()}, "are angles"),
    ],
)
def test_what_cannot_be_pinned_is_refused(kind, size, factors, text):
    x, _, label = labelled(1.0, n=30)
    sizes = () if size is None else (size,)
    model = made(kind, *sizes, max_iter=2, n_init=1, random_state=0, factors=factors)
    with pytest.raises((RPModelsError, KeyError), match=text):
        model.fit({**x, "label": label})
