"""How the files of format 1 were made; run once, never again: they stand for what users have on their disks.

python tests/files/make.py tests/files
"""

import json
import sys
from pathlib import Path

import numpy as np

import rpmodels as rp

FOLDER = Path(sys.argv[1])
BRIEF = {"max_iter": 200, "learning_rate": 0.02, "n_init": 1, "random_state": 0}


def main() -> None:
    random = np.random.default_rng(0)
    z = random.integers(3, size=30)
    views = {"pixels": np.eye(3)[z] + 0.1 * random.standard_normal((30, 3)), "word": np.array(["no", "so", "yes"])[z]}
    paths = np.cumsum(random.standard_normal((8, 6, 1)), 1)
    trials = {"left": paths + 0.1 * random.standard_normal((8, 6, 3)), "right": -paths}
    states = rp.RPCategorical(3, prior=1.0, **BRIEF).fit(views)
    latents = rp.RPGPFA(1, n_inducing=4, targets={"right": [0]}, retries=0, **BRIEF).fit(trials)
    states.save(FOLDER / "format-1-categorical")
    latents.save(FOLDER / "format-1-gpfa")
    new = {name: x[:2] for name, x in views.items()}, {name: x[:2] for name, x in trials.items()}
    answers = {
        "categorical": {"x": {name: x.tolist() for name, x in new[0].items()},
                        "predict_proba": states.predict_proba(new[0]).tolist(),
                        "score_samples": states.score_samples(new[0]).tolist()},
        "gpfa": {"x": {name: x.tolist() for name, x in new[1].items()},
                 "transform": latents.transform(new[1]).tolist(),
                 "score_samples": latents.score_samples(new[1]).tolist()},
    }  # fmt: skip
    (FOLDER / "format-1.json").write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
