"""The exact discrete RPM against enumeration: the model is normalised, and F is the log-likelihood."""

import numpy as np
import pytest
import torch

import rpmodels as rp
from oracles.enumeration import every_tuple, probabilities
from registry import ATOMS, HEADS, log_w, tiny_data, tiny_model
from registry import INDEPENDENT_STATES as PRIORS
from rpmodels import generative
from rpmodels.fitted import FittedRPM
from rpmodels.free_energy import free_energy
from rpmodels.learning import RPMObjective
from rpmodels.mixtures import Exact
from rpmodels.priors import CategoricalPrior
from rpmodels.seeding import seeded
from rpmodels.step import Step

priors = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
heads = pytest.mark.parametrize("head", HEADS)
point_priors = pytest.mark.parametrize("prior", [PRIORS[k] for k in ("uniform", "fixed", "learned")])


@point_priors
@heads
@pytest.mark.parametrize("n_factors", [2, 3])
def test_w_averages_to_one_over_the_grid_of_atoms(prior, head, n_factors):
    data = tiny_data(n_factors=n_factors)
    model, _ = tiny_model(prior(), data, head=head)
    everything = rp.read(every_tuple(data), series=True)
    assert float(log_w(model, everything).exp().mean()) == pytest.approx(1, abs=1e-12)


@point_priors
@heads
def test_marginal_of_the_latent_is_the_prior(prior, head):
    """Eq (3): Σ_X p(X, Z) = p(Z)."""
    model, _ = tiny_model(prior(), tiny_data(), head=head)
    p, f, mixtures = probabilities(model)
    joint = torch.einsum("k,ak,bk->abk", p, f[0] / mixtures[0], f[1] / mixtures[1]) / len(f[0]) ** 2
    torch.testing.assert_close(joint.sum((0, 1)), p, rtol=0, atol=1e-12)


@point_priors
@heads
def test_noise_contrast_with_log_w_as_its_critic(prior, head):
    """InfoNCE over all data is the score, less what single observations cost where F_j is not the prior."""
    data = tiny_data()
    model, observations = tiny_model(prior(), data, head=head)
    n = len(data["x0"])
    critic = log_w(model, rp.read(every_tuple(data), series=True)).reshape(n, n)
    contrast = (critic.diagonal() - critic.logsumexp(1)).mean() + np.log(n)
    p, f, mixtures = probabilities(model)
    alone = torch.log((p * f[0] / mixtures[0]).sum(-1))  # zero where F_1 is the prior
    torch.testing.assert_close(contrast, (log_w(model, observations) - alone).mean(), rtol=0, atol=1e-10)


@point_priors
@heads
def test_free_energy_is_the_log_likelihood_and_q_the_posterior(prior, head):
    """Eq (4) and (5) after the exact E-step, against direct enumeration of the states."""
    model, observations = tiny_model(prior(), tiny_data(n=7, n_factors=3), head=head)
    p, f, mixtures = probabilities(model)
    joint = p * torch.stack([each / mixture for each, mixture in zip(f, mixtures, strict=True)]).prod(0)
    energies = model.free_energies(observations, in_training=True)
    torch.testing.assert_close(energies.total, joint.sum(-1).log(), rtol=0, atol=1e-10)
    batch = observations.batch(np.arange(7), torch.float64, torch.device("cpu"))
    inferred = RPMObjective(model.pattern, observations).evaluate(batch)
    torch.testing.assert_close(inferred.energy.total, joint.sum(-1).log(), rtol=0, atol=1e-10)
    torch.testing.assert_close(inferred.posterior.log_partition, joint.sum(-1).log(), rtol=0, atol=1e-10)
    torch.testing.assert_close(inferred.posterior.mu[:, 0], joint / joint.sum(-1, keepdim=True), rtol=0, atol=1e-10)


