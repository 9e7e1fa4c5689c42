"""Is what `fit` returns the maximum? Simulated data that the models are right about, at several sizes and seeds.

python benchmarks/optimum.py [--models fa hmm lds gp] [--networks linear mlp] [--sizes 50 200 800] [--seeds 0 1 2]
    [--against longer truth]

For every fit: its score, that of new data, the error of what was learnt of the truth, and, of what --against names, the
score of a fit ten times as long, that of linear networks begun at the true latents, and the gap between the fit and the
best of these in per cent. With several sizes the slope of log error on log N closes the table: of the root mean square
over seeds and of the median, each with its standard error by drawing seeds anew. Topics (of vectors: lda; of words:
words, with --networks auto) are there for their slope alone.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from numpy.typing import NDArray

import rpmodels as rp

Array = NDArray[np.float64]
NEW = 200
BINS = 25
WORDS = 12
TOPICS = ("lda", "words")
AGAINST = ("longer", "truth")
ALPHA = 0.3
LABELS = {"fa": "log precision", "hmm": "transitions", "lds": "eigenvalue", "gp": "log length scale", "lda": "topics"}
"""What the error of a model is one of, in the figure."""
DRAWS = 1000
"""Of the seeds, for standard errors."""


@dataclass(frozen=True)
class Truth:
    """Data to learn from, new data, the latents of the former, and what an estimator should find."""

    x: Any
    new: Any
    z: NDArray[Any]
    error: Callable[[Any], float]


def views(n: int, seed: int) -> Truth:
    """Three views of five channels, linear in one latent, of precisions 24, 16 and 16."""
    random, world = np.random.default_rng(seed), np.random.default_rng(10_000 + seed)
    z = random.standard_normal((n + NEW, 1))
    x, precisions = {}, (24.0, 16.0, 16.0)
    for j, precision in enumerate(precisions):
        loadings = world.standard_normal((1, 5))
        loadings *= np.sqrt(precision / np.square(loadings).sum())
        x[f"x{j}"] = z @ loadings + random.standard_normal((n + NEW, 5))

    def error(model: Any) -> float:
        """Of log precisions, each factor's mean over the data."""
        found = [1.0 / model.recognise(x[f"x{j}"][:n], f"x{j}")[1][:, 0, 0] - 1.0 for j in range(3)]
        logs = [np.log(np.mean(each)) - np.log(true) for each, true in zip(found, precisions, strict=True)]
        return float(np.sqrt(np.mean(np.square(logs))))

    return Truth({k: v[:n] for k, v in x.items()}, {k: v[n:] for k, v in x.items()}, z[:n], error)


def chain(n: int, seed: int) -> Truth:
    """Three states behind four channels."""
    random, world = np.random.default_rng(seed), np.random.default_rng(10_000 + seed)
    steps = 0.8 * np.eye(3) + 0.2 * world.dirichlet(np.ones(3), 3)
    centres = 1.2 * world.standard_normal((3, 4))
    z = np.zeros((n + NEW, BINS), int)
    z[:, 0] = random.integers(3, size=n + NEW)
    for t in range(1, BINS):
        z[:, t] = (steps[z[:, t - 1]].cumsum(1) < random.random((n + NEW, 1))).sum(1).clip(max=2)
    x = centres[z] + random.standard_normal((n + NEW, BINS, 4))

    def error(model: Any) -> float:
        """Mean absolute error of the transitions, states in the best order."""
        order = rp.metrics.match_states(z[:n].ravel(), model.predict(x[:n]).ravel(), 3)
        back = np.argsort(order)
        return float(np.abs(model.transitions_[np.ix_(back, back)] - steps).mean())

    return Truth(x[:n], x[n:], z[:n], error)


def dynamics(n: int, seed: int) -> Truth:
    """Two latents that turn and fade, behind five channels."""
    random, world = np.random.default_rng(seed), np.random.default_rng(10_000 + seed)
    angle, modulus = 0.4, 0.95
    step = modulus * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    z = np.zeros((n + NEW, BINS, 2))
    z[:, 0] = random.standard_normal((n + NEW, 2))
    for t in range(1, BINS):
        z[:, t] = z[:, t - 1] @ step.T + np.sqrt(1 - modulus**2) * random.standard_normal((n + NEW, 2))
    x = z @ (0.7 * world.standard_normal((2, 5))) + random.standard_normal((n + NEW, BINS, 5))

    def error(model: Any) -> float:
        """Of the eigenvalue of A."""
        found = model.eigenvalues_[0]
        return float(abs(complex(found.real, abs(found.imag)) - modulus * np.exp(1j * angle)))

    return Truth(x[:n], x[n:], z[:n], error)


