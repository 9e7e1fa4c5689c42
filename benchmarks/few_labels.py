"""Pinned and generative labels: beside logistic regression where all are known, beside no labels where few are.

Sets: three blocks of eight numbers behind three classes (`blocks`), the same with a nuisance that all blocks share and
no class knows (`nuisance`), pairs of scikit-learn's digits (`digits`). Writes docs/results/few-labels.json.

python benchmarks/few_labels.py [blocks|nuisance|digits …] [--seeds N] [--first N] [--only all|few]
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression

import rpmodels as rp
from rpmodels.persistence import write_json

OUT = Path(__file__).parent.parent / "docs" / "results" / "few-labels.json"
SETS = ("blocks", "nuisance", "digits")
SHARE = 0.1
"""Of the observations, labelled."""
LABEL = "label"


def blocks(seed: int, shared: float) -> tuple[Any, Any, Any, Any]:
    """600 observations to learn from and 2 000 others, of three blocks each."""
    random = np.random.default_rng(seed)
    z, nuisance = random.integers(3, size=2600), random.standard_normal((2600, 1))
    x = {}
    for name in ("first", "second", "third"):
        centres, direction = 0.7 * random.standard_normal((3, 8)), random.standard_normal((1, 8))
        x[name] = centres[z] + shared * nuisance @ direction + random.standard_normal((2600, 8))
    return _part(x, slice(600)), z[:600], _part(x, slice(600, None)), z[600:]


def digits(seed: int) -> tuple[Any, Any, Any, Any]:
    """Pairs to learn from; of the others single images."""
    images = rp.datasets.load_digit_images(random_state=seed)
    pairs, z = rp.datasets.make_pairs(images.train_images, images.train_labels, random_state=seed)
    return pairs, z, {"x1": images.test_images}, images.test_labels


def _part(x: Any, rows: slice) -> Any:
    return {name: each[rows] for name, each in x.items()}


def data(kind: str, seed: int) -> tuple[Any, Any, Any, Any]:
    return digits(seed) if kind == "digits" else blocks(seed, 0.5 if kind == "nuisance" else 0.0)


def fitted(kind: str, x: Any, labels: Any, seed: int, given: Any) -> rp.RPCategorical:
    """With labels as they are said to be, or without any."""
    recognition = rp.Recognition(tied=kind == "digits")
    size = 10 if kind == "digits" else 3
    factors = None if given is None else {LABEL: given}
    model = rp.RPCategorical(size, recognition=recognition, factors=factors, random_state=seed)
    return model.fit(x if labels is None else {**x, LABEL: labels})


def with_all(kind: str, seed: int) -> dict[str, float]:
    """Errors with all labels known in training, from all blocks and with one missing (of digits from one image)."""
    x, z, new, truth = data(kind, seed)
    model = fitted(kind, x, z.astype(str), seed, rp.Pinned())
    row = {}
    tests = {"one": new} if kind == "digits" else {"whole": new, "missing": {n: new[n] for n in ("first", "third")}}
    for name, some in tests.items():
        # Digits: of a pair both images are rows to learn from.
        rows = [np.concatenate([x[n].reshape(len(z), -1) for n in some], 1)]
        rows += [x["x2"].reshape(len(z), -1)] if kind == "digits" else []
        rival = LogisticRegression(max_iter=2000).fit(np.concatenate(rows), np.tile(z, len(rows)))
        seen = np.concatenate([each.reshape(len(truth), -1) for each in some.values()], 1)
        row[f"logistic_{name}"] = float((rival.predict(seen) != truth).mean())
        found = model.label_probabilities(some, LABEL)
        row[f"pinned_{name}"] = float((found.argmax(1) != truth).mean())
        row[f"calibration_{name}"] = calibration(found, truth)
    return row


def calibration(probabilities: NDArray[Any], truth: NDArray[Any], bins: int = 10) -> float:
    """Expected calibration error: |confidence − share that is right|, by tenths of confidence."""
    confidence, right = probabilities.max(1), probabilities.argmax(1) == truth
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    off = [abs((confidence - right)[place == each].sum()) for each in range(bins)]
    return float(np.sum(off) / len(truth))


def with_few(kind: str, seed: int) -> dict[str, float]:
    """Errors without labels (states named by all of them, which is to their favour), and with a tenth in two ways."""
    x, z, new, truth = data(kind, seed)
    known = np.random.default_rng(seed).random(len(z)) < SHARE
    labels = np.where(known, z.astype(str), "")
    without = fitted(kind, x, None, seed, None)
    names = rp.metrics.match_states(z, without.predict(x), 10 if kind == "digits" else 3)
    row = {"without": float((names[without.predict(new)] != truth).mean())}
    for name, given in (("pinned", rp.Pinned()), ("generative", rp.Generative())):
        model = fitted(kind, x, labels, seed, given)
        row[name] = float((model.predict_label(new, LABEL).astype(int) != truth).mean())
    return row


def compared(rows: list[dict[str, float]], name: str) -> str:
    """Mean difference to no labels, with its interval over seeds."""
    off = np.array([row[name] - row["without"] for row in rows])
    half = student.ppf(0.975, len(off) - 1) * off.std(ddof=1) / np.sqrt(len(off)) if len(off) > 1 else np.nan
    return f"{name}: {off.mean():+.4f} ± {half:.4f} (95 %), worse in {(off > 0).sum()} of {len(off)}, {off.max():+.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", choices=[[], *SETS], default=[])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", choices=("all", "few"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    results = json.loads(OUT.read_text()) if OUT.exists() else {}
    for kind in arguments.sets or SETS:
        for name, study in (("all", with_all), ("few", with_few)):
            if arguments.only not in (None, name):
                continue
            rows = []
            for seed in range(arguments.first, arguments.first + arguments.seeds):
                rows.append(study(kind, seed))
                print(kind, name, seed, {key: round(each, 4) for key, each in rows[-1].items()}, flush=True)
            print(kind, name, {key: round(float(np.mean([row[key] for row in rows])), 4) for key in rows[0]})
            if name == "few":
                print("\n".join(compared(rows, each) for each in ("pinned", "generative")), flush=True)
            results[f"{kind}, {name}"] = {key: [round(row[key], 5) for row in rows] for key in rows[0]}
            if arguments.first == 0:
                write_json(OUT, results)


if __name__ == "__main__":
    main()
