"""The discrete autoencoders: their parts against hand-made cases, their fits against k-means with as many codes."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.cluster import KMeans

import rpmodels as rp
from rpmodels.baselines import VQVAE, GumbelVAE, GumbelVQVAE
from rpmodels.estimators.categorical import INTERVAL
from rpmodels.observations import Unscaled
from rpmodels.paper.baselines.autoencoders import Autoencoder
from rpmodels.paper.baselines.decoders import Decoder, log_likelihood
from rpmodels.paper.baselines.quantisers import (
    GumbelCodes,
    GumbelLogits,
    NearestCode,
    Temperature,
    divergence_from_uniform,
    gumbel_softmax,
)
from rpmodels.paper.baselines.recognisers import PeerImage, SameImage
from rpmodels.recognition import MLP

K, SIDE = 4, 6
MODELS = (VQVAE, GumbelVAE, GumbelVQVAE)
BRIEF = {"max_iter": 400, "n_init": 2, "learning_rate": 3e-3, "batch_size": 100, "dropout": 0.0, "random_state": 0}


def patches(n=300, seed=0, noise=0.1):
    """Pairs of noisy copies of the same one of K patterns, and which."""
    rng = np.random.default_rng(seed)
    patterns = np.random.default_rng(1).random((K, SIDE, SIDE))
    z = rng.integers(K, size=n)
    draw = lambda: np.clip(patterns[z] + noise * rng.standard_normal((n, SIDE, SIDE)), 0, 1).astype(np.float32)  # noqa: E731
    return {"x1": draw(), "x2": draw()}, z


@pytest.fixture(scope="module")
def fits():
    pairs, z = patches()
    return pairs, z, {kind: kind(K, **BRIEF).fit(pairs) for kind in MODELS}


@pytest.mark.parametrize("kind", MODELS)
def test_the_criterion_rises_and_the_error_is_that_of_k_means(fits, kind):
    pairs, z, models = fits
    model = models[kind]
    values = model.history_["free_energy"]
    assert values[-20:].mean() > values[:20].mean() + 1.0
    rows = np.concatenate(list(pairs.values()))
    bound = KMeans(K, n_init=4, random_state=0).fit(rows.reshape(len(rows), -1)).inertia_ / rows.size
    assert np.square(model.reconstruct(rows) - rows).mean() < 1.1 * bound
    new, truth = patches(seed=5)
    matching = rp.metrics.match_states(z, model.predict(pairs["x1"]), K)
    assert (matching[model.predict(new["x2"])] == truth).mean() > 0.98


@pytest.mark.parametrize("kind", MODELS)
def test_what_a_fit_offers(fits, kind):
    pairs, _, models = fits
    model, x = models[kind], pairs["x1"]
    proba = model.predict_proba(x)
    assert proba.shape == (len(x), K)
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-5)
    np.testing.assert_array_equal(model.predict(x), proba.argmax(1))
    made = model.reconstruct(x)
    assert made.shape == x.shape
    assert len(np.unique(made.reshape(len(x), -1), axis=0)) <= K
    assert model.n_iter_ == len(model.history_["free_energy"]) == BRIEF["max_iter"]
    assert len(model.restarts_) == 2
    compared = round(INTERVAL * model.n_iter_)
    best = max(each.free_energies[0] for each in model.restarts_)  # by the training criterion, and by nothing else
    assert best == pytest.approx(model.history_["free_energy"][:compared][-10:].mean())
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert not hasattr(again, "model_")
    assert kind().set_params(n_states=7, target="peer").get_params()["n_states"] == 7


@pytest.mark.parametrize("kind", MODELS)
def test_the_same_number_gives_the_same_fit(kind):
    pairs, _ = patches(80)
    brief = {"max_iter": 12, "n_init": 2, "batch_size": 30}
    torch.rand(3)  # whatever the global generators did
    first = kind(K, random_state=3, **brief).fit(pairs)
    before = torch.random.get_rng_state()
    second = kind(K, random_state=3, **brief).fit(pairs)
    assert torch.equal(before, torch.random.get_rng_state())
    np.testing.assert_array_equal(first.predict_proba(pairs["x1"]), second.predict_proba(pairs["x1"]))
    np.testing.assert_array_equal(first.history_["free_energy"], second.history_["free_energy"])
    other = kind(K, random_state=4, **brief).fit(pairs)
    assert not np.array_equal(first.history_["free_energy"], other.history_["free_energy"])


def test_codes_are_running_means_of_their_embeddings():
    quantiser = NearestCode(2, 1, commitment=0.5, decay=0.75)
    quantiser.codes.copy_(torch.tensor([[0.0], [10.0]]))
    quantiser.started.fill_(True)
    raw = torch.tensor([[1.0], [2.0], [12.0], [3.0]])
    quantised = quantiser(raw)
    torch.testing.assert_close(quantised.codes, torch.tensor([[0.0], [0.0], [10.0], [0.0]]))
    torch.testing.assert_close(quantised.pull, 0.5 * torch.tensor([1.0, 4.0, 4.0, 9.0]))
    np.testing.assert_allclose(quantised.cost, np.log(2))
    quantiser.after_step()
    # Shares 1/2 before, 3/4 and 1/4 in the batch; sums 0 and 5 before, 6/4 and 12/4 in the batch.
    shares = 0.75 * np.array([0.5, 0.5]) + 0.25 * np.array([0.75, 0.25])
    sums = 0.75 * np.array([0.0, 5.0]) + 0.25 * np.array([1.5, 3.0])
    np.testing.assert_allclose(quantiser.shares, shares, atol=1e-6)
    np.testing.assert_allclose(quantiser.codes[:, 0], sums / shares, atol=1e-6)
    for _ in range(80):  # the same batch for ever: the means of those who chose
        quantiser(raw)
        quantiser.after_step()
    np.testing.assert_allclose(quantiser.codes[:, 0], [2.0, 12.0], atol=1e-5)


def test_dead_codes_start_again_at_embeddings():
    quantiser = NearestCode(2, 1, commitment=0.25, decay=0.5)
    quantiser.codes.copy_(torch.tensor([[0.0], [1000.0]]))
    quantiser.started.fill_(True)
    raw = torch.tensor([[1.0], [1.0], [-1.0]])
    for _ in range(4):
        assert float(quantiser.codes[1]) == 1000.0
        quantiser(raw)
        quantiser.after_step()
    assert abs(float(quantiser.codes[1])) == 1.0
    quantiser.reset_parameters()
    quantiser(raw + 5.0)
    assert set(quantiser.codes.flatten().tolist()) <= {4.0, 6.0}  # the first batch brings the codes


def test_gradients_go_straight_through():
    quantiser = NearestCode(3, 2, commitment=0.0, decay=0.9)
    raw = torch.randn(5, 2, requires_grad=True)
    weights = torch.randn(5, 2)
    (quantiser(raw).codes * weights).sum().backward()
    torch.testing.assert_close(raw.grad, weights)  # as if the choice were not there


@pytest.mark.parametrize("quantiser", [
    NearestCode(K, 5, 0.25, 0.9),
    GumbelLogits(K, Temperature(0.5, 0.5, 1)),
    GumbelCodes(K, 5, Temperature(0.5, 0.5, 1)),
])  # fmt: skip
def test_the_reconstruction_teaches_the_encoder(quantiser, generator):
    network = MLP((SIDE, SIDE), quantiser.n_in, (8,))
    model = Autoencoder(network, quantiser, Decoder(quantiser.n_code, torch.zeros(SIDE, SIDE)), Unscaled(), SameImage())
    batch = rp.read(patches(20)[0]).batch(np.arange(20), torch.float32, torch.device("cpu"))
    model.terms(batch, 20.0)["log_likelihood"].backward()
    assert all(float(p.grad.abs().max()) > 0 for p in network.parameters())
    assert all(float(p.grad.abs().max()) > 0 for p in model.decoder.parameters())


def test_gumbel_samples_and_their_limits():
    logits = torch.log(torch.tensor([0.5, 0.3, 0.2])).expand(20_000, 3)
    samples = gumbel_softmax(logits, 0.5)
    torch.testing.assert_close(samples.sum(1), torch.ones(len(samples)))
    cold = gumbel_softmax(logits, 1e-3)
    assert float(cold.max(1).values.mean()) > 0.999
    np.testing.assert_allclose(cold.mean(0), [0.5, 0.3, 0.2], atol=0.015)  # a categorical distribution's
    hot = gumbel_softmax(logits, 1e3)
    np.testing.assert_allclose(hot, 1 / 3, atol=0.02)


def test_the_cost_is_the_divergence_from_the_uniform_prior():
    q = torch.tensor([[0.7, 0.2, 0.1], [1 / 3, 1 / 3, 1 / 3]])
    expected = (q * torch.log(q * 3)).sum(1)
    torch.testing.assert_close(divergence_from_uniform(q.log() + 4.0), expected, atol=1e-6, rtol=0)


def test_the_temperature_falls_to_its_end():
    temperature = Temperature(2.0, 0.5, 10)
    found = []
    for _ in range(12):
        found.append(temperature())
        temperature.step.add_(1)
    assert found[0] == 2.0
    assert found[5] == pytest.approx(1.0)
    assert found[10] == found[11] == pytest.approx(0.5)
    pairs, _ = patches(40)
    model = GumbelVAE(K, temperature=0.1, max_iter=5, n_init=1, random_state=0).fit(pairs)
    assert model.model_.quantiser.temperature() == pytest.approx(0.1)


def test_the_likelihood_is_a_gaussian_whose_noise_is_estimated():
    random = np.random.default_rng(0)
    images, means = (torch.as_tensor(random.standard_normal((7, 3, 2))) for _ in range(2))
    variance = ((images - means) ** 2).mean()
    expected = torch.distributions.Normal(means, variance.sqrt()).log_prob(images).sum((1, 2))
    torch.testing.assert_close(log_likelihood(images, means), expected)
    wider = torch.distributions.Normal(means, 1.1 * variance.sqrt()).log_prob(images).sum()
    assert float(expected.sum()) > float(wider)


def test_the_peer_target_is_the_other_image():
    pairs, _ = patches(30)
    pairs["x3"] = pairs["x1"] * 0.5
    batch = rp.read(pairs).batch(np.arange(30), torch.float32, torch.device("cpu"))
    seen, wanted = PeerImage()(batch)
    np.testing.assert_array_equal(seen, np.concatenate([pairs["x1"], pairs["x2"], pairs["x3"]]))
    np.testing.assert_array_equal(wanted, np.concatenate([pairs["x2"], pairs["x3"], pairs["x1"]]))
    seen, wanted = SameImage()(batch)
    np.testing.assert_array_equal(seen, wanted)


def test_missing_images_have_no_peers():
    pairs, _ = patches(30)
    pairs["x2"][:10] = np.nan
    batch = rp.read(pairs).batch(np.arange(30), torch.float32, torch.device("cpu"))
    seen, wanted = PeerImage()(batch)
    np.testing.assert_array_equal(seen, np.concatenate([pairs["x1"][10:], pairs["x2"][10:]]))
    np.testing.assert_array_equal(wanted, np.concatenate([pairs["x2"][10:], pairs["x1"][10:]]))
    assert len(SameImage()(batch)[0]) == 50
    for target in ("same", "peer"):
        model = GumbelVAE(K, target=target, max_iter=5, n_init=1, random_state=0).fit(pairs)
        assert np.isfinite(model.predict_proba(pairs["x1"])).all()


def test_codes_of_peers_know_nothing_but_what_is_shared():
    """x2 is dark where x1 is bright: the decoder of x1's code must emit x2's patterns."""
    pairs, z = patches()
    views = {"x1": pairs["x1"], "x2": 1.0 - pairs["x2"]}
    bright, dark = (rows[z == 0].mean(0) for rows in views.values())
    # Both ways: the patterns of either view have codes of their own.
    model = GumbelVAE(2 * K, target="peer", **{**BRIEF, "n_init": 4, "first_temperature": 2.0}).fit(views)
    made = model.reconstruct(views["x1"][z == 0]).mean(0)
    assert np.square(made - dark).mean() < 0.1 * np.square(made - bright).mean()


def test_one_array_and_vectors_will_do():
    pairs, _ = patches(60)
    alone = VQVAE(K, max_iter=5, n_init=1, random_state=0).fit(pairs["x1"])
    assert alone.reconstruct(pairs["x2"]).shape == pairs["x2"].shape
    vectors = np.random.default_rng(0).standard_normal((50, 3))
    model = GumbelVQVAE(3, max_iter=5, n_init=1, random_state=0).fit({"a": vectors, "b": vectors})
    assert model.reconstruct(vectors).shape == (50, 3)


def test_bytes_are_seen_in_the_unit_interval():
    images = np.random.default_rng(0).integers(0, 256, (40, 16, 16), np.uint8)  # large enough for the convolutions
    model = VQVAE(2, max_iter=3, n_init=1, random_state=0).fit({"x1": images, "x2": images})
    assert 0.3 < float(model.reconstruct(images).mean()) < 0.7
    assert type(model.model_.recognition).__name__ == "ConvolutionalNetwork"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: VQVAE(target="other").fit(x), "target: expected .*same.*peer"),
        (lambda x: VQVAE(target="peer").fit(x["x1"]), "at least 2 factors"),
        (lambda x: VQVAE(1).fit(x), "n_states"),
        (lambda x: VQVAE(n_embedding=0).fit(x), "n_embedding"),
        (lambda x: VQVAE(commitment=-1.0).fit(x), "commitment"),
        (lambda x: VQVAE(decay=1.0).fit(x), "decay"),
        (lambda x: GumbelVAE(temperature=0.0).fit(x), "temperature"),
        (lambda x: GumbelVQVAE(first_temperature=-1.0).fit(x), "first_temperature"),
        (lambda x: GumbelVAE(n_init=0).fit(x), "n_init"),
        (lambda x: GumbelVAE(weight_decay="much").fit(x), "weight_decay"),
        (lambda x: GumbelVAE().fit({"x1": x["x1"], "x2": x["x2"][:, :3]}), "one event shape"),
        (lambda x: GumbelVAE().fit({"x1": np.arange(40)}), "one event shape"),
        (lambda x: GumbelVAE().predict(x["x1"]), "not fitted"),
        (lambda x: GumbelVAE().reconstruct(x["x1"]), "not fitted"),
        (lambda x: GumbelVAE(max_iter=1, n_init=1).fit(x).predict(x["x1"][:, :3]), "shape"),
        (lambda x: GumbelVAE(max_iter=1, n_init=1).fit(x).predict(x["x1"] * np.nan), "numbers in every row"),
    ],
)
def test_bad_input_gets_a_sentence(call, words):
    with pytest.raises(Exception, match=words):
        call(patches(40)[0])
