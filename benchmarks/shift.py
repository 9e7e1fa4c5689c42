"""Frequencies of digits that have shifted: `adapt_prior` on unlabelled pairs of the new population.

One fit of pairs of scikit-learn's digits for each of five seeds; four shifts each, frequencies drawn from a
Dirichlet(½), pairs of test images. Digits are then told from one image or from both; beside it, what single images
teach. Writes docs/results/shift.json.

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
PAIRS = 500


def fit(seed: int) -> tuple[rp.RPCategorical, Any, NDArray[np.int64]]:
    images = rp.datasets.load_digit_images(random_state=seed)
    pairs, _ = rp.datasets.make_pairs(images.train_images, images.train_labels, random_state=seed)
    recognition = rp.Recognition(tied=True)
    model = rp.RPCategorical(10, prior="learned", recognition=recognition, random_state=seed).fit(pairs)
    matching = rp.metrics.match_states(images.train_labels, model.predict({"x1": images.train_images}), 10)
    return model, images, matching


def shift(model: rp.RPCategorical, images: Any, matching: NDArray[np.int64], seed: int) -> dict[str, float]:
    """One shift: pairs of test images drawn again, so that digits have other frequencies."""
    random = np.random.default_rng(seed)
    wanted = random.choice(10, PAIRS, p=random.dirichlet(np.full(10, CONCENTRATION)))
    places = [np.flatnonzero(images.test_labels == each) for each in wanted]
    pair = {name: images.test_images[[random.choice(each) for each in places]] for name in ("x1", "x2")}
    one = {"x1": pair["x1"]}
    found, by_one = model.adapt_prior(pair), model.adapt_prior(one)
    true = np.bincount(wanted, minlength=10) / PAIRS
    row = {"p_value": found.shift_.p_value}
    for name, each in (("before", model), ("after", found), ("by_one", by_one)):
        shares = np.zeros(10)
        np.add.at(shares, matching, each.prior_)
        row[f"error_{name}"] = float(np.abs(shares - true).sum())
        row[f"accuracy_of_one_{name}"] = float((matching[each.predict(one)] == wanted).mean())
        row[f"accuracy_of_pair_{name}"] = float((matching[each.predict(pair)] == wanted).mean())
    return row


def unshifted(model: rp.RPCategorical, images: Any, seed: int) -> float:
    """p of no shift where there is none: half of the test images."""
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
    print(f"error halved in {halved} of {len(rows)}; where there is no shift p = {np.round(none, 3)}")
    for what in ("one", "pair"):
        kept = sum(row[f"accuracy_of_{what}_after"] >= row[f"accuracy_of_{what}_before"] for row in rows)
        print(f"accuracy from {what} no lower in {kept}")
    if arguments.first == 0:
        columns = {name: [round(row[name], 6) for row in rows] for name in rows[0]}
        write_json(OUT, {**columns, "p_without_shift": none})


if __name__ == "__main__":
    main()
