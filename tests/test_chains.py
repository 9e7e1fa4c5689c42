"""RPHMM with several chains and with durations, as its users meet it: recovery, verbs of time, files, bad input."""

import numpy as np
import pytest
import torch

import rpmodels as rp
from registry import made
from rpmodels import metrics
from rpmodels.learning.chain_starts import configurations, log_likelihood

CHAINS = {"a": 2, "b": 3}
DOUBLE = {"dtype": "float64"}


def walk(trials, length, k, move, random):
    z = np.zeros((trials, length), int)
    for t in range(length):
        fresh = random.integers(k, size=trials)
        z[:, t] = fresh if t == 0 else np.where(random.random(trials) < move, fresh, z[:, t - 1])
    return z


def two_chains(trials=16, length=40, seed=1000):
    """One factor speaks of a, one of b, one of both."""
    random = np.random.default_rng(seed)
    z = np.stack([walk(trials, length, k, 0.15, random) for k in CHAINS.values()], -1)
    means = [3.0 * random.standard_normal((k, 3)) for k in CHAINS.values()]
    parts = [m[z[..., c]] for c, m in enumerate(means)]
    noise = random.standard_normal((3, trials, length, 3))
    return {"of a": parts[0] + noise[0], "of b": parts[1] + noise[1], "of both": parts[0] + parts[1] + noise[2]}, z


def semi_markov(trials=60, length=40, seed=1000):
    """Two states that last 2 – 3 and 5 – 6 steps, one that lasts 3."""
    random = np.random.default_rng(seed)
    lasts = [(2, 3), (5, 6), (3,)]
    z = np.zeros((trials, length + 12), int)
    for row in z:
        t, state = 0, int(random.integers(3))
        while t < len(row):
            steps = int(random.choice(lasts[state]))
            row[t : t + steps] = state
            t, state = t + steps, int(random.choice([k for k in range(3) if k != state]))
    z = z[:, 12:]
    return 3.0 * np.eye(3, 4)[z] + random.standard_normal((*z.shape, 4)), z


@pytest.fixture(scope="module")
def chains():
    x, z = two_chains()
    targets = {"of a": ["a"], "of b": ["b"]}
    settings = {"max_iter": 60, "learning_rate": 1e-2, "n_init": 2, "random_state": 1000, "finish": "none"}
    return made(rp.RPHMM, CHAINS, targets=targets, **settings).fit(x), x, z


@pytest.fixture(scope="module")
def aged():
    x, z = semi_markov()
    settings = {"max_iter": 80, "learning_rate": 1e-2, "n_init": 2, "random_state": 1000, "finish": "none"}
    return made(rp.RPHMM, 3, durations=8, **settings).fit(x), x, z


def test_both_chains_and_their_transitions_are_found(chains):
    model, x, z = chains
    found = model.predict(x)
    for c, (name, k) in enumerate(CHAINS.items()):
        order = metrics.match_states(z[..., c].ravel(), found[..., c].ravel(), k)
        assert (order[found[..., c]] == z[..., c]).mean() > 0.97
        expected = 0.85 * np.eye(k) + 0.15 / k
        np.testing.assert_allclose(model.transitions_[name], expected, atol=0.1)
        np.testing.assert_allclose(model.prior_[name].sum(), 1.0, atol=1e-5)
        np.testing.assert_allclose(model.initial_[name].sum(), 1.0, atol=1e-5)
    with pytest.raises(AttributeError, match="durations"):
        _ = model.durations_


def test_states_and_their_durations_are_found(aged):
    model, x, z = aged
    found = model.predict(x)
    order = metrics.match_states(z.ravel(), found.ravel(), 3)
    assert (order[found] == z).mean() > 0.98
    durations = model.durations_[np.argsort(order)]
    np.testing.assert_allclose(durations[0, 1:3], 0.5, atol=0.1)
    np.testing.assert_allclose(durations[1, 4:6], 0.5, atol=0.1)
    assert durations[2, 2] > 0.95
    np.testing.assert_allclose(model.transitions_[~np.eye(3, dtype=bool)], 0.5, atol=0.15)
    np.testing.assert_array_equal(np.diag(model.transitions_), 0.0)
    np.testing.assert_allclose(model.transitions_.sum(1), 1.0, atol=1e-5)


def test_a_state_that_is_due_to_end_is_expected_to(aged):
    """The forecast knows the age: a Markov chain could not."""
    model, _, _ = aged
    order = metrics.match_states(aged[2].ravel(), model.predict(aged[1]).ravel(), 3)
    third = int(np.flatnonzero(order == 2)[0])
    now = 3.0 * np.eye(3, 4)
    young, old = (now[[0, 0, *[2] * since]] for since in (1, 3))
    ahead = [float(model.forecast(each, 1)[0, third]) for each in (young, old)]
    assert ahead[0] > 0.9
    assert ahead[1] < 0.1


