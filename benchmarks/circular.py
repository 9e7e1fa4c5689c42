"""Headings behind bell-tuned neurons, a compass and a flow of five channels: are angles found, do intervals hold?

python benchmarks/circular.py [--seeds 0 1 2]
"""

import argparse
import time
import warnings

import numpy as np
from numpy.typing import NDArray

import rpmodels as rp

TRAINING, NEW = 800, 500
LEVEL = 0.9
Array = NDArray[np.float64]


def headings(n: int, seed: int) -> tuple[dict[str, Array], Array]:
    """Sensors, and the angles behind them."""
    random, world = np.random.default_rng(seed), np.random.default_rng(seed + 5000)
    z = random.uniform(-np.pi, np.pi, n)
    preferred = world.uniform(-np.pi, np.pi, 30)
    rates = 3.0 * np.exp(2.0 * (np.cos(z[:, None] - preferred) - 1.0))
    counts = random.poisson(rates).astype(float)
    compass = np.c_[np.cos(z), np.sin(z)] + 0.4 * random.standard_normal((n, 2))
    seen = np.c_[np.cos(z - 1.0), np.sin(z - 1.0)] @ world.standard_normal((2, 5))
    return {"neurons": counts, "compass": compass, "flow": seen + 0.5 * random.standard_normal((n, 5))}, z


def one(seed: int) -> str:
    """A line of figures: rows of the fit, then new rows, both by the turn that the rows of the fit ask for."""
    x, z = headings(TRAINING + NEW, seed)
    parts = (slice(TRAINING), slice(TRAINING, None))
    began = time.process_time()
    model = rp.RPCircular(random_state=seed).fit({name: each[parts[0]] for name, each in x.items()})
    seconds = time.process_time() - began
    texts = []
    sign, offset = 1.0, 0.0
    for part in parts:
        found = model.posterior({name: each[part] for name, each in x.items()})
        if part is parts[0]:
            sign, offset = rp.metrics.angle_map(found.angle, z[part])
        left = rp.metrics.wrapped(z[part] - sign * found.angle - offset)
        low, high = found.interval(LEVEL)
        inside = np.abs(left) <= 0.5 * (high - low)
        texts.append(f"resultant {np.abs(np.exp(1j * left).mean()):.3f}, covered {inside.mean():.3f}")
    return f"seed {seed}: fit {texts[0]}; new {texts[1]}; score {float(model.score_):.3f}; {seconds:.0f} s of CPU"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    for each in parser.parse_args().seeds:
        print(one(each), flush=True)
