"""What is missing comes back: bins, half-trials, whole factors, labels. Writes docs/results/missing.json.

python benchmarks/missing.py [bins|halves|factors|trials|labels …] [--seeds N]
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter1d

import rpmodels as rp
from rpmodels.persistence import write_json

OUT = Path(__file__).parent.parent / "docs" / "results" / "missing.json"
LEVEL = 0.9


def bins(seed: int) -> dict[str, float]:
    """The textured ball with 30 % of its bins missing: error at the bins that nobody saw."""
    data = rp.datasets.textured_ball(random_state=seed)
    gone = np.random.default_rng(seed).random(data.x.shape[:2]) < 0.3
    x = np.where(gone[..., None], np.nan, data.x)
    model = rp.RPGPFA(random_state=seed).fit(x)
    mean = model.transform(x)
    seen = (mean[~gone], data.z[~gone])
    return {"nmse_missing": rp.metrics.nmse(mean[gone], data.z[gone], *seen), "nmse_seen": rp.metrics.nmse(*seen)}


def halves(seed: int) -> dict[str, float]:
    """New trials whose second half is missing: coverage of the bands there, and the error with a periodic kernel."""
    data = rp.datasets.textured_ball(n_trials=100, random_state=seed)
    x, half = np.array(data.x[50:], float), data.x.shape[1] // 2
    x[:, half:] = np.nan
    found = {}
    for kernel in ("rbf", "periodic"):
        model = rp.RPGPFA(kernel=kernel, random_state=seed).fit(data.x[:50])
        mapped = rp.metrics.linear_map(model.transform(data.x[:50]), data.z[:50])
        q = model.posterior(x)
        mean, variance = rp.metrics.aligned(q.mean, q.covariance, *mapped)
        truth = data.z[50:]
        residual = np.square(mean - truth)[:, half:].sum() / np.square(truth - truth.mean((0, 1)))[:, half:].sum()
        found[f"nmse_{kernel}"] = float(residual)
        found[f"coverage_{kernel}"] = rp.metrics.coverage(mean[:, half:], variance[:, half:], truth[:, half:], LEVEL)
    return found


def factors(seed: int) -> dict[str, float]:
    """In-model data (linear-Gaussian views): coverage from both factors and from one alone."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((2000, 2))
    loadings = [rng.standard_normal((2, 6)) for _ in range(2)]
    x = {name: z @ each + rng.standard_normal((2000, 6)) for name, each in zip("ab", loadings, strict=True)}
    # In the model: one precision for all observations, not diagonal. Trained to the end, and without a penalty.
    recognition = rp.Recognition(precision="constant", covariance="full", input_dropout=0.0)
    model = rp.RPFA(
        2,
        network="linear",
        learning_rate=0.05,
        random_state=seed,
        recognition=recognition,
        training=rp.Training(weight_decay=0.0),
    )
    model.fit({name: values[:1000] for name, values in x.items()})
    new = {name: values[1000:] for name, values in x.items()}
    mapped = rp.metrics.linear_map(model.transform(new), z[1000:])
    found = {}
    for label, given in (("both", new), ("one", {"a": new["a"]})):
        q = model.posterior(given)
        mean, variance = rp.metrics.aligned(q.mean, q.covariance, *mapped)
        found[f"coverage_{label}"] = rp.metrics.coverage(mean, variance, z[1000:], LEVEL)
    return found


def trials(seed: int) -> dict[str, float]:
    """Two arrays, 40 trials of 25 to 59 bins, a tenth of the bins of one missing, all defaults."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(25, 60, 40)
    z = [gaussian_filter1d(rng.standard_normal(length + 40), 5.0)[20:-20, None] for length in lengths]
    scale = float(np.concatenate(z).std())
    z = [each / scale for each in z]
    x: dict[str, list[Any]] = {}
    for name, width in (("left", 12), ("right", 8)):
        weights, offsets = rng.standard_normal((1, width)), rng.uniform(-1, 1, width)
        x[name] = [np.tanh(each @ weights + offsets) + 0.3 * rng.standard_normal((len(each), width)) for each in z]
    for each in x["right"]:
        each[rng.random(len(each)) < 0.1] = np.nan
    model = rp.RPGPFA(random_state=seed).fit(x)
    both, one = model.transform(x), model.transform({"left": x["left"]})
    return {"r2_both": 1.0 - rp.metrics.nmse(both, z), "r2_one": 1.0 - rp.metrics.nmse(one, z)}


def labels(seed: int) -> dict[str, float]:
    """Pairs of digits, a tenth of them labelled: accuracy of the states, and of the labels that the model fills in.

    Both images of a pair are of one kind, so they share a network.
    """
    images = rp.datasets.load_digit_images(seed)
    pairs, classes = rp.datasets.make_pairs(images.train_images, images.train_labels, random_state=seed)
    known = np.random.default_rng(seed).random(len(classes)) < 0.1
    found = {}
    for name, given in (("without", pairs), ("with", {**pairs, "label": _masked(classes, known)})):
        model = rp.RPCategorical(10, recognition=rp.Recognition(tied=True), random_state=seed).fit(given)
        states, new = (_states(model, each) for each in (images.train_images, images.test_images))
        matching = rp.metrics.match_states(images.train_labels, states, 10)
        found[f"accuracy_{name}"] = float((matching[new] == images.test_labels).mean())
        found[f"score_{name}"] = float(model.score_)
        if name == "with":
            named = model.predict_label({"x1": images.test_images}, "label")
            found["accuracy_named"] = float((named.astype(int) == images.test_labels).mean())
    return found


def _states(model: rp.RPCategorical, images: Any) -> Any:
    return model.predict({"x1": images})


def _masked(classes: Any, known: Any) -> list[Any]:
    return [str(each) if have else None for each, have in zip(classes, known, strict=True)]


STUDIES: dict[str, Callable[[int], dict[str, float]]] = {
    each.__name__: each for each in (bins, halves, factors, trials, labels)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", nargs="*", choices=[[], *STUDIES], default=[])
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    results = json.loads(OUT.read_text()) if OUT.exists() else {}
    for name in arguments.studies or STUDIES:
        rows = [STUDIES[name](seed) for seed in range(arguments.seeds)]
        results[name] = {measure: [round(row[measure], 4) for row in rows] for measure in rows[0]}
        print(name, results[name], flush=True)
        write_json(OUT, results)


if __name__ == "__main__":
    main()