def smooth(n: int, seed: int) -> Truth:
    """One smooth latent of length scale 4 behind five channels."""
    random, world = np.random.default_rng(seed), np.random.default_rng(10_000 + seed)
    t = np.arange(BINS)
    root = np.linalg.cholesky(np.exp(-0.5 * np.square((t[:, None] - t) / 4.0)) + 1e-8 * np.eye(BINS))
    z = (random.standard_normal((n + NEW, BINS)) @ root.T)[..., None]
    loadings = world.standard_normal((1, 5))
    loadings *= np.sqrt(4.0 / np.square(loadings).sum())
    x = z @ loadings + random.standard_normal((n + NEW, BINS, 5))

    def error(model: Any) -> float:
        """Of the log length scale."""
        return float(abs(np.log(model.length_scales_[0] / 4.0)))

    return Truth(x[:n], x[n:], z[:n], error)


def parts(n: int, seed: int) -> Truth:
    """Observations of 25 parts, each of one of three topics, behind the four channels of `chain`."""
    random, world = np.random.default_rng(seed), np.random.default_rng(10_000 + seed)
    centres = 1.2 * world.standard_normal((3, 4))
    z = _topics_of_parts(random, n + NEW)
    x = centres[z] + random.standard_normal((n + NEW, BINS, 4))

    def error(model: Any) -> float:
        """Mean absolute error of the topics' centres, topics in the best order."""
        back = _order(model, x[:n], z[:n])
        share = model.recognise(x[:n]).reshape(-1, 3)[:, back]
        return float(np.abs((share / share.sum(0)).T @ x[:n].reshape(-1, 4) - centres).mean())

    return Truth(x[:n], x[n:], z[:n], error)


def words(n: int, seed: int) -> Truth:
    """Texts of 25 words out of twelve, of three topics."""
    random, world = np.random.default_rng(seed), np.random.default_rng(10_000 + seed)
    topics = world.dirichlet(np.full(WORDS, 0.3), 3)
    z = _topics_of_parts(random, n + NEW)
    x = (topics[z].cumsum(-1) < random.random((n + NEW, BINS, 1))).sum(-1).clip(max=WORDS - 1)

    def error(model: Any) -> float:
        """Mean absolute error of p(word given topic), topics in the best order."""
        back = _order(model, x[:n], z[:n])
        share = model.recognise(x[:n]).reshape(-1, 3)[:, back]
        found = np.stack([share[x[:n].ravel() == word].sum(0) for word in range(WORDS)])
        return float(np.abs((found / found.sum(0)).T - topics).mean())

    return Truth(x[:n], x[n:], z[:n], error)


def _topics_of_parts(random: np.random.Generator, n: int) -> NDArray[np.int64]:
    mixtures = random.dirichlet(np.full(3, ALPHA), n)
    found: NDArray[np.int64] = (mixtures.cumsum(1)[:, None] < random.random((n, BINS, 1))).sum(-1).clip(max=2)
    return found


def _order(model: Any, x: Any, z: NDArray[np.int64]) -> NDArray[np.int64]:
    """The model's number of every true topic."""
    return np.argsort(rp.metrics.match_states(z.ravel(), model.predict(x).ravel(), 3))


MODELS: dict[str, tuple[Callable[..., Any], int, Callable[[int, int], Truth]]] = {
    "fa": (rp.RPFA, 1, views),
    "hmm": (rp.RPHMM, 3, chain),
    "lds": (rp.RPLDS, 2, dynamics),
    "gp": (rp.RPGPFA, 1, smooth),
    "lda": (partial(rp.RPLDA, alpha=ALPHA), 3, parts),
    "words": (partial(rp.RPLDA, alpha=ALPHA), 3, words),
}


