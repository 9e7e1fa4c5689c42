"""Do restarts of RP-LDA agree? Ways of fitting the photographs by the spectra of their patches, a pair of seeds each.

python benchmarks/topic_agreement.py SEEDS WAY…: as in `1000,1001 default linear`. Patches are those of
`rpmodels run lda --preset paper`; log power spectra in fifty principal components stand for their pixels, so that a fit
takes seconds. 400 steps, two starts, α = 0.1, where a way says nothing else. One JSON line a way.
"""

import itertools
import json
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

import rpmodels as rp
from rpmodels.learning.spectra import spectral_features

WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "alpha 1": {"alpha": 1.0},
    "rate 5e-4": {"learning_rate": 5e-4},
    "6 starts": {"n_init": 6},
    "linear": {"network": "linear"},
    "linear, 6 starts": {"network": "linear", "n_init": 6},
    "800 steps, 4 starts": {"max_iter": 800, "n_init": 4},
    "1600 steps, 4 starts": {"max_iter": 1600, "n_init": 4},
}


def spectra() -> NDArray[np.float32]:
    """(100, 100, 50)."""
    images = rp.datasets.load_van_hateren()[:100]
    estimator = rp.RPLDA(10, patch_size=28, random_state=0)
    observations = estimator._read(images)
    model, _ = estimator.build(observations)
    model.prepare(observations)
    return spectral_features(model, observations, 0).reshape(*observations.exists.shape, -1).astype(np.float32)


def main(seeds: list[int], ways: list[str]) -> None:
    """Every way, as it comes."""
    x = spectra()
    for way in ways:
        begun, scores, topics = time.process_time(), [], []
        for seed in seeds:
            given: dict[str, Any] = {
                "alpha": 0.1,
                "patch_size": None,
                "max_iter": 400,
                "n_init": 2,
                "random_state": seed,
                **WAYS[way],
            }
            model = rp.RPLDA(10, **given).fit(x)
            scores.append(round(float(model.score_), 1))
            topics.append(model.predict(x).ravel())
        agreement = [round(adjusted_rand_score(a, b), 3) for a, b in itertools.combinations(topics, 2)]
        cpu = round(time.process_time() - begun, 1)
        print(json.dumps({"way": way, "seeds": seeds, "scores": scores, "adjusted_rand": agreement, "cpu": cpu}))


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1].split(",")], sys.argv[2:] or list(WAYS))
