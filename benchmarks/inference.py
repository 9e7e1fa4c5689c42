"""What latents of new data cost: `transform` and `posterior` against recognition and conditioning alone, in one run.

`python benchmarks/inference.py` prints a ratio for every estimator with continuous latents, at up to 30 000 sites,
the time of RPGPFA's transform against Elephant's GPFA (one thread), and what a fit spends after its last step.
"""

import argparse
import importlib
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

import rpmodels as rp
from rpmodels.inference import summed_potentials

ROUNDS = 7


def series(n: int, t: int, channels: int, unequal: bool, seed: int = 0) -> list[Any]:
    """Trials behind two smooth latents."""
    random = np.random.default_rng(seed)
    mixing = random.standard_normal((2, channels))
    lengths = random.integers(int(0.8 * t), int(1.2 * t) + 1, n) if unequal else np.full(n, t)
    trials = []
    for length in lengths:
        phases = random.uniform(0, 6, 2)
        latents = np.sin(0.1 * np.arange(length)[:, None] * [1.0, 1.7] + phases)
        trials.append(latents @ mixing + random.standard_normal((length, channels)))
    return trials


def views(n: int, seed: int = 0) -> dict[str, Any]:
    """Two views of two latents."""
    random = np.random.default_rng(seed)
    z = random.standard_normal((n, 2))
    return {name: z @ random.standard_normal((2, 20)) + random.standard_normal((n, 20)) for name in ("a", "b")}


def best(work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Seconds of processor time (one thread) of the fastest of some rounds, after one that warms up."""
    work()
    times = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def bare(model: Any, X: Any) -> Callable[[], Any]:
    """Reading, recognition and conditioning, written out: what no posterior can do without."""

    def work() -> list[Any]:
        fitted, found = model.model_, []
        with torch.no_grad():
            for batch, factors in fitted.pattern.recognised(model.read(X)):
                q = fitted.prior.condition(summed_potentials(factors), batch.sites)
                found.append((q.eta, batch))
        return found

    return work


def ratios() -> None:
    few: dict[str, Any] = {"n_init": 1, "max_iter": 2, "random_state": 0}
    cases: dict[str, tuple[Any, Any]] = {}
    for n in (2_000, 12_000, 30_000):
        cases[f"RPFA, {n} rows"] = rp.RPFA(2, **few), views(n)
    for n, t in ((50, 100), (300, 100)):
        cases[f"RPGPFA, per time, {n} × {t}"] = rp.RPGPFA(2, **few), np.stack(series(n, t, 30, False))
        cases[f"RPGPFA, pooled, {n} unequal × {t}"] = rp.RPGPFA(2, **few), series(n, t, 30, True)
        cases[f"RPLDS, pooled, {n} unequal × {t}"] = rp.RPLDS(2, **few), series(n, t, 30, True)
    print(f"{'':38} {'bare':>9} {'transform':>10} {'posterior':>10}")
    for name, (estimator, X) in cases.items():
        model = estimator.fit(X)
        least = best(bare(model, X))
        found = [best(partial(getattr(model, verb), X)) for verb in ("transform", "posterior")]
        print(f"{name:38} {1e3 * least:7.1f} ms {found[0] / least:9.2f}× {found[1] / least:9.2f}×", flush=True)


def against_elephant() -> None:
    """K = 8, 100 channels, 100 trials of 100 bins: both have been fitted for a moment only, the cost is the same."""
    # By name: these packages have no types.
    neo, units, elephant = map(importlib.import_module, ("neo", "quantities", "elephant.gpfa"))
    random = np.random.default_rng(0)
    rates = np.exp(0.3 * np.stack(series(100, 100, 100, False)) - 1.0)
    counts = random.poisson(np.minimum(rates, 5.0))
    spikes = [
        [
            neo.SpikeTrain(np.repeat(np.arange(100), trial[:, unit]) + 0.5, units="s", t_stop=100.0)
            for unit in range(100)
        ]
        for trial in counts
    ]
    theirs = elephant.GPFA(bin_size=1.0 * units.s, x_dim=8, em_max_iters=2)
    theirs.fit(spikes)
    seqs = elephant.gpfa_util.get_seqs(spikes, 1.0 * units.s)
    kept = theirs.has_spikes_bool
    for each in seqs:
        each["y"] = each["y"][kept]
    ours = rp.RPGPFA(8, n_init=1, max_iter=2, random_state=0).fit(counts.astype(float))
    inference = best(lambda: elephant.gpfa_core.exact_inference_with_ll(seqs, theirs.params_estimated, get_ll=False))
    whole = best(lambda: theirs.transform(spikes), 3)
    own = best(lambda: ours.transform(counts.astype(float)))
    print(
        f"RPGPFA.transform {1e3 * own:.1f} ms; Elephant's inference alone {1e3 * inference:.1f} ms "
        f"(ratio {own / inference:.2f}), its transform with binning {1e3 * whole:.1f} ms (ratio {own / whole:.2f})"
    )


def after_the_last_step() -> None:
    """A default fit of 300 unequal trials of about 100 bins."""
    ends: list[float] = []
    X = series(300, 100, 30, True)
    begun = time.perf_counter()
    clock = rp.Training(callbacks=[lambda _: ends.append(time.perf_counter())])
    model = rp.RPGPFA(2, random_state=0, training=clock).fit(X)
    done = time.perf_counter()
    share = (done - ends[-1]) / (done - begun)
    print(f"fit {done - begun:.1f} s, after the last step {done - ends[-1]:.2f} s ({share:.1%}); {model.score_!r}")


PARTS = {"ratios": ratios, "elephant": against_elephant, "closing": after_the_last_step}

if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    for part in parser.parse_args().parts:
        PARTS[part]()
