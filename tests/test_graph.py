"""Graphs of discrete latents: the junction tree against the enumeration of all configurations."""

import itertools

import numpy as np
import pytest
import torch

import rpmodels as rp
from oracles.configurations import Configurations, random_graph, random_tables
from oracles.differences import central_difference
from oracles.enumeration import Enumerated
from registry import sites_of
from rpmodels import generative
from rpmodels.carriers import Sites
from rpmodels.families import JointStates
from rpmodels.families.junction_tree import junction_tree
from rpmodels.fitted import FittedRPM
from rpmodels.learning.loop import GOAL
from rpmodels.learning.objective import RPMObjective
from rpmodels.priors import DiscreteGraph, MarkovChainPrior
from rpmodels.seeding import seeded

DOUBLE = torch.float64
SEEDS = range(12)
each_graph = pytest.mark.parametrize("seed", SEEDS)


def graph(seed, latents=8):
    states, parents, scopes = random_graph(seed, latents)
    return DiscreteGraph.fixed(states, parents, random_tables(states, parents, seed), scopes).double()


def potentials(prior, *shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 2.0 * torch.randn(*shape, prior.family.natural_size, generator=generator, dtype=DOUBLE)


# ---- the tree ----------------------------------------------------------------------------------------


@each_graph
def test_every_scope_is_a_node_and_every_latents_nodes_hang_together(seed):
    family = graph(seed).family
    tree = family.tree
    assert set(family.scopes) <= {node.latents for node in tree.nodes}
    for a in range(family.latents):
        having = [i for i, node in enumerate(tree.nodes) if a in node.latents]
        tops = [i for i in having if a not in tree.nodes[i].shared]
        assert len(tops) == 1  # a tree: all others reach it through nodes that have the latent
    for i, node in enumerate(tree.nodes[1:], 1):
        assert node.above < i
        assert node.shared == tuple(sorted(set(node.latents) & set(tree.nodes[node.above].latents)))


def test_the_width_of_well_known_graphs():
    def width(edges, count):
        tree = junction_tree(tuple("abcdefghijklmnopqrstuvwxyz"[:count]), (2,) * count, tuple(edges), 2**20)
        return max(len(node.latents) for node in tree.nodes) - 1

    chain = [(a, a + 1) for a in range(19)]
    ring = [*chain, (0, 19)]
    whole = list(itertools.combinations(range(6), 2))
    grid = [(3 * r + c, 3 * r + c + 1) for r in range(8) for c in range(2)]
    grid += [(3 * r + c, 3 * r + c + 3) for r in range(7) for c in range(3)]
    assert [width(chain, 20), width(ring, 20), width(whole, 6), width(grid, 24)] == [1, 2, 5, 3]


def test_a_clique_that_is_too_large_is_named_with_its_size():
    states = {f"z{a}": 10 for a in range(6)}
    with pytest.raises(rp.RPModelsError, match=r"'z0' \(10\).*1000000 joint states.*at most 16384"):
        DiscreteGraph.learned(states, {"z5": [f"z{a}" for a in range(5)]})
    DiscreteGraph.learned(states, {"z1": ["z0"]}, largest=100)
    with pytest.raises(rp.RPModelsError, match=r"100 joint states.*at most 99.*raise `largest`"):
        DiscreteGraph.learned(states, {"z1": ["z0"]}, largest=99)


# ---- against enumeration -----------------------------------------------------------------------------


@each_graph
def test_the_posterior_is_that_of_all_configurations(seed):
    prior = graph(seed)
    says = potentials(prior, 3, 2, seed=seed)
    posterior = prior.condition(says, sites_of([2, 2, 2]))
    for n, t in itertools.product(range(3), range(2)):
        every = Configurations(prior.family, posterior.eta[n, t])
        before = Configurations(prior.family, posterior.eta[n, t] - says[n, t])
        np.testing.assert_allclose(before.log_partition, 0.0, atol=1e-9)  # tables sum to one
        np.testing.assert_allclose(posterior.mu[n, t], every.mu, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(posterior.log_marginals[n, t].exp(), every.mu, rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(posterior.most_probable()[n, t], every.most_probable)
    partitions = [[Configurations(prior.family, posterior.eta[n, t]).log_partition for t in range(2)] for n in range(3)]
    np.testing.assert_allclose(posterior.log_partition, np.sum(partitions, 1), rtol=1e-10, atol=1e-10)
    kl = [
        sum(
            each.q @ (np.log(each.q) - Configurations(prior.family, posterior.eta[n, t] - says[n, t]).log_joint)
            for t, each in enumerate([Configurations(prior.family, posterior.eta[n, t]) for t in range(2)])
        )
        for n in range(3)
    ]
    np.testing.assert_allclose(posterior.kl, kl, rtol=1e-9, atol=1e-10)


@each_graph
def test_joint_marginals_of_any_latents_in_any_order(seed):
    prior = graph(seed)
    posterior = prior.condition(potentials(prior, 2, 1, seed=seed), Sites.single(2))
    random = np.random.default_rng(seed)
    for size in range(1, min(4, prior.family.latents + 1)):
        names = [str(each) for each in random.choice(prior.names, size, replace=False)]
        places = [prior.names.index(each) for each in names]
        for n in range(2):
            every = Configurations(prior.family, posterior.eta[n, 0])
            np.testing.assert_allclose(posterior.joint(names)[n, 0], every.joint(places), rtol=1e-10, atol=1e-12)


@each_graph
def test_targets_are_marginals_in_the_order_that_was_asked(seed):
    prior = graph(seed)
    family = prior.family
    eta = potentials(prior, 2, 3, seed=seed)
    random = np.random.default_rng(seed)
    for scope in family.scopes:
        asked = [int(a) for a in random.permutation(scope)[: int(random.integers(1, len(scope) + 1))]]
        target, way = family.targets(asked)
        every = Configurations(family, eta[1, 2])
        expected = every.joint(asked).ravel()
        np.testing.assert_allclose(target.mean(way.natural(eta))[1, 2], expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(way.mean(family.mean(eta))[1, 2], expected, rtol=1e-10, atol=1e-12)
        g = torch.randn(2, 3, target.states, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)
        told = Configurations(family, way.embed(g)[1, 2])
        joint = family.joint(torch.as_tensor(told.z), asked)
        np.testing.assert_allclose(told.log_joint, g[1, 2][joint], rtol=1e-12)


def test_gradients_against_finite_differences():
    prior = graph(3, latents=5)
    eta = potentials(prior, 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(prior.family.log_normaliser, eta)
    assert torch.autograd.gradcheck(prior.family.mean, eta)


def test_draws_follow_the_tables_and_the_posterior(generator):
    prior = graph(5, latents=5)
    n = 20_000
    z = prior.sample(Sites.single(n), generator)
    t = prior.family.statistic(z).double()[:, 0].numpy()
    expected = Configurations(prior.family, prior._mean_eta()[0]).mu
    assert (np.abs(t.mean(0) - expected) < 5 * t.std(0) / n**0.5 + 1e-9).all()
    density = prior.log_density(z[:5], Sites.single(5))
    for each, found in zip(z[:5, 0], density, strict=True):
        tables = [prior.table(name) for name in prior.names]
        chosen = [
            float(table[tuple(each[[*above, a]])].log())
            for a, (table, above) in enumerate(zip(tables, prior.parents, strict=True))
        ]
        assert float(found) == pytest.approx(sum(chosen), abs=1e-9)


# ---- the same as other priors ------------------------------------------------------------------------


def test_a_chain_of_latents_is_a_markov_chain():
    length, k = 6, 3
    random = np.random.default_rng(0)
    first, steps = torch.as_tensor(random.dirichlet(np.ones(k))), torch.as_tensor(random.dirichlet(np.ones(k), k))
    states = {f"z{t}": k for t in range(length)}
    tables = {"z0": first, **{f"z{t}": steps for t in range(1, length)}}
    prior = DiscreteGraph.fixed(states, {f"z{t}": [f"z{t - 1}"] for t in range(1, length)}, tables).double()
    chain = MarkovChainPrior.fixed(first, steps).double()
    says = torch.randn(4, length, k, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    family = prior.family
    told = sum(family.targets([t])[1].embed(says[:, None, t]) for t in range(length))
    found = prior.condition(told, Sites.single(4))
    expected = chain.condition(says, sites_of([length] * 4))
    torch.testing.assert_close(found.log_partition, expected.log_partition, rtol=1e-10, atol=1e-10)
    for t in range(length):
        mu = family.targets([t])[1].mean(found.mu)[:, 0]
        torch.testing.assert_close(mu, expected.mu[:, t], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found.joint(["z2", "z3"])[:, 0], expected.pairwise[:, 2], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found.most_probable()[:, 0], expected.viterbi())
    every = Enumerated(chain, says[0])
    assert float(found.log_partition[0]) == pytest.approx(every.log_partition, abs=1e-10)


def test_one_latent_is_a_categorical_prior():
    probabilities = torch.tensor([0.5, 0.3, 0.2], dtype=DOUBLE)
    says = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    sites = sites_of([2, 1, 2, 2])
    one = DiscreteGraph.fixed({"z": 3}, None, {"z": probabilities}).double().condition(says, sites)
    other = rp.priors.CategoricalPrior.fixed(probabilities).double().condition(says, sites)
    torch.testing.assert_close(one.mu, other.mu)
    torch.testing.assert_close(one.kl, other.kl)


# ---- in a model --------------------------------------------------------------------------------------


TARGETS = {"x": ["c"], "y": ["b", "a"], "w": ["c", "b"]}


def fitted_graph(n=6, presence=None):
    """Three factors on subsets of three latents, one of them in another order than the prior's."""
    states, parents = {"a": 2, "b": 3, "c": 2}, {"b": ["a"], "c": ["b", "a"]}
    prior = DiscreteGraph.fixed(states, parents, random_tables(states, parents, 0))
    random = np.random.default_rng(1)
    values = {name: random.standard_normal((n, 3)) for name in TARGETS}
    observations = rp.read(values, presence=presence)
    with seeded(0):
        sizes = {name: int(np.prod([states[a] for a in each])) for name, each in TARGETS.items()}
        networks = {name: rp.recognition.Linear((3,), size) for name, size in sizes.items()}
    model = rp.RPM(prior, networks, targets=TARGETS, scaling="none", dtype=DOUBLE)
    with torch.no_grad():
        for parameter in model.recognition.parameters():
            parameter.mul_(3.0)
    model.prepare(observations)
    return FittedRPM.collected(model, observations), observations


def enumerated(model, there):
    """q(z) and log W of every observation from tables of f_j and F_j alone."""
    prior = model.prior
    every = Configurations(prior.family, prior._mean_eta()[0])
    log_joint = np.tile(every.log_joint, (len(there["x"]), 1))
    for name, names in TARGETS.items():
        atoms = model.atoms(name)
        f = torch.log_softmax((atoms.reference + atoms.g)[0], -1).numpy()
        mixture = np.log(np.exp(f[there[name]]).mean(0))
        index = prior.family.joint(torch.as_tensor(every.z), [prior.names.index(each) for each in names])
        log_joint += np.where(there[name][:, None], (f - mixture)[:, index], 0.0)
    log_w = np.logaddexp.reduce(log_joint, 1)
    return every.z, np.exp(log_joint - log_w[:, None]), log_w


@pytest.mark.parametrize("missing", [False, True])
def test_factors_on_subsets_give_the_exact_posterior_and_score(missing):
    there = {name: np.ones(6, bool) for name in TARGETS}
    if missing:
        there["y"][[0, 3]] = there["x"][1] = False
    model, observations = fitted_graph(presence=there)
    z, q, log_w = enumerated(model, there)
    energies = model.free_energies(observations, in_training=True)
    np.testing.assert_allclose(energies.total, log_w, rtol=1e-10, atol=1e-10)
    (inferred,) = model._inferred(observations, None, in_training=True)
    joint = np.zeros((6, 2, 2))
    np.add.at(joint, (slice(None), z[:, 2], z[:, 0]), q)
    np.testing.assert_allclose(inferred.posterior.joint(["c", "a"])[:, 0], joint, rtol=1e-9, atol=1e-12)


def test_the_gradient_is_that_of_the_exact_score():
    model, observations = fitted_graph()
    pattern = model.pattern.train()
    objective = RPMObjective(pattern, observations)
    batch = observations.batch(np.arange(6), DOUBLE, torch.device("cpu"))
    (weights, *_) = pattern.recognition.parameters()
    value = objective(batch)[GOAL]
    value.backward()

    def anew():
        return objective(batch)[GOAL].detach()

    found = central_difference(anew, weights, (0, 1), 1e-5)
    assert found == pytest.approx(float(weights.grad[0, 1]), rel=1e-5)


def test_what_a_factor_may_speak_of():
    prior = DiscreteGraph.learned({"a": 2, "b": 3, "c": 2}, {"b": ["a"]})

    def made(**targets):
        sizes = {"a": 2, "b": 3, "c": 2}
        networks = {
            name: rp.recognition.Linear((3,), int(np.prod([sizes.get(a, 1) for a in each])))
            for name, each in targets.items()
        }
        return rp.RPM(prior, networks, targets=targets)

    assert made(x=["b", "a"], y=["c"]).targets == {"x": (1, 0), "y": (2,)}
    with pytest.raises(rp.RPModelsError, match=r"targets of factor 'x': expected one of a, b, c; got 'd'"):
        made(x=["d"])
    with pytest.raises(rp.RPModelsError, match=r"jointly \(6 joint states\).*scopes=\[\('b', 'c'\)\]"):
        made(x=["b", "c"])
    with pytest.raises(rp.RPModelsError, match="different latents"):
        made(x=["a", "a"])
    with pytest.raises(rp.RPModelsError, match=r"jointly \(12 joint states\)"):
        rp.RPM(prior, {"x": rp.recognition.Linear((3,), 12)})


def test_generative_sides_are_those_of_the_factors_own_latents(generator):
    model, observations = fitted_graph()
    z, drawn = generative.sample(model, 5, generator)
    assert z.shape == (5, 1, 3)
    weights = generative.conditional_weights(model, "y", z)
    atoms = model.atoms("y")
    f = torch.softmax((atoms.reference + atoms.g)[0], -1)
    state = 2 * z[:, 0, 1] + z[:, 0, 0]
    torch.testing.assert_close(weights[:, 0], (f / f.sum(0)).T[state])
    assert set(drawn) == set(TARGETS)
    imputed = generative.impute(model, observations, "x").values
    torch.testing.assert_close(imputed.sum(-1), torch.ones(6, 1, dtype=DOUBLE))


# ---- learning tables ---------------------------------------------------------------------------------


def test_the_closed_form_m_step_is_the_expected_count_and_never_lowers_the_likelihood():
    states, parents = {"a": 2, "b": 3, "c": 2}, {"c": ["b", "a"], "b": ["a"]}
    with seeded(0):
        prior = DiscreteGraph.learned(states, parents).double()
    says = potentials(prior, 40, 1, seed=2)
    sites, weights = Sites.single(40), torch.ones(40, dtype=DOUBLE)
    last = -np.inf
    for _ in range(20):
        posterior = prior.condition(says, sites)
        assert float(posterior.log_partition.sum()) > last - 1e-9
        last = float(posterior.log_partition.sum())
        counts = np.zeros((3, 2, 2))
        for n in range(40):
            counts += Configurations(prior.family, posterior.eta[n, 0]).joint((1, 0, 2))
        prior.update(prior.sums(posterior, weights), 1.0)
        np.testing.assert_allclose(prior.table("c"), counts / counts.sum(-1, keepdims=True), rtol=1e-8)


def test_a_dirichlet_over_tables_adds_its_counts():
    prior = DiscreteGraph.dirichlet({"a": 2, "b": 3}, {"b": ["a"]}, 0.5).double()
    says = potentials(prior, 30, 1, seed=2)
    posterior = prior.condition(says, Sites.single(30))
    sums = prior.sums(posterior, torch.ones(30, dtype=DOUBLE))
    prior.update(sums, 1.0)
    expected = sums["table 1"] + 0.5
    torch.testing.assert_close(prior.table("b"), expected / expected.sum(-1, keepdim=True))
    assert float(prior.parameter_kl()) > 0
    assert float(posterior.log_partition.mean()) < 1e3


@pytest.mark.parametrize(
    ("states", "parents", "words"),
    [
        ({"a": 2, "b": 2}, {"a": ["b"], "b": ["a"]}, "no circle"),
        ({"a": 2}, {"a": ["c"]}, "parents of 'a': expected one of a; got 'c'"),
        ({"a": 1}, None, "states of the latent 'a'"),
        ({"a": 2, "b": 2}, {"a": ["b", "b"]}, "different latents"),
        ({}, None, "number of states"),
    ],
)
def test_what_is_no_graph_is_refused(states, parents, words):
    with pytest.raises(rp.RPModelsError, match=words):
        DiscreteGraph.learned(states, parents)


def test_equal_families_share_one_tree():
    one, other = (JointStates(("a", "b"), (2, 2), ((0, 1),)) for _ in range(2))
    assert one == other
    assert one.tree is other.tree


# ---- the estimator -----------------------------------------------------------------------------------


def test_a_graph_of_one_latent_scores_as_a_categorical_model():
    random = np.random.default_rng(0)
    x = rp.read({name: random.standard_normal((12, 3)) for name in "ab"})
    probabilities = torch.tensor([0.5, 0.3, 0.2], dtype=DOUBLE)
    scores = []
    for prior in (
        rp.priors.CategoricalPrior.fixed(probabilities),
        DiscreteGraph.fixed({"z": 3}, None, {"z": probabilities}),
    ):
        with seeded(0):
            networks = {name: rp.recognition.Linear((3,), 3) for name in "ab"}
        head = rp.recognition.AbsoluteHead()  # the same reference for both
        model = rp.RPM(prior, networks, head=head, scaling="none", dtype=DOUBLE)
        model.prepare(x)
        scores.append(FittedRPM.collected(model, x).free_energies(x).total)
    torch.testing.assert_close(*scores, rtol=1e-10, atol=1e-10)


def rooms(n=400, seed=1000):
    """Two places, three objects that are usually in one of them, and a view of each."""
    random = np.random.default_rng(seed)
    place = random.integers(2, size=n)
    objects = [np.where(random.random(n) < 0.95, place, 1 - place) for _ in range(3)]
    x = {f"view {k}": 4.0 * each[:, None] + random.standard_normal((n, 3)) for k, each in enumerate(objects)}
    names = [f"object {k}" for k in range(3)]
    told = {
        "states": {"place": 2, **dict.fromkeys(names, 2)},
        "parents": {name: ["place"] for name in names},
        "targets": {f"view {k}": [name] for k, name in enumerate(names)},
    }
    return x, np.stack([place, *objects], 1), told


def test_a_small_hierarchy_is_recovered_from_a_file_too(tmp_path):
    x, z, told = rooms()
    model = rp.RPGraph(**told, max_iter=120, n_init=2, random_state=0).fit(x)
    found = model.predict(x)
    right = [(rp.metrics.match_states(z[:, a], found[:, a], 2)[found[:, a]] == z[:, a]).mean() for a in range(4)]
    assert min(right) > 0.97
    table = model.tables_["object 0"]
    np.testing.assert_allclose(np.sort(table, 1), [[0.05, 0.95]] * 2, atol=0.04)
    np.testing.assert_allclose(model.joint(x, ["place"]), model.marginals(x)["place"], rtol=1e-5)
    np.testing.assert_allclose(model.transform(x), np.concatenate(model.predict_proba(x), 1))
    assert model.recognise(x["view 1"], "view 1").shape == (400, 2)
    model.save(tmp_path / "graph.rpm")
    again = rp.load(tmp_path / "graph.rpm")
    np.testing.assert_array_equal(again.predict(x), found)
    assert float(again.score(x)) == float(model.score(x))


def test_known_tables_stay_and_wrong_arguments_are_refused():
    x, _, told = rooms(60)
    known = {"place": [0.25, 0.75]}
    brief = {"max_iter": 2, "n_init": 1, "random_state": 0, "training": rp.Training(finish="none")}
    model = rp.RPGraph(**told, tables=known, **brief).fit(x)
    np.testing.assert_allclose(model.tables_["place"], known["place"], rtol=1e-6)
    np.testing.assert_allclose(model.prior_["place"], known["place"], rtol=1e-5)
    for wrong, words in (
        ({"targets": {"nose": ["place"]}}, "nose"),
        ({"targets": {"view 0": ["smell"]}}, "smell"),
        (
            {"parents": {"place": ["object 0"]}, "tables": {"place": [0.5, 0.5]}},
            r"the table of 'place': expected shape",
        ),
        ({"states": {**told["states"], "place": 1}}, "states"),
        ({"targets": None, "largest": 8}, r"16 joint states"),
    ):
        with pytest.raises(rp.RPModelsError, match=words):
            rp.RPGraph(**{**told, **brief, **wrong}).fit(x)


def test_labels_name_the_joint_states_of_their_targets():
    x, z, told = rooms(200)
    x = {**x, "name": np.array(["left", "right"])[z[:, 1]]}
    told = {**told, "targets": {**told["targets"], "name": ["object 0"]}}
    model = rp.RPGraph(**told, max_iter=100, n_init=1, random_state=0).fit(x)
    names = model.state_names("name")
    assert sorted(names) == ["left", "right"]
    assert (model.predict_label({"view 0": x["view 0"]}, "name") == x["name"]).mean() > 0.97
    assert model.impute(x, "name").values.shape == (200, 200)
    drawn, states = model.sample(20)
    assert set(drawn) == set(x)
    assert states.shape == (20, 4)


# ---- potentials on cliques ---------------------------------------------------------------------------


COUPLED = {"a": 2, "b": 3, "c": 2, "d": 2}
RING = [("b", "a"), ("b", "c"), ("a", "c")]
LEAF = {"d": ["c", "a"]}


def coupled(seed=0, scale=1.5):
    """Three latents in a ring of potentials, and one below two of them."""
    with seeded(seed):
        prior = DiscreteGraph.learned(COUPLED, LEAF, cliques=RING).double()
        for psi in prior.log_potentials:
            psi.data = scale * torch.randn_like(psi)
    return prior


def field(prior):
    """p of every configuration, as potentials and tables define it."""
    table = torch.zeros(tuple(COUPLED.values()), dtype=DOUBLE)
    for clique in RING:
        names = [name for name in COUPLED if name in clique]
        shape = [COUPLED[name] if name in clique else 1 for name in COUPLED]
        table = table + prior.log_potential(names).reshape(shape)
    whole = torch.softmax(table[..., 0].flatten(), 0).reshape(table.shape[:-1])
    return whole[..., None] * prior.table("d").permute(1, 0, 2)[:, None]  # axes c, a, d become a, b, c, d


def test_potentials_on_cliques_are_a_normalised_field():
    prior = coupled()
    p = field(prior)
    z = torch.tensor(list(itertools.product(*map(range, COUPLED.values()))))
    density = prior.log_density(z[:, None], sites_of([1] * len(z)))
    torch.testing.assert_close(density.exp(), p.flatten(), rtol=1e-10, atol=1e-12)
    for a, name in enumerate(COUPLED):
        expected = p.sum([b for b in range(4) if b != a])
        torch.testing.assert_close(prior.marginals()[name], expected, rtol=1e-10, atol=1e-12)
    says = potentials(prior, 2, 1)
    posterior = prior.condition(says, Sites.single(2))
    t = prior.family.statistic(z).double()
    for n in range(2):
        expected = torch.logsumexp(p.flatten().log() + t @ says[n, 0], 0)
        assert posterior.log_partition[n].item() == pytest.approx(expected.item(), abs=1e-10)
    order = prior.log_potential(("b", "a"))
    torch.testing.assert_close(order, prior.log_potential(("a", "b")).T)


def test_the_gradient_of_potentials_is_expected_less_prior_marginals():
    """∂ log W/∂ log ψ = q(z_c) − p(z_c), also where F is stationary and marginals have no gradients."""
    prior = coupled()
    says = potentials(prior, 3, 1)
    posterior = prior.condition(says, Sites.single(3)).stationary()
    gradients = torch.autograd.grad(posterior.log_partition.sum(), list(prior.log_potentials))
    p = field(prior)
    for clique, found in zip(prior.cliques, gradients, strict=True):
        names = [prior.names[a] for a in clique]
        before = p.sum([b for b in range(4) if b not in clique]).flatten()
        after = posterior.joint(names)[:, 0].flatten(1).sum(0)
        torch.testing.assert_close(found, after - 3 * before, rtol=1e-9, atol=1e-10)


def test_em_of_tables_below_a_field_never_lowers_the_likelihood():
    prior, last = coupled(), -np.inf
    says, weights = potentials(prior, 30, 1), torch.ones(30, dtype=DOUBLE)
    for _ in range(10):
        posterior = prior.condition(says, Sites.single(30))
        assert posterior.log_partition.sum().item() > last - 1e-9
        last = posterior.log_partition.sum().item()
        prior.update(prior.sums(posterior, weights), 1.0)


def test_couplings_are_learned(tmp_path):
    """Five spins in a ring, each behind a vector of its own: joint states are as frequent as they were."""
    random = np.random.default_rng(1000)
    names = [f"s{a}" for a in range(5)]
    pairs = [(names[a], names[(a + 1) % 5]) for a in range(5)]
    strengths = np.array([0.9, -0.7, 0.5, 0.0, 0.8])
    every = np.array(list(itertools.product((0, 1), repeat=5)))
    spins = 2 * every - 1
    p = np.exp(sum(c * spins[:, a] * spins[:, (a + 1) % 5] for a, c in enumerate(strengths)))
    z = every[random.choice(32, 1000, p=p / p.sum())]
    x = {f"x{a}": 4.0 * z[:, [a]] + random.normal(size=(1000, 2)) for a in range(5)}
    settings = {"max_iter": 100, "n_init": 1, "random_state": 1000, "learning_rate": 2e-2}
    targets = {f"x{a}": [name] for a, name in enumerate(names)}
    model = rp.RPGraph(dict.fromkeys(names, 2), cliques=pairs, targets=targets, **settings).fit(x)
    found = model.predict(x)
    flips = [float((found[:, a] == z[:, a]).mean()) < 0.5 for a in range(5)]
    assert np.mean([(found[:, a] ^ flips[a]) == z[:, a] for a in range(5)]) > 0.97
    for (pair, psi), strength, a in zip(model.potentials_.items(), strengths, range(5), strict=True):
        assert pair == pairs[a]
        sign = (-1) ** (flips[a] + flips[(a + 1) % 5])
        coupling = 0.25 * (psi[0, 0] + psi[1, 1] - psi[0, 1] - psi[1, 0])
        assert sign * coupling == pytest.approx(strength, abs=0.2)
    assert model.tables_ == {}
    model.save(tmp_path / "field.rpm")
    again = rp.load(tmp_path / "field.rpm")
    np.testing.assert_array_equal(again.predict_proba(x)[0], model.predict_proba(x)[0])


@pytest.mark.parametrize(
    ("parents", "cliques", "known", "words"),
    [
        ({"a": ["b"]}, [("a", "b")], None, "cliques: expected latents without parents, got 'a'"),
        (None, [("a", "a")], None, "cliques: expected sets of different latents"),
        (None, [("a", "b"), ("b", "a")], None, "cliques: expected sets of different latents, each once"),
        (None, [("a", "e")], None, "cliques.*'e'"),
        (None, [("a", "b")], {"a": torch.tensor([0.5, 0.5])}, "none of a latent that is in a clique"),
    ],
)
def test_cliques_that_cannot_be_are_refused(parents, cliques, known, words):
    with pytest.raises(rp.RPModelsError, match=words):
        DiscreteGraph.learned(COUPLED, parents, known=known, cliques=cliques)


def test_targets_that_are_no_latents_are_called_targets():
    x = {"a": np.zeros((4, 2)), "b": np.ones((4, 2))}
    with pytest.raises(rp.RPModelsError, match="targets of factor 'a': expected one of left, right; got 'up'"):
        rp.RPGraph({"left": 2, "right": 2}, targets={"a": ["up"]}).fit(x)
