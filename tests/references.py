"""Numbers of small fits that a change of structure must leave as they are; `python tests/references.py` writes them.

All in double precision with few steps: what is left of rounding after them is far below the tolerance of the test.
"""

import json
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
from sklearn.base import clone

import rpmodels as rp
from data import clusters, waves
from jobs import together
from registry import made

FILE = Path(__file__).parent / "references.json"
COMMON = {"dtype": "float64", "random_state": 7}
ONCE = {**COMMON, "retries": 0}
"""What a collapsed fit does next is not asked here."""
BRIEF = {**ONCE, "finish": "none"}
"""Nor is the end of these: L-BFGS of five folds would take longer than all other cases together."""


class Killed(BaseException):
    """Stands for the end of the process."""


def pairs(seed, missing=0):
    x, _ = clusters(90, 4, 5, distance=1.5, noise=0.5, seed=seed)
    x["b"][: missing * 7 : 7] = np.nan
    return x


def smooth(seed, unequal):
    random = np.random.default_rng(seed)
    lengths = random.integers(9, 16, size=16) if unequal else np.full(44, 12)
    return waves(lengths, 4, period=3, noise=0.3, random=random, mixing=random.normal(size=(1, 4)))


def switching(seed):
    random = np.random.default_rng(seed)
    states = [np.cumsum(random.random(n) < 0.2) % 3 for n in random.integers(12, 20, size=12)]
    return [np.eye(3)[z] @ (2 * np.eye(3, 4)) + 0.6 * random.normal(size=(len(z), 4)) for z in states]


def words(seed):
    random = np.random.default_rng(seed)
    shares = random.dirichlet([0.4] * 3, 14)
    z = np.stack([random.choice(3, 15, p=each) for each in shares])
    return 2 * np.eye(3)[z] + 0.5 * random.normal(size=(14, 15, 3))


def values(found):
    """Results in one row."""
    parts = found if isinstance(found, list) else [found]
    return np.concatenate([np.asarray(part, float).ravel() for part in parts])


def states(model, new):
    return model.predict_proba(new)


def coordinates(model, new):
    return model.transform(new)


CASES = {
    "categorical": (made(rp.RPCategorical, 4, n_init=3, max_iter=40, prior="learned", **COMMON), pairs, states),
    "move": (made(rp.RPCategorical, 4, n_init=1, max_iter=120, **COMMON), pairs, states),
    "fa": (made(rp.RPFA, 2, n_init=2, max_iter=30, batch_size=40, **ONCE), pairs, coordinates),
    "fa, full": (made(rp.RPFA, 2, n_init=1, max_iter=15, covariance="full", **BRIEF), pairs, coordinates),
    "fa, refined": (made(rp.RPFA, 1, n_init=1, max_iter=10, e_step="natural_gradient", **BRIEF), pairs, coordinates),
    "fa, free": (
        made(rp.RPFA, 1, n_init=1, max_iter=15, e_step="free", expected_log_mixture="interior_free", **ONCE),
        pairs, coordinates,
    ),
    "fa, second order": (
        made(rp.RPFA, 2, n_init=1, max_iter=15, expected_log_mixture="second_order", **ONCE), pairs, coordinates,
    ),
    "fa, Monte Carlo": (
        made(rp.RPFA, 2, n_init=1, max_iter=15, expected_log_mixture="monte_carlo", **ONCE), pairs, coordinates,
    ),
    "fa, kernel density": (
        made(rp.RPFA, 1, n_init=1, max_iter=15, marginal="kernel_density", **ONCE), pairs, coordinates,
    ),
    "fa, remembered": (
        made(rp.RPFA, 1, n_init=1, max_iter=15, batch_size=30, **BRIEF).set_params(engine__atoms="remembered"),
        pairs, coordinates,
    ),
    "gpfa, per time": (
        made(rp.RPGPFA, 1, n_init=3, max_iter=24, **ONCE), lambda seed: np.stack(smooth(seed, False)), coordinates,
    ),
    "gpfa, pooled": (made(rp.RPGPFA, 2, n_init=1, max_iter=15, **ONCE), lambda seed: smooth(seed, True), coordinates),
    "gpfa, paper": (
        made(rp.RPGPFA, 1, **{**rp.presets.paper(), **ONCE, "max_iter": 15}),
        lambda seed: np.stack(smooth(seed, False)), coordinates,
    ),
    "lda": (made(rp.RPLDA, 3, n_init=2, max_iter=40, **COMMON), words, coordinates),
    "hmm": (made(rp.RPHMM, 3, n_init=2, max_iter=60, **COMMON), switching, states),
    "lds": (made(rp.RPLDS, 2, n_init=2, max_iter=15, **BRIEF), lambda seed: smooth(seed, True), coordinates),
}  # fmt: skip


def told(model, new, latents):
    """What there is to compare."""
    found = values(latents(model, new))
    return {
        "score": float(model.score_),
        "ceiling": float(model.score_.ceiling),
        "steps": model.n_iter_,
        "free_energy": [float(each) for each in model.history_["free_energy"][[0, -1]]],
        "restarts": [[each.kind, *each.free_energies] for each in model.restarts_],
        "new": [float(each) for each in model.score_samples(new)[:4]],
        "latents": [float(each) for each in found[:: max(1, len(found) // 12)][:12]],
    }


def measured(name):
    """Of one case."""
    estimator, data, latents = CASES[name]
    return told(estimator.fit(data(0)), data(1), latents)


def resumed(name):
    """Of the same fit, killed at one of its last steps and begun again from its checkpoint."""
    estimator, data, latents = CASES[name]
    last = round(0.7 * estimator.max_iter)  # lessons may have taken the others

    def kill(state):
        if state.step == last:
            raise Killed

    with tempfile.TemporaryDirectory() as folder:
        with suppress(Killed):
            clone(estimator).set_params(training__callbacks=[kill]).fit(data(0), checkpoint=folder, checkpoint_every=0)
        return told(estimator.fit(data(0), checkpoint=folder, checkpoint_every=0), data(1), latents)


if __name__ == "__main__":
    found = {name: measured(name) for name in CASES}
    found["in one process"] = {
        name: float(estimator.fit(data()).score_) for name, (estimator, data) in together.CASES.items()
    }
    FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
