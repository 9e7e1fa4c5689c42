"""Programs for elsewhere: one factor's recognition, and the step of a stream, as files of torch.export or ONNX.

A program has the same numbers as the library, in tensors of fixed sizes. Beside it a file says, in JSON, what goes in
and what comes out; of a stream also the state to begin at.
"""

import copy
import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import Sites
from rpmodels.decompositions import without_factorisations
from rpmodels.families import FiniteSupport, Gaussian
from rpmodels.filtering import Filtering
from rpmodels.fitted import FittedRPM
from rpmodels.observations import FactorSpec
from rpmodels.priors.filters import Elapsed
from rpmodels.recognition import Recogniser
from rpmodels.versions import __version__
from rpmodels.writing import write_atomically

TORCH, ONNX = ".pt2", ".onnx"
ABOUT = "rpmodels.json"
"""Under which a file says what it is."""
OPSET = 18
ROWS = "rows_"
"""Before the name of a factor."""


@dataclass(frozen=True)
class Program:
    """What an exported file takes and gives, by name and in this order, with shapes and types."""

    of: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    begin: Mapping[str, Any] = field(default_factory=dict)
    """Of a stream: the inputs of its state before the first time, as nested lists."""
    step: float | None = None
    """Of a stream with a clock: how long every step of the program is."""
    version: str = __version__


class RecognitionProgram(nn.Module):
    """Rows of a factor → g, what it says beyond its reference, and the moments (or probabilities) of f_j itself."""

    def __init__(self, model: FittedRPM, name: str) -> None:
        super().__init__()
        self.recogniser = cast(Recogniser, _frozen(model.recogniser(name)))
        prior = model.prior.reference(Sites.single(1, model.device), True)
        self.register_buffer("reference", self.recogniser.reference(prior).detach())
        self.register_buffer("like", torch.zeros((), dtype=model.dtype, device=model.device), persistent=False)
        self.eval()

    reference: Tensor
    like: Tensor

    @property
    def names(self) -> list[str]:
        """Of the outputs."""
        family = self.recogniser.family
        if isinstance(family, Gaussian):
            return ["potential", "mean", "covariance"]
        return ["potential", "probabilities"] if isinstance(family, FiniteSupport) else ["potential"]

    def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Of n rows (n, *event)."""
        present = torch.ones(len(rows), 1, dtype=torch.bool, device=rows.device)
        g = self.recogniser(rows[:, None], present, self.like).g[:, 0]
        family, eta = self.recogniser.family, self.reference + g
        if isinstance(family, Gaussian):
            return g, family.moments(eta)[0], family.covariance(eta)
        return (g, family.log_probabilities(eta).exp()) if isinstance(family, FiniteSupport) else (g,)


class StepProgram(nn.Module):
    """Rows of all factors, which of them are there, inputs and a state → the next state, and what is known then."""

    def __init__(self, filtering: Filtering, names: Sequence[str], elapsed: Elapsed) -> None:
        super().__init__()
        self.filtering, self._names, self._elapsed = filtering, tuple(names), elapsed
        self.recognisers = cast(nn.ModuleList, _frozen(filtering.model.pattern.recognition))
        model = filtering.model
        self.register_buffer("like", torch.zeros((), dtype=model.dtype, device=model.device), persistent=False)
        self.eval()

    like: Tensor

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """In the order of the names: rows, present, inputs, state; out come what is known, and the state."""
        count, width = len(self._names), len(self.filtering.filter.names)
        rows, present, *state = tensors[:count], *tensors[count:]
        u = state.pop(0) if self.filtering.filter.n_inputs else None
        factors = {
            name: recogniser(each[:, None], present[:, j : j + 1], self.like)
            for j, (name, recogniser, each) in enumerate(zip(self._names, self.recognisers, rows, strict=True))
        }
        states = tuple(tuple(state[i : i + width]) for i in range(0, len(state), width))
        along = self.filtering.filter.along(self._elapsed, u)
        new = self.filtering(factors, states, along)
        return (*self.filtering.shown(new), *(each for one in new for each in one))


@torch.no_grad()
def export_recognition(model: FittedRPM, name: str, path: str | Path, n: int) -> Program:
    """Of n rows at a time."""
    program = RecognitionProgram(model, name)
    rows = _rows(model.specs[name], n, model.dtype)
    about = Program(f"recognition of '{name}'", _forms([ROWS + name], [rows]), _forms(program.names, program(rows)))
    _write(program, (rows,), about, Path(path))
    return about


@torch.no_grad()
def export_step(
    filtering: Filtering, state_names: Sequence[str], n: int, elapsed: float | None, path: str | Path
) -> Program:
    """Of n series at a time; a step of the program is `elapsed` long where there is a clock."""
    model, names = filtering.model, list(filtering.model.names)
    program = StepProgram(filtering, names, None if elapsed is None else np.full(1, elapsed))
    begun = [each for one in filtering.begin(n) for each in one]
    rows = [_rows(model.specs[name], n, model.dtype) for name in names]
    u = torch.zeros(n, filtering.filter.n_inputs, dtype=model.dtype, device=model.device)
    driven = [u] if u.shape[1] else []
    given = (*rows, torch.ones(n, len(names), dtype=torch.bool, device=model.device), *driven, *begun)
    before, after = ([f"{when}_{name}" for name in state_names] for when in ("state", "next"))
    about = Program(
        "step of a stream",
        _forms([*(ROWS + name for name in names), "present", *["inputs"][: len(driven)], *before], given),
        _forms([*filtering.filter.shown_names, *after], program(*given)),
        {name: each.tolist() for name, each in zip(before, begun, strict=True)},
        elapsed,
    )
    _write(program, given, about, Path(path))
    return about


def _own(tensor: Tensor) -> Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _frozen(module: nn.Module) -> nn.Module:
    """A copy whose weights are constants: what it gives has no gradients, wherever it runs."""
    made = copy.deepcopy(module)
    for each in made.modules():
        for name, weight in list(each.named_parameters(recurse=False)):
            delattr(each, name)
            each.register_buffer(name, _own(weight))
    return made


def _rows(spec: FactorSpec, n: int, dtype: torch.dtype) -> Tensor:
    """Of zeros: codes of labels in int64, other rows in the model's precision."""
    return torch.zeros(n, *spec.event_shape, dtype=torch.int64 if spec.is_label else dtype)


