"""How far is a fit from the best that is known? Its score beside those of longer training and of other seeds."""

import importlib
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sklearn.base import clone

from rpmodels import checks, errors
from rpmodels.channels import is_population
from rpmodels.estimators import RPMEstimator, plain_data
from rpmodels.evaluation.folds import Given
from rpmodels.learning.parallel import parallel_list
from rpmodels.seeding import spawn

THIS, LONGER, OTHER = "this fit", "longer", "other seed"
TINY = 1e-12
"""Nats that a best score is held to have at least, where a share of it is asked for."""
ROUNDING = 1e-4
"""Of numbers of atoms, relative."""
HEAD = ("", "score", "ceiling", "steps", "converged", "seconds", "stopped by")


@dataclass(frozen=True)
class GapRow:
    """One fit: what it reached, and how it ended."""

    name: str
    """"this fit", "longer" or "other seed"."""
    score: float
    """On the training data, in nats above independence per observation."""
    standard_error: float
    """Of the score: zero where every observation was scored, else that of a sample, the same one in all rows."""
    ceiling: float
    """The highest score that any model could have."""
    steps: int
    """Taken."""
    converged: bool | None
    """Whether more steps would have changed little; None where a file of the model does not say."""
    seconds: float
    """That the fit took; NaN where it was there before."""
    stop_reason: str
    """Why training stopped."""

    @property
    def cells(self) -> tuple[str, ...]:
        """As a line of a table."""
        error = f" ± {self.standard_error:.2g}" if self.standard_error else ""
        arrived = "unknown" if self.converged is None else "yes" if self.converged else "no"
        seconds = "before" if math.isnan(self.seconds) else f"{self.seconds:.1f}"
        score, ceiling = f"{self.score:.4f}{error}", f"{self.ceiling:.4f}"
        return self.name, score, ceiling, f"{self.steps}", arrived, seconds, self.stop_reason


@dataclass(frozen=True)
class Gap:
    """A fit beside others of the same model to the same data."""

    rows: tuple[GapRow, ...]
    """This fit, the longer one, and those of other seeds."""

    @property
    def best(self) -> float:
        """The highest score of all rows."""
        return self._highest.score

    @property
    def nats(self) -> float:
        """From this fit up to the best, per observation: never below zero."""
        return self.best - self.rows[0].score

    @property
    def percent(self) -> float:
        """The same, of the best."""
        return 100 * self.nats / max(abs(self.best), TINY)

    @property
    def spread(self) -> float:
        """From the lowest to the highest score of the seeds: this fit and the others, without the longer one."""
        scores = self._of_seeds
        return max(scores) - min(scores)

    def to_pandas(self) -> Any:
        """A DataFrame with a line for every fit, by its name."""
        try:
            pandas: Any = importlib.import_module("pandas")
        except ImportError as failure:
            raise errors.needs_package("to_pandas", "pandas", "pip install pandas") from failure
        return pandas.DataFrame([asdict(row) for row in self.rows]).set_index("name")

    def __repr__(self) -> str:
        return "\n".join([*_aligned([HEAD, *(row.cells for row in self.rows)]), self._sentence])

    @property
    def _highest(self) -> GapRow:
        return max(self.rows, key=lambda row: row.score)

    @property
    def _of_seeds(self) -> list[float]:
        return [row.score for row in self.rows if row.name != LONGER]

    @property
    def _sentence(self) -> str:
        seeds = f"{len(self._of_seeds)} seeds are {self.spread:.2g} apart"
        if self._highest is self.rows[0]:
            return (
                f"This fit is the best that is known, {self.best:.4f} nats above independence per observation; {seeds}."
            )
        return (
            f"This fit is {self.nats:.2g} nats per observation ({self.percent:.3g} %) below the best that is known, "
            f"{self.best:.4f} ({self._highest.name}); {seeds}."
        )


def gap(
    estimator: RPMEstimator,
    X: Any,
    *,
    longer: float = 10,
    n_runs: int = 3,
    random_state: int | None = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    **options: Any,
) -> Gap:
    """How much free energy of its training data a fit leaves to longer training, or to another seed.

    What nobody has found is not in it: the optimum may be higher than the best that is known. Nor is a higher training
    score always a better model: regularisation holds fits below it on purpose (`cross_validate` has held-out scores).

    Args:
        estimator: fitted to X, or not fitted: then it is fitted here from its own seed. Itself it is never changed
        X: as in `fit`
        longer: how many times as many steps the longer fit has, from the same seed
        n_runs: how many other seeds
        random_state: of the other seeds
        n_jobs: fits at once
        verbose: 1 for a progress bar, a step for every fit
        options: as in `fit` (times, inputs, presence, sample_weight)

    """
    checks.number("longer", longer, above=1.0)
    checks.integer("n_runs", n_runs, 1)
    steps = checks.integer("max_iter", estimator.max_iter, 1)
    given = Given(*plain_data(estimator, X, options, fitting=True))
    # An estimator without a seed is given one, so that the longer fit begins where this one does.
    *others, own = (seed % 2**31 for seed in spawn(random_state, n_runs + 1))
    same = {"random_state": own} if estimator.random_state is None else {}
    tasks: list[tuple[str, Mapping[str, Any]]] = [
        (THIS, same),
        (LONGER, {**same, "max_iter": max(steps + 1, round(longer * steps))}),
        *((OTHER, {"random_state": seed}) for seed in others),
    ]
    rows = []
    if hasattr(estimator, "score_"):
        _check_data(estimator, given)
        rows = [_row(THIS, estimator, math.nan)]
        tasks = tasks[1:]
    # What was fitted before need not travel to other processes.
    plain = clone(estimator)
    return Gap((*rows, *parallel_list(_fitted, tasks, n_jobs, plain, given, label="gap", verbose=verbose)))


def _check_data(model: RPMEstimator, given: Given) -> None:
    """Refuse data that the model was not fitted to, as far as its atoms tell: there is one for every site."""
    observations = model.read(given.X, **given.new)
    if "sample_weight" in given.beside:
        return  # new data have none: their atoms cannot be counted
    fitted = model.model_
    for name, present in observations.present.items():
        if is_population(fitted, name):  # it has no atoms; how many observations there were is known
            atoms, sites = fitted.n_observations, float(len(observations.usable()))
        else:
            atoms, sites = float(fitted.atoms(name).log_total.double().exp().sum()), float(present.sum())
        if not math.isclose(atoms, sites, rel_tol=ROUNDING):
            raise errors.not_its_training_data(type(model).__name__, name, round(atoms), round(sites))


def _fitted(task: tuple[str, Mapping[str, Any]], estimator: RPMEstimator, given: Given) -> GapRow:
    name, settings = task
    model = clone(estimator).set_params(**settings)
    start = time.perf_counter()
    with warnings.catch_warnings():
        if name != THIS:  # the table says how they ended, and this fit what it thinks of the data
            warnings.simplefilter("ignore", errors.RPModelsWarning)
        given.fit(model)
    return _row(name, model, time.perf_counter() - start)


def _row(name: str, model: RPMEstimator, seconds: float) -> GapRow:
    score = model.score_
    converged = getattr(model, "converged_", None)
    return GapRow(
        name,
        float(score),
        score.standard_error,
        score.ceiling,
        model.n_iter_,
        None if converged is None else bool(converged),
        seconds,
        model.stop_reason_,
    )


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Cells in columns: texts, which come first and last, to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = ["<", *">" * (len(widths) - 2), "<"]
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(line, sides, widths, strict=True)).rstrip()
        for line in lines
    ]
