"""Frequencies of digits that have shifted: `adapt_prior` on unlabelled images of the new population.

One fit of pairs of scikit-learn's digits for each of five seeds; four shifts each, frequencies drawn from a
Dirichlet(½), on test images alone. Writes docs/results/shift.json.

python benchmarks/shift.py [--seeds N] [--shifts N] [--first N]
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rpmodels as rp
from rpmodels.persistence import write_json

OUT = Path(__file__).parent.parent / "docs" / "results" / "shift.json"
CONCENTRATION = 0.5
IMAGES = 500


def fit(seed: int) -> tuple[rp.RPCategorical, Any, NDArray[np.int64]]:
    images = rp.datasets.load_digit_images(random_state=seed)
    pairs, _ = rp.datasets.make_pairs(images.train_images, images.train_labels, random_state=seed)
    recognition = rp.Recognition(tied=True)
    model = rp.RPCategorical(10, prior="learned", recognition=recognition, random_state=seed).fit(pairs)
    matching = rp.metrics.match_states(images.train_labels, model.predict({"x1": images.train_images}), 10)
    return model, images, matching


def shift(model: rp.RPCategorical, images: Any, matching: NDArray[np.int64], seed: int) -> dict[str, float]:
    """One shift: test images drawn again, so that digits have other frequencies; one image an observation."""
    random = np.random.default_rng(seed)
    wanted = random.choice(10, IMAGES, p=random.dirichlet(np.full(10, CONCENTRATION)))
    labels = images.test_labels
    index = np.array([random.choice(np.flatnonzero(labels == each)) for each in wanted])
    x = {"x1": images.test_images[index]}
    found = model.adapt_prior(x)
    true = np.bincount(wanted, minlength=10) / IMAGES
    row = {"p_value": found.shift_.p_value}
    for name, each in (("before", model), ("after", found)):
        shares = np.zeros(10)
        np.add.at(shares, matching, each.prior_)
        row[f"error_{name}"] = float(np.abs(shares - true).sum())
        row[f"accuracy_{name}"] = float((matching[each.predict(x)] == wanted).mean())
    return row


def unshifted(model: rp.RPCategorical, images: Any, seed: int) -> float:
    """p of no shift where there is none: test images as they are, every other time drawn again."""
    index = np.random.default_rng(seed).choice(len(images.test_labels), len(images.test_labels) // 2, replace=False)
    return float(model.adapt_prior({"x1": images.test_images[index]}).shift_.p_value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--shifts", type=int, default=4)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, none = [], []
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        model, images, matching = fit(seed)
        for number in range(arguments.shifts):
            rows.append(shift(model, images, matching, 100 * seed + number))
            print(seed, {name: round(each, 4) for name, each in rows[-1].items()}, flush=True)
        none += [unshifted(model, images, number) for number in range(4)]
    halved = sum(row["error_after"] <= 0.5 * row["error_before"] for row in rows)
    kept = sum(row["accuracy_after"] >= row["accuracy_before"] for row in rows)
    print(f"error halved in {halved} of {len(rows)}, accuracy no lower in {kept}; no shift: p = {np.round(none, 3)}")
    if arguments.first == 0:
        columns = {name: [round(row[name], 6) for row in rows] for name in rows[0]}
        write_json(OUT, {**columns, "p_without_shift": none})


if __name__ == "__main__":
    main()