@pytest.mark.parametrize("which", ["chains", "aged"])
def test_verbs_of_time_agree_and_keep_the_form(which, request):
    model, x, z = request.getfixturevalue(which)
    named = isinstance(x, dict)
    ragged = {n: [v[0], v[1][:7]] for n, v in x.items()} if named else [x[0], x[1][:7]]
    one = {n: v[0] for n, v in x.items()} if named else x[0]
    sizes = CHAINS if named else {"": 3}
    each = (lambda found: list(found.values())) if named else (lambda found: [found])
    for found, k in zip(each(model.predict_proba(ragged)), sizes.values(), strict=True):
        assert [part.shape for part in found] == [(40, k), (7, k)]
        np.testing.assert_allclose(found[0].sum(-1), 1.0, atol=1e-4)
    for smooth, whole in zip(each(model.smooth(one)), each(model.predict_proba(x)), strict=True):
        np.testing.assert_allclose(smooth, whole[0], atol=1e-5)
    # The filter is the smoother of the past, and the stream is the filter.
    past = {n: v[:9] for n, v in one.items()} if named else one[:9]
    filtered = each(model.filter(one))
    for f, s in zip(filtered, each(model.predict_proba(past)), strict=True):
        np.testing.assert_allclose(f[8], s[8], atol=1e-4)
    stream = model.stream()
    for t in range(9):
        state = stream.update({n: v[t] for n, v in one.items()} if named else one[t])
    for f, s in zip(filtered, each(state), strict=True):
        np.testing.assert_allclose(f[8], s, atol=1e-4)
    for ahead, k in zip(each(model.forecast(one, 4)), sizes.values(), strict=True):
        assert ahead.shape == (4, k)
    several = (len(CHAINS),) if named else ()
    assert model.predict(x).shape == z.shape == (len(z), 40, *several)
    shown, states = model.sample(5, 7)
    assert states.shape == (5, 7, 2)  # two chains; or a state and its age
    assert all(each.shape == (5, 7) for each in shown.values())
    weights = model.conditional_weights("of both" if named else "x", states)
    assert weights.shape[:2] == (5, 7)
    np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-5)
    factor = "of both" if named else "x"
    shape = model.recognise(one[factor] if named else one, factor).shape
    assert shape == (40, *sizes.values())


@pytest.mark.parametrize("which", ["chains", "aged"])
def test_files_keep_them(which, request, tmp_path):
    model, x, _ = request.getfixturevalue(which)
    model.save(tmp_path / "model.rpm")
    again = rp.RPHMM.load(tmp_path / "model.rpm")
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    assert float(again.score(x)) == pytest.approx(float(model.score(x)))
    assert type(again.description.latent) is type(model.description.latent)


def test_chains_of_their_own_factors_are_models_of_their_own():
    """log W is the sum of those of two hidden Markov models with the same tables and networks."""
    x, _ = two_chains(6, 12)
    del x["of both"]
    rows = {"a": np.array([[0.8, 0.2], [0.4, 0.6]]), "b": np.full((3, 3), 1 / 3)}
    settings = {"max_iter": 1, "n_init": 1, "random_state": 0, "finish": "none", **DOUBLE}
    joint = made(rp.RPHMM, CHAINS, transitions=rows, targets={"of a": ["a"], "of b": ["b"]}, **settings).fit(x)
    total = 0.0
    for name, k in CHAINS.items():
        factor = f"of {name}"
        alone = made(rp.RPHMM, k, transitions=rows[name], **settings).fit({factor: x[factor]})
        own = dict(alone.model_.pattern.recognisers())[factor]
        own.load_state_dict(dict(joint.model_.pattern.recognisers())[factor].state_dict())
        observations = alone.read({factor: x[factor]})
        refitted = type(alone.model_).collected(alone.model_.pattern, observations)
        total = total + refitted.free_energies(observations).values
    np.testing.assert_allclose(joint.score_samples(x), total, rtol=1e-9)


