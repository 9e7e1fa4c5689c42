"""Do data belong to those of a fit? Alarms on clean held-out data, and five defects, with four unlike models.

    python benchmarks/drift.py --fits 25 --sets 4 --models population rpfa hmm categorical --out docs/results/drift.json

Every fit has a world of its own; held-out sets are as large as the training set, and each defect is put into the first.
Alarms are findings of `rp.evaluation.belonging`; those of all of `diagnose` are counted beside them.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rpmodels as rp
from rpmodels.evaluation import belonging, diagnose
from rpmodels.observations import read
from rpmodels.profile import departures, profile_of

Data = dict[str, Any]
BRIEF: dict[str, Any] = {"n_init": 1, "search": rp.Search(retries=0)}
QUICK = {**BRIEF, "training": rp.Training(finish="none")}
DIAGNOSED = 3
"""Fits of which the whole diagnosis is counted: its draws from the model take longer than all else."""
EXPECTED = {
    "drift of 0.5 sd": ("shifted",),
    "an empty trial": ("empty trials",),
    "a shifted trial": ("odd trials",),
    "an artefact": ("shifted", "other spread", "beyond the range", "other company"),
    "a swapped pair": ("exchanged channels", "other company"),
    "another rate": ("other rate",),
}
"""Names of findings that say what is wrong."""


# ---- worlds ---------------------------------------------------------------------------------------


def population(seed: int, n: int = 60, sites: int = 40) -> Callable[[np.random.Generator, int], Data]:
    """Poisson counts of 20 units behind two slow latents."""
    where = np.random.default_rng([seed, 1])
    loadings, base = 0.6 * where.standard_normal((2, 20)), where.uniform(-1.0, 0.5, 20)
    periods = where.uniform(3.0, 8.0, 2)

    def draw(random: np.random.Generator, step: int = 1) -> Data:
        phase = random.uniform(0, 2 * np.pi, (n, 1, 2))
        z = 1.4 * np.sin(step * np.arange(sites)[:, None] / periods + phase)
        return {"spikes": random.poisson(np.exp(z @ loadings + base)).astype(float)}

    return draw


def views(seed: int, n: int = 200) -> Callable[[np.random.Generator, int], Data]:
    """Three sensors of six numbers, linear in two latents."""
    where = np.random.default_rng([seed, 1])
    loadings = {name: where.standard_normal((2, 6)) for name in ("left", "right", "touch")}
    offset = {name: 3.0 * where.standard_normal(6) for name in loadings}

    def draw(random: np.random.Generator, _: int = 1) -> Data:
        z = random.standard_normal((n, 2))
        return {m: z @ w + offset[m] + random.standard_normal((n, 6)) for m, w in loadings.items()}

    return draw


def chain(seed: int, n: int = 60, sites: int = 40) -> Callable[[np.random.Generator, int], Data]:
    """Two sensors of five numbers behind three states that last."""
    where = np.random.default_rng([seed, 1])
    means = {name: 1.5 * where.standard_normal((3, 5)) for name in ("sound", "camera")}
    stay = where.uniform(0.85, 0.95)

    def draw(random: np.random.Generator, step: int = 1) -> Data:
        state = random.integers(3, size=(n, sites * step))
        for t in range(1, sites * step):
            state[:, t] = np.where(random.random(n) < stay, state[:, t - 1], state[:, t])
        state = state[:, ::step]
        return {name: each[state] + random.standard_normal((n, sites, 5)) for name, each in means.items()}

    return draw


def classes(seed: int, n: int = 300) -> Callable[[np.random.Generator, int], Data]:
    """Two sensors of six numbers that share one of four classes."""
    where = np.random.default_rng([seed, 1])
    centres = {name: 1.5 * where.standard_normal((4, 6)) + 2.0 * where.standard_normal(6) for name in ("a", "b")}

    def draw(random: np.random.Generator, _: int = 1) -> Data:
        state = random.integers(4, size=n)
        return {name: each[state] + random.standard_normal((n, 6)) for name, each in centres.items()}

    return draw


MODELS: dict[str, tuple[Callable[[int], Any], Callable[[int], Any], bool]] = {
    "population": (population, lambda seed: rp.RPGPFA(2, max_iter=20, n_inducing=8, random_state=seed, **QUICK), True),
    "rpfa": (views, lambda seed: rp.RPFA(2, max_iter=60, random_state=seed, **QUICK), False),
    "hmm": (chain, lambda seed: rp.RPHMM(3, max_iter=40, random_state=seed, **QUICK), True),
    "categorical": (classes, lambda seed: rp.RPCategorical(4, max_iter=100, random_state=seed, **BRIEF), False),
}
"""The world, the estimator, and whether there is time."""


# ---- defects --------------------------------------------------------------------------------------


def defects(clean: Data, draw: Any, random: np.random.Generator, in_time: bool) -> dict[str, Data]:
    """New data with one of the defects each."""
    name = sorted(clean)[0]
    counted = bool((clean[name] == np.round(clean[name])).all())
    channels = clean[name].shape[-1]
    axes = tuple(range(clean[name].ndim - 1))
    found: dict[str, Data] = {}
    found["drift of 0.5 sd"] = {
        each: x + (random.poisson(0.5 * x.std(axes), x.shape) if counted else 0.5 * x.std(axes))
        for each, x in clean.items()
    }
    empty, noisy, swapped = (clean[name].copy() for _ in range(3))
    empty[len(empty) // 3] = 0.0
    away = {each: x.copy() for each, x in clean.items()}
    for each in away.values():
        each[len(each) // 3] += np.round(9.0 * each.std(axes)) if counted else 9.0 * each.std(axes)
    unit = int(random.integers(channels))
    noise = 5.0 * noisy[..., unit].std() * random.standard_normal(noisy.shape[:-1])
    noisy[..., unit] = np.round(np.abs(noise)) if counted else noise + noisy[..., unit].mean()
    one, other = random.choice(channels, 2, replace=False)
    swapped[..., [one, other]] = swapped[..., [other, one]]
    found |= {"an empty trial": {**clean, name: empty}, "a shifted trial": away, "an artefact": {**clean, name: noisy}}
    found["a swapped pair"] = {**clean, name: swapped}
    if in_time:
        found["another rate"] = draw(random, 2)
    return found


def alone(kind: str, seed: int) -> dict[str, Any]:
    """The same without a fit: a profile of the data alone, and one clean set; all questions but what a model says."""
    world, _, in_time = MODELS[kind]
    draw = world(seed)
    old = read(draw(np.random.default_rng([seed, 2])), series=in_time)
    profile, new = profile_of(old, {}), draw(np.random.default_rng([seed, 3, 0]))

    def asked(data: Data) -> list[Any]:
        return departures(profile, read(data, series=in_time, known=old.specs))

    row: dict[str, Any] = {"model": kind, "seed": seed, "alarms": [[each.text for each in asked(new)]], "defects": {}}
    row |= {"of the fit": [each.text for each in profile.own], "diagnosis": None, "seconds": {}}
    for what, data in defects(new, draw, np.random.default_rng([seed, 4]), in_time).items():
        names = {each.name for each in asked(data)}
        row["defects"][what] = sorted(names) if names & set(EXPECTED[what]) else f"MISSED: {sorted(names)}"
    return row


# ---- one draw -------------------------------------------------------------------------------------


def one(kind: str, seed: int, sets: int, with_defects: bool, with_diagnosis: bool) -> dict[str, Any]:
    """A world, a fit, so many clean held-out sets, and each defect in the first of them."""
    world, make, in_time = MODELS[kind]
    draw = world(seed)
    training = draw(np.random.default_rng([seed, 2]))
    new = [draw(np.random.default_rng([seed, 3, number])) for number in range(sets)]
    began = time.process_time()
    model = make(seed).fit(training)
    fitted = time.process_time()
    alarms = [[f"{each.name}: {each.text}" for each in belonging(model, data)] for data in new]
    asked = time.process_time()
    row: dict[str, Any] = {
        "model": kind, "seed": seed, "alarms": alarms,
        "diagnosis": [each.name for each in diagnose(model, new[0]).findings] if with_diagnosis else None,
        "of the fit": [each.text for each in belonging(model, training)],
        "seconds": {"fit": fitted - began, "belonging": (asked - fitted) / sets},
    }  # fmt: skip
    if with_defects:
        row["defects"] = {}
        for what, data in defects(new[0], draw, np.random.default_rng([seed, 4]), in_time).items():
            names = {each.name for each in belonging(model, data)}
            row["defects"][what] = sorted(names) if names & set(EXPECTED[what]) else f"MISSED: {sorted(names)}"
    return row


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Per model: held-out sets with an alarm, and how often each defect was found."""
    found: dict[str, Any] = {}
    for kind in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == kind]
        seen = [row["defects"] for row in own if "defects" in row]
        found[kind] = {
            "fits": len(own),
            "clean sets": sum(len(row["alarms"]) for row in own),
            "with an alarm": sum(bool(each) for row in own for each in row["alarms"]),
            "fits with one on their own data": sum(bool(row["of the fit"]) for row in own),
            f"of the first {DIAGNOSED} fits with any finding of diagnose": sum(bool(row["diagnosis"]) for row in own),
            "found": {
                what: f"{sum(isinstance(each[what], list) for each in seen)} of {len(seen)}"
                for what in (seen[0] if seen else {})
            },
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--fits", type=int, default=25)
    parser.add_argument("--sets", type=int, default=4, help="clean held-out sets of each fit")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--defects", type=int, default=20, help="fits with which the defects are tried")
    parser.add_argument("--alone", action="store_true", help="profiles of data alone, without fits")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", rp.RPModelsWarning)
    rows: list[dict[str, Any]] = []
    for kind in options.models:
        for number in range(options.fits):
            seed, tried = options.first + number, number < options.defects
            rows.append(
                alone(kind, seed) if options.alone else one(kind, seed, options.sets, tried, number < DIAGNOSED)
            )
            print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
            if options.out:
                content = {"summary": summary(rows), "rows": rows}
                options.out.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(summary(rows), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
