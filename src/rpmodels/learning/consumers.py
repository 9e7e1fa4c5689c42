"""Small consumers of the loop's state: history, progress, and stopping on a plateau."""

import importlib
import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm.auto import tqdm

from rpmodels import checks, errors
from rpmodels.communicator import Communicator
from rpmodels.learning.convergence import Trend, trend
from rpmodels.learning.loop import GOAL, State


class HistoryTable(dict[str, NDArray[Any]]):
    """The columns of a history by name, one value a step: a dict that prints in a line."""

    def __repr__(self) -> str:
        values = self.get(GOAL)
        if values is None or not len(values):
            return "history of no steps"
        names = ", ".join(name for name in self if name != "step")
        steps = f"{len(values)} step{'s' * (len(values) != 1)}"
        return f"history of {steps}: free energy {values[0]:.4g} to {values[-1]:.4g} nats per observation ({names})"

    def to_pandas(self) -> Any:
        """A DataFrame with a column for every term, by step."""
        try:
            pandas: Any = importlib.import_module("pandas")
        except ImportError as failure:
            raise errors.needs_package("to_pandas", "pandas", "pip install pandas") from failure
        return pandas.DataFrame(dict(self)).set_index("step")


@dataclass(frozen=True)
class Record:
    """How a model was trained."""

    history: HistoryTable
    steps: int
    stop_reason: str
    validation_curve: list[dict[str, float]]
    converged: bool
    """Whether more steps would have changed little."""


class History:
    """Every named term of every step."""

    def __init__(self) -> None:
        self._rows: list[dict[str, float]] = []

    def __call__(self, state: State) -> None:
        """Keep a row."""
        self._rows.append({"step": state.step, **state.terms, "learning_rate": state.learning_rate})

    def recent(self, window: int) -> float:
        """Mean free energy of the last steps; steps that had to be rescued do not count."""
        good = self._last(window)
        return float(good.mean()) if len(good) else -math.inf

    def noise(self, window: int) -> float:
        """Standard error of that mean."""
        good = self._last(window)
        return float(good.std(ddof=1) / math.sqrt(len(good))) if len(good) > 1 else 0.0

    def _last(self, window: int) -> NDArray[np.float64]:
        values = np.array([row[GOAL] for row in self._rows[-window:]], np.float64)
        return values[np.isfinite(values)]

    def trend(self) -> Trend | None:
        """Of the free energy over the last steps at full rate."""
        table = self.table()
        return trend(table[GOAL], table["learning_rate"]) if table else None

    @property
    def any_finite(self) -> bool:
        """Whether any step at all went well."""
        return any(math.isfinite(row[GOAL]) for row in self._rows)

    def table(self) -> HistoryTable:
        """Columns by name."""
        names = self._rows[0] if self._rows else {}
        return HistoryTable({name: np.array([row[name] for row in self._rows]) for name in names})

    def restore(self, table: Mapping[str, Any]) -> None:
        """The rows of a table."""
        columns = {name: np.asarray(values).tolist() for name, values in table.items()}
        self._rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


class Plateau:
    """Stops when the mean free energy of a window of steps is no better than that of the window before it."""

    def __init__(self, tolerance: float, window: int) -> None:
        self._tolerance = tolerance
        self._window = window
        self._values: deque[float] = deque(maxlen=2 * window)

    def state(self) -> dict[str, Any]:
        """What it has seen."""
        return {"values": list(self._values)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """As if it had seen that."""
        self._values.extend(state["values"])

    def __call__(self, state: State) -> None:
        """Remember the value; ask to stop on a plateau."""
        self._values.append(state.terms[GOAL])
        if len(self._values) < 2 * self._window or state.step % self._window:
            return
        values = np.array(self._values)
        before, after = values[: self._window], values[self._window :]
        if after.mean() - before.mean() < self._tolerance:
            state.stop_reason = (
                f"plateau: {after.mean() - before.mean():+.2g} nats over the last {self._window} steps "
                f"(tol {self._tolerance:.2g})"
            )


class TimeLimit:
    """Stops after so many seconds of the final run, counted from its first step."""

    def __init__(self, seconds: float) -> None:
        self._seconds = checks.number("seconds", seconds, above=0.0)
        self._start = math.inf
        self._step = -1

    def __call__(self, state: State) -> None:
        """Look at the clock; a step that is not later than the last one begins another run."""
        now = time.monotonic()
        if state.step <= self._step or math.isinf(self._start):
            self._start = now
        self._step = state.step
        if now - self._start > self._seconds:
            state.stop_reason = f"time limit: {self._seconds:g} s, {state.step} steps"


class Progress:
    """One tqdm line."""

    def __init__(self, total: int, enabled: bool, label: str, start: int = 0) -> None:
        self._bar = tqdm(total=total, initial=start, disable=not enabled, desc=label, leave=False)

    def __call__(self, state: State) -> None:
        """Advance."""
        self._bar.update(1)
        if state.step % 10 == 0:
            self._bar.set_postfix_str(f"F = {state.terms[GOAL]:.3f} nats", refresh=False)

    def advance(self, told: str) -> None:
        """One unit of work done, outside the loop."""
        self._bar.update(1)
        self._bar.set_postfix_str(told)

    def close(self) -> None:
        """Remove the line."""
        self._bar.close()


@runtime_checkable
class Saver(Protocol):
    """A consumer that keeps a run somewhere."""

    def __call__(self, state: State) -> None:
        """After a step."""

    def now(self) -> None:
        """At once."""


def stop_together(state: State, others: Communicator) -> None:
    """All processes stop when one has a reason to (a clock, a callback of the user's)."""
    if others.size > 1 and float(others.summed(torch.tensor(float(state.stop_reason is not None)))):
        state.stop_reason = state.stop_reason or "another process of the group had a reason to stop"