def one(task: tuple[str, str, int, int], against: Sequence[str]) -> dict[str, Any]:
    """A row of the table."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    name, network, n, seed = task
    kind, size, make = MODELS[name]
    made = partial(kind, size, network=network, random_state=seed)
    truth = make(n, seed)
    model = made()
    began = time.process_time()
    model.fit(truth.x)
    seconds = time.process_time() - began
    score = float(model.score_)
    row = {
        "model": name, "network": network, "n": n, "seed": seed, "score": score, "new": float(model.score(truth.new)),
        "error": truth.error(model), "seconds": seconds, "converged": bool(model.converged_),
        "stopped": model.stop_reason_,
    }  # fmt: skip
    others = {}
    if "longer" in against:
        longer = made(max_iter=10 * model.max_iter).fit(truth.x)
        others["longer"] = float(longer.score_)
        row["new, longer"] = float(longer.score(truth.new))
    if "truth" in against and network == "linear" and name not in TOPICS:
        others["from the truth"] = float(made(search=rp.Search(start=truth.z), n_init=1).fit(truth.x).score_)
    if not others:
        return row
    best = max(score, *others.values())
    return {**row, **others, "gap": 100.0 * (best - score) / abs(best)}


def told(rows: Sequence[dict[str, Any]]) -> str:
    """The table: a line for every model, network and size, and the slopes."""
    lines = []
    for name, network in dict.fromkeys((row["model"], row["network"]) for row in rows):
        own = [row for row in rows if (row["model"], row["network"]) == (name, network)]
        cells = {n: [row for row in own if row["n"] == n] for n in sorted({row["n"] for row in own})}
        lines += [f"{name} {network} N={n}: {_cell(some)}" for n, some in cells.items()]
        if len(cells) > 1:
            lines.append(f"{name} {network}: {_slopes({n: _errors(some) for n, some in cells.items()})}")
    return "\n".join(lines)


def _cell(rows: Sequence[dict[str, Any]]) -> str:
    gaps = [row["gap"] for row in rows if "gap" in row]
    within, errors = sum(gap <= 1.0 for gap in gaps), _errors(rows)
    converged = sum(row["converged"] for row in rows)
    return (
        f"within 1 % {within} of {len(gaps)} (worst gap {max(gaps, default=np.nan):.2f} %), converged {converged} of "
        f"{len(rows)}, new {np.mean([row['new'] for row in rows]):.3f}, error {_rms(errors):.4f} (median "
        f"{np.median(errors):.4f}), {np.mean([row['seconds'] for row in rows]):.1f} s"
    )


def _errors(rows: Sequence[dict[str, Any]]) -> Array:
    return np.array([row["error"] for row in rows])


def _rms(errors: Array) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def _slopes(errors: Mapping[int, Array]) -> str:
    """Of log error on log N, with standard errors."""
    random, found = np.random.default_rng(0), []
    for label, summary in (("root mean squares", _rms), ("medians", np.median)):

        def slope(some: Mapping[int, Array], summary: Callable[[Array], Any] = summary) -> float:
            return float(np.polyfit(np.log(list(some)), np.log([summary(each) for each in some.values()]), 1)[0])

        draws = [slope({n: random.choice(each, len(each)) for n, each in errors.items()}) for _ in range(DRAWS)]
        found.append(f"{slope(errors):.2f} ± {np.std(draws):.2f} by {label}")
    return "slope of log error on log N " + ", ".join(found)


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Error against N of every model, beside N^−½: points are seeds, lines root mean squares."""
    figure, axes = plt.subplots(1, len(LABELS), figsize=(2.2 * len(LABELS), 2.4), layout="constrained")
    for axis, (name, label) in zip(axes, LABELS.items(), strict=True):
        own = [row for row in rows if row["model"] == name and row["network"] == "linear"]
        sizes = sorted({row["n"] for row in own})
        errors = [_rms(_errors([row for row in own if row["n"] == n])) for n in sizes]
        axis.loglog([row["n"] for row in own], [row["error"] for row in own], ".", color="0.7")
        axis.loglog(sizes, errors, "o-")
        if sizes:
            axis.loglog(sizes, errors[0] * np.sqrt(sizes[0] / np.array(sizes)), "k:", lw=1)
        axis.set_title(label, fontsize=9)
        axis.set_xticks([50, 200, 800], ["50", "200", "800"])
        axis.minorticks_off()
    figure.supxlabel("N", fontsize=9)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--networks", nargs="+", default=["linear", "mlp"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 200, 800])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--against", nargs="*", default=AGAINST, choices=AGAINST, help="what fits are compared with")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a file of lines of JSON, added to as rows are finished")
    parser.add_argument("--figure", type=Path, help="error against N, linear networks")
    given = parser.parse_args()
    known: list[dict[str, Any]] = []
    if given.out is not None and given.out.exists():
        known = [json.loads(line) for line in given.out.read_text(encoding="utf-8").splitlines()]
    done = {(row["model"], row["network"], row["n"], row["seed"]) for row in known}
    tasks = [task for task in product(given.models, given.networks, given.sizes, given.seeds) if task not in done]
    with ProcessPoolExecutor(given.jobs) as pool:
        for row in pool.map(partial(one, against=given.against), tasks):
            known.append(row)
            if given.out is not None:
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    print(told([row for row in known if row["model"] in given.models and row["network"] in given.networks]))
    if given.figure is not None:
        draw(known, given.figure)
