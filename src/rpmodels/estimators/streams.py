"""One time after the other, as they arrive."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rpmodels import checks, errors
from rpmodels.carriers import Factor
from rpmodels.estimators.clocks import Clock
from rpmodels.estimators.drift import Heeding
from rpmodels.estimators.fingerprint import digest_of
from rpmodels.exporting import Program, export_step
from rpmodels.filtering import Filtering, States
from rpmodels.fitted import FittedRPM
from rpmodels.observations import Row, read_rows
from rpmodels.persistence.model_files import FORMAT
from rpmodels.persistence.sealed import open_sealed, write_sealed

Shown = Callable[..., Any]
"""From arrays (N, …) of the filter to what the user is told."""


class Stream:
    """What is known now from past and present: every `update` costs the same, and says what `filter` would.

    Data are checked as they are anywhere; specs, scaling and everything constant in the model are looked up once, when
    the stream is made. Made by `stream()` of a fitted model: `stream()` follows one series, `stream(8)` eight at once,
    whose rows and results have an axis for them.
    """

    def __init__(
        self, model: FittedRPM, shown: Shown, n_series: int | None = None, on_drift: str | None = None
    ) -> None:
        if n_series is not None:
            checks.integer("n_series", n_series, 1)
        self._model, self._shown, self._n_series = model, shown, n_series
        self._filtering = Filtering(model)
        self._recognisers = dict(model.pattern.recognisers())
        self._populations = [name for name, each in self._recognisers.items() if each.curves() is not None]
        self._like = torch.zeros((), dtype=model.dtype, device=model.device)
        self._clock = Clock(model.times) if self._filtering.filter.clocked else None
        self._rows: dict[str, Row] = {}
        self._heed = None if on_drift is None else Heeding(model, n_series or 1, on_drift)
        self._begin()

    @torch.no_grad()
    def _begin(self) -> None:
        n = self._n_series or 1
        self._states = self._filtering.begin(n)
        self._inputs = self._like.new_zeros(n, self._filtering.filter.n_inputs)
        self._time = np.full(n, np.nan)

    # ---- as time goes by -----------------------------------------------------------------------

    @torch.no_grad()
    def update(
        self, x: Any = None, inputs: Any = None, *, time: Any = None, presence: Mapping[str, Any] | None = None
    ) -> Any:
        """The next time, and what is known then.

        Args:
            x: one row (*event), or {factor: row} with the factors that are there; nothing: a time of which nothing was
                seen. Rows that are all NaN are missing, too
            inputs: (U,) those of this time: they act on the way to the next
            time: when it is, on the clock of the fit, of models that have one; by default the usual step after the last
            presence: {factor: whether it is there}, for rows that cannot be NaN

        """
        u = self._driving(inputs)
        elapsed, now = (None, self._time) if self._clock is None else self._clock.since(self._time, time)
        if self._clock is None and time is not None:
            raise errors.no_clock()
        rows = read_rows(self._named(x), self._model.specs, self._n_series, self._populations, presence)
        if self._heed is not None and x is not None:
            self._heed(rows)
        along = self._filtering.filter.along(elapsed, self._inputs)
        states = self._filtering(self._recognised(rows), self._states, along)
        found = [each.cpu().numpy() for each in self._filtering.shown(states)]
        # Nothing is kept before all has gone well.
        self._states, self._inputs, self._time, self._rows = states, u, now, rows
        return self._shown(*(found if self._n_series is not None else [each[0] for each in found]))

    def _recognised(self, rows: Mapping[str, Row]) -> dict[str, Factor]:
        return {
            name: self._recognisers[name](
                torch.from_numpy(values).to(self._like.device), torch.from_numpy(have).to(self._like.device), self._like
            )
            for name, (values, have) in rows.items()
        }

    def _named(self, x: Any) -> Mapping[str, Any]:
        if isinstance(x, Mapping):
            return x
        if x is None:
            return {}
        names = list(self._recognisers)
        if len(names) > 1:
            raise errors.bad_value("x", f"a dict with factors out of {names}", "one array")
        return {names[0]: x}

    def _driving(self, inputs: Any) -> Tensor:
        """u of every series, checked."""
        if inputs is None and not self._inputs.shape[1]:
            return self._inputs
        shape = tuple(self._inputs.shape)[self._n_series is None :]
        given = np.zeros(0) if inputs is None else np.atleast_1d(np.asarray(inputs, np.float64))
        if given.shape != shape or not np.isfinite(given).all():
            said = f"{shape[-1]} finite numbers" + (f" for each of {shape[0]} series" if len(shape) > 1 else "")
            raise errors.bad_value("inputs", f"{said}, as in training", f"shape {given.shape}")
        return torch.as_tensor(given.reshape(self._inputs.shape)).to(self._inputs)

    @property
    def time(self) -> Any:
        """When the last update was, on the clock of the fit; NaN before the first, and of models that count steps."""
        return self._time.copy() if self._n_series is not None else float(self._time[0])

    @property
    def out_of_range(self) -> dict[str, Any]:
        """{factor: share of the numbers of the last update beyond what training data were scaled to}.

        Such numbers are clipped: what is said of them is what would be said of the outermost. Zero for scalings that
        know no range ("none", "unit") and for labels, of which unknown ones are refused.
        """
        found = {}
        for name, (values, have) in self._rows.items():
            beyond = self._recognisers[name].outside(torch.from_numpy(values[:, 0]).to(self._like.device))
            share = np.where(have[:, 0], beyond.cpu().numpy().reshape(len(values), -1).mean(1), 0.0)
            found[name] = share if self._n_series is not None else float(share[0])
        return found

    def reset(self, which: Any = None) -> None:
        """Begin again: all series, or some by their places or a boolean for each."""
        before, inputs, time = self._states, self._inputs, self._time
        self._begin()
        if which is None:
            return
        again = np.zeros(len(time), bool)
        again[which] = True
        new = torch.as_tensor(again, device=self._like.device)
        self._states = tuple(
            tuple(_where(new, one, two) for one, two in zip(*both, strict=True))
            for both in zip(self._states, before, strict=True)
        )
        self._inputs, self._time = _where(new, self._inputs, inputs), np.where(again, self._time, time)

    # ---- kept and taken up again ---------------------------------------------------------------

    @property
    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that `update` goes on from, as arrays of the caller's own."""
        found = {"time": self._time, "inputs": self._inputs.cpu().numpy()}
        return {name: each.copy() for name, each in (found | _named_arrays(self._names, self._states)).items()}

    @property
    def _names(self) -> tuple[str, ...]:
        return self._filtering.filter.names

    def restore(self, state: Mapping[str, Any] | str | Path) -> None:
        """Go on from a `state`, or from a file that `save` has written."""
        arrays = state if isinstance(state, Mapping) else self._opened(Path(state))
        now = self.state
        if set(arrays) != set(now):
            raise errors.other_state("The names", sorted(now), sorted(map(str, arrays)))
        given = {name: np.asarray(arrays[name]) for name in now}
        for name, each in given.items():
            if each.shape != now[name].shape or each.dtype.kind not in "bf":
                raise errors.other_state(
                    f"'{name}'", f"numbers of shape {now[name].shape}", f"{each.dtype} {each.shape}"
                )
            if name != "time" and not np.isfinite(each).all():
                raise errors.other_state(f"'{name}'", "finite numbers", "others")
        self._time = given["time"].astype(np.float64)
        self._inputs = torch.tensor(given["inputs"]).to(self._inputs)
        self._states = tuple(
            tuple(
                torch.tensor(given[_name(name, number)]).to(each) for name, each in zip(self._names, one, strict=True)
            )
            for number, one in enumerate(self._states)
        )

    def save(self, path: str | Path) -> None:
        """The state as a sealed file of exactly this name, whole or not at all; nothing in it is ever executed."""
        tensors = {name: torch.from_numpy(each) for name, each in self.state.items()}
        write_sealed(path, FORMAT, {"stream": digest_of(self._model)}, tensors)

    def export(self, path: str | Path, step: float | None = None) -> Program:
        """Write one step of this stream as a program for elsewhere, by the suffix of its file: .pt2 or .onnx.

        It takes rows of every factor in the model's precision (zeros where one is missing; of labels their places in
        the order of the vocabulary), which of them are there, inputs, and a state; it gives what is known, and the next
        state. What it returns, and what the file itself says in JSON, are the names, shapes and the state to begin at.

        Args:
            path: where to
            step: of models with a clock, how long every step is; default the usual one

        """
        filtering = self._filtering
        elapsed = None if self._clock is None else self._clock.usual if step is None else float(step)
        names = [_name(name, number) for number in range(len(self._states)) for name in self._names]
        return export_step(filtering, names, self._n_series or 1, elapsed, path)

    def _opened(self, path: Path) -> dict[str, NDArray[Any]]:
        content, tensors = open_sealed(path, FORMAT)
        if "stream" not in content:
            raise errors.not_a_stream_file(str(path))
        if content["stream"] != digest_of(self._model):
            raise errors.state_of_another_model(str(path))
        return {name: each.numpy() for name, each in tensors.items()}


def _where(which: Tensor, one: Tensor, other: Tensor) -> Tensor:
    return torch.where(which.reshape(-1, *[1] * (one.ndim - 1)), one, other)


def _name(name: str, number: int) -> str:
    """Of a tensor of the state of a pass."""
    return f"{name}.{number}" if number else name


def _named_arrays(names: tuple[str, ...], states: States) -> dict[str, NDArray[Any]]:
    return {
        _name(name, number): each.cpu().numpy()
        for number, state in enumerate(states)
        for name, each in zip(names, state, strict=True)
    }
