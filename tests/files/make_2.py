"""How the files of format 2 were made; run once, never again: they stand for what users have on their disks.

python tests/files/make_2.py tests/files
"""

import json
import sys
from pathlib import Path

import numpy as np

import rpmodels as rp

FOLDER = Path(sys.argv[1])


def main() -> None:
    random = np.random.default_rng(0)
    z = random.integers(3, size=30)
    views = {"pixels": np.eye(3)[z] + 0.1 * random.standard_normal((30, 3)), "word": np.array(["no", "so", "yes"])[z]}
    model = rp.RPCategorical(3, max_iter=200, learning_rate=0.02, n_init=1, random_state=0).fit(views)
    model.save(FOLDER / "format-2-categorical")
    new = {name: x[:2] for name, x in views.items()}
    answers = {
        "categorical": {
            "x": {name: x.tolist() for name, x in new.items()},
            "predict_proba": model.predict_proba(new).tolist(),
            "score_samples": model.score_samples(new).tolist(),
        }
    }
    (FOLDER / "format-2.json").write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