@heads
def test_free_energy_is_below_the_log_likelihood_for_any_other_q(head):
    model, observations = tiny_model(PRIORS["fixed"](), tiny_data(), head=head)
    batch = observations.batch(np.arange(5), torch.float64, torch.device("cpu"))
    mixtures = {name: Exact().summarise(model.atoms(name)) for name in model.names}
    step = Step(model.prior, batch.sites, model.pattern.recognise(batch), mixtures)
    best = model.pattern.e_step(step, Exact())
    for seed in range(5):
        noise = torch.randn(5, 1, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        other = model.prior.condition(noise, batch.sites)
        energies = [free_energy(step, each, Exact(), batch.weights, 5.0).total for each in (best, other)]
        gap = energies[0] - energies[1]
        kl = model.prior.family.kl(other.eta, best.eta)[:, 0]
        torch.testing.assert_close(gap, kl, rtol=0, atol=1e-10)
        assert (gap > 0).all()


@priors
@heads
def test_dropping_a_factor_equals_marginalising_it(prior, head):
    data = tiny_data(n_factors=3)
    model, _ = tiny_model(prior(), data, head=head)
    n = 5
    repeated = {name: np.repeat(values, n, 0) for name, values in data.items()}
    repeated["x1"] = np.tile(data["x1"], (n, 1, 1))
    every = log_w(model, rp.read(repeated, series=True)).reshape(n, n).exp().mean(1)
    absent = {**data, "x1": np.full_like(data["x1"], np.nan)}
    dropped = log_w(model, rp.read(absent, series=True, known=model.specs)).exp()
    torch.testing.assert_close(dropped, every, rtol=0, atol=1e-12)
    fewer = {name: values for name, values in data.items() if name != "x1"}
    torch.testing.assert_close(log_w(model, rp.read(fewer, series=True, known=model.specs)).exp(), dropped)


@pytest.mark.parametrize("atoms", ATOMS)
def test_padding_permuting_and_empty_trials_change_nothing(atoms):
    data = tiny_data(n=6, sites=4)
    lengths = [4, 2, 3, 4, 1, 2]
    lists = {name: [v[:t] for v, t in zip(values, lengths, strict=True)] for name, values in data.items()}
    model, observations = tiny_model(PRIORS["fixed"](), lists, atoms=atoms)
    base = log_w(model, observations)
    order = np.array([3, 1, 5, 0, 2, 4])
    shuffled = {name: [values[i] for i in order] for name, values in lists.items()}
    other, permuted = tiny_model(PRIORS["fixed"](), shuffled, atoms=atoms)
    torch.testing.assert_close(log_w(other, permuted), base[order], rtol=0, atol=1e-10)
    # Longer padding, junk in the padded rows, and a trial with nothing in it.
    padded = {}
    for name, values in data.items():
        longer = np.full((7, 6, 3), 1e6)
        longer[:6, :4] = values
        padded[name] = longer
    there = np.zeros((7, 6), bool)
    for n, t in enumerate(lengths):
        there[n, :t] = True
    again, extended = tiny_model(PRIORS["fixed"](), padded, atoms=atoms, presence=dict.fromkeys(padded, there))
    values = log_w(again, extended)
    torch.testing.assert_close(values[:6], base, rtol=0, atol=1e-10)
    assert abs(float(values[6])) < 1e-12


def test_gradients_against_finite_differences_with_missing_rows():
    data = tiny_data(n=6)
    data["x0"][1] = np.nan
    data["x1"][4] = np.nan
    model, observations = tiny_model(CategoricalPrior.dirichlet(3, 0.7), data)
    batch = observations.batch(np.arange(6), torch.float64, torch.device("cpu"))
    objective = RPMObjective(model.pattern, observations)
    names, parameters = zip(*objective.named_parameters(), strict=True)

    def goal(*values: torch.Tensor) -> torch.Tensor:
        named = dict(zip(names, values, strict=True))
        return 6.0 * torch.func.functional_call(objective, named, (batch,))["free_energy"]

    assert torch.autograd.gradcheck(goal, tuple(p.detach().requires_grad_() for p in parameters), atol=1e-6)


def em(model: rp.RPM, observations: rp.Observations, iterations: int, inner: int) -> np.ndarray:
    """Full-batch EM: exact E-step, line-searched M-step of the factors, closed-form M-step of the prior."""
    objective = RPMObjective(model, observations)
    batch = observations.batch(np.arange(len(observations)), torch.float64, torch.device("cpu"))
    optimiser = torch.optim.LBFGS(model.recognition.parameters(), max_iter=inner, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = -objective(batch)["free_energy"]
        loss.backward()
        return loss

    curve = [float(objective(batch)["free_energy"].detach())]
    for _ in range(iterations):
        optimiser.step(closure)
        curve.append(float(objective(batch)["free_energy"].detach()))
        objective.after_step()
        curve.append(float(objective(batch)["free_energy"].detach()))
    return np.array(curve)


@priors
def test_em_with_a_line_searched_m_step_is_monotone(prior):
    random = np.random.default_rng(0)
    z = random.integers(3, size=60)
    centres = 2 * random.standard_normal((2, 3, 3))
    data = {f"x{j}": (centres[j][z] + 0.7 * random.standard_normal((60, 3)))[:, None] for j in range(2)}
    model, observations = tiny_model(prior(), data, sharpness=1.0)
    curve = em(model.pattern, observations, iterations=10, inner=3)
    assert (np.diff(curve) > -1e-10).all()
    assert curve[-1] > curve[0] + 0.3


@pytest.mark.parametrize("sharpness", [1.0, 30.0, 1000.0])
def test_held_out_scores_never_exceed_their_ceiling(sharpness):
    model, training = tiny_model(PRIORS["uniform"](), tiny_data(n=8), sharpness=sharpness)
    new = rp.read(tiny_data(n=300, seed=9), series=True, known=model.specs)
    energies = model.free_energies(new)
    assert (energies.total <= energies.log_atoms + 1e-9).all()
    torch.testing.assert_close(energies.log_atoms, torch.full((300,), 2 * np.log(9.0), dtype=torch.float64))
    mean = float(log_w(model, training).mean())
    assert mean <= model.ceiling(training) + 1e-12
    assert model.ceiling(training) == pytest.approx(np.log(3))


def _perfect(presence, weights, k=2, sites=1):
    """Every observation its own label, and factors certain of state n mod K."""
    n = len(weights)
    labels = np.tile(np.arange(n)[:, None], (1, sites))
    networks = {name: rp.recognition.LookupTable(n, k) for name in presence}
    model = rp.RPM(CategoricalPrior.uniform(k), networks, dtype=torch.float64)
    observations = rp.read(dict.fromkeys(presence, labels), series=True, presence=presence, weights=weights)
    model.prepare(observations)
    with torch.no_grad():
        for _, recogniser in model.recognisers():
            size = recogniser.network.weight.shape[0]
            recogniser.network.weight.copy_(50.0 * torch.eye(k, dtype=torch.float64)[torch.arange(size) % k])
    fitted = FittedRPM.collected(model, observations)
    share = torch.as_tensor(weights / weights.sum())
    return float((log_w(fitted, observations) * share).sum()), fitted.ceiling(observations)


def test_fit_ceiling_holds_with_very_unequal_weights_and_reaches_the_best_factors():
    n = np.arange(102)
    weights = np.where(n < 2, 1.0, 0.01)
    everywhere = np.ones(102, bool)
    score, ceiling = _perfect({"a": everywhere, "b": n < 2}, weights)
    assert 0.4 < score <= ceiling + 1e-12
    assert score == pytest.approx(ceiling, abs=1e-9)
    weights = np.where(n < 2, 1.0, 0.0)
    score, ceiling = _perfect({"a": everywhere, "b": everywhere}, weights)
    assert score == pytest.approx(np.log(2)) == pytest.approx(ceiling)


def test_fit_ceiling_with_missing_factors_and_weights():
    for seed in range(20):
        random = np.random.default_rng(seed)
        sites = 1 + seed % 2
        data = tiny_data(n=6, n_factors=3, seed=seed, sites=sites)
        presence = {name: random.random((6, sites)) < 0.7 for name in data}
        for have in presence.values():
            have[:2] = True
        weights = np.exp(2 * random.standard_normal(6))
        model, observations = tiny_model(
            PRIORS["uniform"](), data, sharpness=100.0, seed=seed, presence=presence, weights=weights,
            atoms=list(ATOMS)[seed // 2 % 2],
        )  # fmt: skip
        share = torch.as_tensor(weights / weights.sum())
        mean = float((log_w(model, observations) * share).sum())
        assert mean <= model.ceiling(observations) + 1e-9


def test_the_fit_ceiling_is_reached_by_perfect_factors():
    """Labels as observations: the posterior is certain, and the mean score is (J − 1) log K."""
    labels = np.tile(np.arange(3), 20)
    networks = {name: rp.recognition.LookupTable(3, 3) for name in "ab"}
    model = rp.RPM(PRIORS["uniform"](), networks, dtype=torch.float64)
    observations = rp.read({"a": labels, "b": labels})
    model.prepare(observations)
    with torch.no_grad():
        for recogniser in model.recognition:
            recogniser.network.weight.copy_(50 * torch.eye(3))
    fitted = FittedRPM.collected(model, observations)
    assert float(log_w(fitted, observations).mean()) == pytest.approx(np.log(3), abs=1e-10)
    assert fitted.ceiling(observations) == pytest.approx(np.log(3))


def test_a_score_does_not_depend_on_the_batch_it_came_in():
    model, _ = tiny_model(PRIORS["fixed"](), tiny_data(n=8))
    data = tiny_data(n=20, seed=5)
    together = log_w(model, rp.read(data, series=True), in_training=False)
    alone = torch.cat(
        [
            log_w(model, rp.read({k: v[i : i + 1] for k, v in data.items()}, series=True), in_training=False)
            for i in range(20)
        ]
    )
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


def test_paper_convention_counts_the_atoms():
    model, observations = tiny_model(PRIORS["uniform"](), tiny_data(n=8))
    energies = model.free_energies(observations, in_training=True)
    torch.testing.assert_close(energies.paper, energies.total - 2 * np.log(8.0))


def test_paper_convention_is_a_probability_over_the_grid_with_any_weights():
    data = tiny_data(n=4)
    weights = np.array([3.0, 1.0, 1.0, 0.5])
    model, observations = tiny_model(PRIORS["fixed"](), data, weights=weights)
    everything = rp.read(every_tuple(data), series=True)
    share = torch.as_tensor(weights / weights.sum())
    p0 = (share[:, None] * share[None, :]).flatten()
    assert float((p0 * log_w(model, everything).exp()).sum()) == pytest.approx(1, abs=1e-12)
    energies = model.free_energies(observations, in_training=True)
    torch.testing.assert_close(energies.log_atoms, -2 * share.log())


def test_the_scale_of_the_weights_means_nothing():
    data, new = tiny_data(n=5), rp.read(tiny_data(n=3, seed=4), series=True)
    weights = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    one, two = (tiny_model(PRIORS["fixed"](), data, weights=c * weights)[0] for c in (1.0, 0.01))
    torch.testing.assert_close(
        log_w(one, new, in_training=False), log_w(two, new, in_training=False), rtol=0, atol=1e-12
    )


def test_sample_weights_equal_repeated_observations():
    data = tiny_data(n=4)
    weighted, obs = tiny_model(PRIORS["fixed"](), data, weights=np.array([1.0, 2.0, 1.0, 3.0]))
    index = np.array([0, 1, 1, 2, 3, 3, 3])
    repeated, _ = tiny_model(PRIORS["fixed"](), {k: v[index] for k, v in data.items()})
    torch.testing.assert_close(log_w(weighted, obs), log_w(repeated, obs), rtol=0, atol=1e-12)


def test_conditional_weights_impute_and_sample_agree_with_enumeration():
    data = tiny_data(n=6)
    model, observations = tiny_model(PRIORS["fixed"](), data, weights=np.arange(1.0, 7.0))
    p, f, mixtures = probabilities(model)
    c = torch.arange(1.0, 7.0, dtype=torch.float64) / 21
    given = c[:, None] * f[1] / mixtures[1]
    states = torch.arange(3)[:, None]
    torch.testing.assert_close(generative.conditional_weights(model, "x1", states)[:, 0], given.T, rtol=0, atol=1e-12)
    # Σ_k p(k | x0) p(x1 = m | k), with x0 new (its own atom added; weights have mean 1, so they sum to 6).
    own = (6 * mixtures[0] + f[0]) / 7
    posterior = p * f[0] / own
    posterior = posterior / posterior.sum(-1, keepdim=True)
    expected = posterior @ given.T
    torch.testing.assert_close(generative.impute(model, observations, "x1").values[:, 0], expected, rtol=0, atol=1e-12)
    n = 200_000
    z, drawn = generative.sample(model, n, torch.Generator().manual_seed(0))
    joint = torch.einsum("k,ak,bk->ab", p, c[:, None] * f[0] / mixtures[0], given)
    counts = torch.bincount(6 * drawn["x0"][:, 0] + drawn["x1"][:, 0], minlength=36).reshape(6, 6) / n
    assert (counts - joint).abs().max() < 5 * (joint.max() / n) ** 0.5
    assert (torch.bincount(z[:, 0]) / n - p).abs().max() < 0.006


def test_lookup_tables_reach_the_maximum_of_latent_class_analysis():
    """With labels as observations the RPM's maximum is that of latent-class analysis (stepmix)."""
    from stepmix.stepmix import StepMix  # noqa: PLC0415

    random = np.random.default_rng(0)
    z = random.choice(2, 400, p=[0.6, 0.4])
    tables = random.dirichlet([0.6] * 4, size=(3, 2))
    x = np.stack([[random.choice(4, p=tables[j, k]) for k in z] for j in range(3)], 1)
    lca = StepMix(2, measurement="categorical", n_init=5, max_iter=1000, abs_tol=1e-10, rel_tol=0, random_state=0,
                  progress_bar=0, verbose=0)  # fmt: skip
    lca.fit(x)
    expected = lca.score(x)  # mean log-likelihood
    empirical = sum(np.log(np.bincount(x[:, j])[x[:, j]] / len(x)).mean() for j in range(3))
    observations = rp.read({f"x{j}": x[:, j] for j in range(3)})
    best = -np.inf
    for seed in range(2):
        with seeded(seed):
            networks = {f"x{j}": rp.recognition.LookupTable(4, 2) for j in range(3)}
        model = rp.RPM(CategoricalPrior.learned(2), networks, dtype=torch.float64)
        model.prepare(observations)
        best = max(best, float(em(model, observations, iterations=30, inner=5)[-1]))
    assert best + empirical == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("atoms", ATOMS)
def test_unequal_lengths_over_several_inference_batches(atoms, monkeypatch):
    """score, impute and sample when batches, new data and training differ in length."""
    data = tiny_data(n=6, sites=4)
    lengths = [4, 4, 3, 2, 2, 1]
    lists = {name: [v[:t] for v, t in zip(values, lengths, strict=True)] for name, values in data.items()}
    model, observations = tiny_model(PRIORS["fixed"](), lists, atoms=atoms)
    whole = log_w(model, observations), generative.impute(model, observations, "x1").values
    monkeypatch.setattr("rpmodels.model.RPM.at_once", lambda *_: 2)
    torch.testing.assert_close(log_w(model, observations), whole[0], rtol=0, atol=1e-12)
    imputed = generative.impute(model, observations, "x1").values
    there = observations.exists
    torch.testing.assert_close(imputed[there], whole[1][there], rtol=0, atol=1e-12)
    torch.testing.assert_close(imputed[there].sum(-1), torch.ones(int(there.sum()), dtype=torch.float64))
    longer = rp.read(tiny_data(n=2, sites=6, seed=3), series=True, known=model.specs)
    assert torch.isfinite(log_w(model, longer, in_training=False)).all()
    assert generative.impute(model, longer, "x1").values.shape[:2] == (2, 6)
    z, drawn = generative.sample(model, 3, torch.Generator().manual_seed(0))
    assert z.shape == drawn["x0"].shape == (3, 4)


def test_sites_without_atoms_have_no_conditional_weights():
    data = tiny_data(n=5, sites=3)
    presence = {"x0": np.ones((5, 3), bool), "x1": np.ones((5, 3), bool)}
    presence["x0"][:, 1] = False
    model, observations = tiny_model(PRIORS["uniform"](), data, presence=presence)
    weights = generative.conditional_weights(model, "x0", torch.zeros(1, 3, dtype=torch.int64))[0]
    assert weights.sum(-1).tolist() == [pytest.approx(1), 0, pytest.approx(1)]
    _, drawn = generative.sample(model, 4, torch.Generator().manual_seed(0))
    assert (drawn["x0"][:, 1] == -1).all()
    assert torch.isfinite(generative.impute(model, observations, "x0").values).all()


def test_per_site_atoms_of_one_site_say_nothing_about_others():
    model, _ = tiny_model(PRIORS["uniform"](), tiny_data(n=5))
    energies = model.free_energies(rp.read(tiny_data(n=2, sites=3, seed=1), series=True))
    torch.testing.assert_close(energies.log_atoms, torch.full((2,), 2 * np.log(6.0), dtype=torch.float64))


def test_draws_under_a_dirichlet_prior_use_the_mean_probabilities():
    model, _ = tiny_model(CategoricalPrior.dirichlet(3, 0.7), tiny_data())
    model.prior.simplex.count.copy_(torch.tensor([[4.5, 0.6, 0.6]]))
    z, _ = generative.sample(model, 50_000, torch.Generator().manual_seed(0))
    frequencies = torch.bincount(z[:, 0]) / 50_000
    assert (frequencies - model.prior.probabilities).abs().max() < 0.01


def test_observations_read_without_the_model_are_refused():
    labels = np.array(list("pqrpqr"))
    networks = {"a": rp.recognition.LookupTable(3, 2), "b": rp.recognition.LookupTable(3, 2)}
    model = rp.RPM(CategoricalPrior.uniform(2), networks)
    observations = rp.read({"a": labels, "b": labels})
    model.prepare(observations)
    fitted = FittedRPM.collected(model, observations)
    fewer = {"a": labels[labels != "p"], "b": labels[labels != "p"]}
    with pytest.raises(rp.RPModelsError, match=r"known=model\.specs"):
        list(fitted.posterior(rp.read(fewer)))
    with pytest.raises(rp.RPModelsError, match="do not match the model in b"):
        fitted.score(rp.read({"a": labels}))
    assert len(list(fitted.posterior(rp.read(fewer, known=fitted.specs)))) == 1


def test_one_factor_with_independent_sites_is_refused():
    with pytest.raises(rp.RPModelsError, match="2 sites that the prior holds independent"):
        tiny_model(PRIORS["uniform"](), tiny_data(n_factors=1, sites=2))
