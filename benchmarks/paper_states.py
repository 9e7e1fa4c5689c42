"""Peer supervision by the paper's own settings: one random start and nothing that leaves a poor optimum (figure A1).

python benchmarks/paper_states.py [seeds]: accuracy and the entropy of the average posterior on digits of scikit-learn.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import rpmodels as rp

FILE = Path(__file__).parent.parent / "docs/results/peer-supervision/paper-states.json"


def measured(seed: int) -> dict[str, float]:
    """One fit, judged on test images."""
    images = rp.datasets.load_digit_images(seed)
    pairs, _ = rp.datasets.make_pairs(images.train_images, images.train_labels, n_factors=2, random_state=seed)
    model = rp.RPCategorical(10, random_state=seed, **rp.presets.paper_states()).set_params(recognition__tied=True)
    begun = time.process_time()
    model.fit(pairs)
    seconds = time.process_time() - begun
    known, new = (model.recognise(each, "x1").argmax(1) for each in (images.train_images, images.test_images))
    matching = rp.metrics.match_states(images.train_labels, known, 10)
    return {
        "accuracy": float((matching[new] == images.test_labels).mean()),
        "entropy": rp.metrics.entropy_of_average(model.predict_proba({"x1": images.test_images})),
        "score_nats": float(model.score_),
        "cpu_seconds": seconds,
    }


def main(count: int) -> None:
    """Every seed, as it comes."""
    warnings.simplefilter("ignore", rp.RPModelsWarning)
    found: dict[str, list[float]] = {}
    for seed in range(count):
        for name, value in measured(seed).items():
            found.setdefault(name, []).append(round(value, 5))
        print(seed, {name: values[-1] for name, values in found.items()}, flush=True)
    accuracy = np.array(found["accuracy"])
    correlation = float(spearmanr(accuracy, found["entropy"]).statistic)
    print(f"accuracy {accuracy.mean():.3f} ± {accuracy.std():.3f}, rank correlation with the entropy {correlation:.2f}")
    FILE.write_text(json.dumps({"values": found, "rank_correlation": round(correlation, 3)}, indent=1) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