def test_concentrations_and_known_jumps():
    x, _ = semi_markov(20, 20)
    settings = {"max_iter": 3, "n_init": 1, "random_state": 0, "finish": "none"}
    jumps = np.array([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.3, 0.7, 0.0]])
    known = made(rp.RPHMM, 3, durations=4, transitions=jumps, **settings).fit(x)
    np.testing.assert_allclose(known.transitions_, jumps, atol=1e-6)
    bayes = made(rp.RPHMM, 3, durations=4, transitions=0.5, **settings).fit(x)
    assert float(bayes.model_.prior.parameter_kl()) > 0
    by_chain = made(rp.RPHMM, {"a": 2, "b": 2}, transitions={"a": 1.0}, **settings).fit(x)
    assert isinstance(by_chain.model_.prior.chain.transition.parts[0], rp.priors.DirichletSimplex)
    assert isinstance(by_chain.model_.prior.chain.transition.parts[1], rp.priors.LearnedSimplex)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_states": CHAINS, "durations": 5}, "durations: expected None beside several chains"),
        ({"n_states": 3, "targets": {"x": ["a"]}}, "targets: expected None: there is one chain"),
        ({"n_states": CHAINS, "targets": {"y": ["a"]}}, "y"),
        ({"n_states": CHAINS, "targets": {"x": ["c"]}}, "expected one of a, b; got 'c'"),
        ({"n_states": {"a": 1}}, "n_states: expected an integer ≥ 2"),
        ({"n_states": 3, "durations": 1}, "durations: expected None or an integer ≥ 2"),
        ({"n_states": CHAINS, "transitions": np.eye(2)}, "transitions: expected.*several chains"),
        ({"n_states": CHAINS, "transitions": {"c": 1.0}}, "transitions.*'c'"),
        ({"n_states": 3, "durations": 4, "transitions": np.eye(3)}, "zeros on the diagonal"),
        ({"n_states": 3, "transitions": {"a": 1.0}}, "transitions"),
        ({"n_states": {"a": 30, "b": 30}}, "900 joint states"),
        ({"n_states": 10, "durations": 60}, "600 joint states"),
    ],
)
def test_what_does_not_go_together_is_refused_before_any_work(arguments, words):
    with pytest.raises(rp.RPModelsError, match=words):
        rp.RPHMM(**arguments).fit(np.zeros((4, 6, 2)) + np.arange(6)[:, None])


def test_ages_along_padding_say_nothing():
    """The same posterior alone and beside a longer trial."""
    prior = rp.priors.JointChain.durations(2, 3).double()
    says = torch.randn(1, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(says, (0, 0, 0, 3))
    times = torch.arange(7.0, dtype=torch.float64)[None]
    alone = prior.condition(says, rp.carriers.Sites(times[:, :4], times[:, :4] >= 0)).stationary()
    beside = prior.condition(padded, rp.carriers.Sites(times, times < 4)).stationary()
    torch.testing.assert_close(beside.mu[:, :4], alone.mu, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(beside.log_partition, alone.log_partition, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(beside.viterbi()[:, :4], alone.viterbi())


def test_clusters_are_called_by_the_configurations_in_which_chains_are_independent():
    """Names are found up to the order of states within chains, and of chains that have as many."""
    random = np.random.default_rng(1000)
    z = np.stack([walk(20, 200, k, 0.2, random) for k in (3, 2)], -1)
    called = random.permutation(6)[2 * z[..., 0] + z[..., 1]]
    there = np.ones(called.shape, bool)
    there[3, 50:] = False
    found = configurations(called, there, (3, 2), seed=0)
    for c, k in enumerate((3, 2)):
        order = metrics.match_states(z[..., c].ravel(), found[..., c].ravel(), k)
        np.testing.assert_array_equal(order[found[..., c]], z[..., c])


def test_the_likelihood_of_steps_is_that_of_every_chain():
    random = np.random.default_rng(0)
    z = np.stack([walk(3, 50, k, 0.5, random) for k in (2, 3)], -1)
    joint = 3 * z[..., 0] + z[..., 1]
    counts = np.zeros((6, 6))
    np.add.at(counts, (joint[:, :-1].ravel(), joint[:, 1:].ravel()), 1)
    expected = 0.0
    for c, k in enumerate((2, 3)):
        for now in range(k):
            after = z[:, 1:, c][z[:, :-1, c] == now]
            shares = np.bincount(after, minlength=k) / len(after)
            expected += np.log(shares[after]).sum()
    assert log_likelihood(counts, (2, 3)) == pytest.approx(expected)


@pytest.mark.parametrize("which", ["chains", "aged"])
def test_fits_may_begin_from_given_states(which):
    """In the form that `predict` gives them."""
    x, z = two_chains(8, 20) if which == "chains" else semi_markov(12, 20)
    arguments = {"n_states": CHAINS} if which == "chains" else {"n_states": 3, "durations": 4}
    model = made(rp.RPHMM, **arguments, max_iter=30, n_init=1, random_state=0, start=z, finish="none").fit(x)
    assert any(each.kind == "given latents" for each in model.restarts_)
    with pytest.raises(rp.RPModelsError, match="states from 0 to"):
        made(rp.RPHMM, **arguments, start=z + 5).fit(x)