def _forms(names: Sequence[str], tensors: Sequence[Tensor]) -> dict[str, Any]:
    return {
        name: {"shape": list(each.shape), "dtype": str(each.dtype).removeprefix("torch.")}
        for name, each in zip(names, tensors, strict=True)
    }


def _write(program: nn.Module, given: tuple[Tensor, ...], about: Program, path: Path) -> None:
    """Whole or not at all."""
    if path.suffix not in (TORCH, ONNX):
        raise errors.unknown_form(str(path), (TORCH, ONNX))
    said = json.dumps(asdict(about), ensure_ascii=False)
    if path.suffix == ONNX:
        for package in ("onnx", "onnxscript"):
            if importlib.util.find_spec(package) is None:
                raise errors.needs_onnx(package)
    recorded = torch.export.export(program, given, strict=False)
    for held in (recorded.state_dict, recorded.constants):  # numbers of their own, in their own order
        held |= {name: _own(each) for name, each in held.items() if isinstance(each, Tensor)}
    if path.suffix == TORCH:
        write_atomically(path, lambda there: torch.export.save(recorded, there, extra_files={ABOUT: said}))
        return
    written = torch.onnx.export(
        without_factorisations(recorded), (), input_names=list(about.inputs), output_names=list(about.outputs),
        dynamo=True, opset_version=OPSET, verbose=False, external_data=False,
    )  # fmt: skip
    assert written is not None
    written.model.metadata_props[ABOUT] = said
    write_atomically(path, lambda there: written.save(str(there)))
