"""Of which parts a model is made, as plain values: enough to build it again, empty, for its tensors.

A part is described by its class's name and the arguments of its constructor, which it keeps under their own names.
Only the final classes of the rooms named here are ever built from a file. Anything else is the user's own: it is
named, its tensors are kept, and whoever opens the file must hand it in.
"""

import inspect
import math
from collections.abc import Callable, Container, Mapping
from types import ModuleType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import gpytorch
import torch
from torch import Tensor, nn

from rpmodels import errors, families, inference, mixtures, priors, recognition
from rpmodels.checks import shown
from rpmodels.observations import scaling
from rpmodels.priors import simplex

Recipe = dict[str, Any]

NETWORKS = "networks"
"""Where a model's recipe has its networks, whose parts are asked for by their factors."""

SCALARS = (bool, int, float, str, NoneType)
UNSAID = (Any, inspect.Parameter.empty)

ROOMS = (families, inference, mixtures, priors, recognition, scaling, simplex)
"""Whose final classes can be built from a file: to add a part is to export it."""


PARTS = (
    nn.Module, families.Family, inference.EStep, mixtures.ExpectedLogMixture, mixtures.AtomPolicy, mixtures.Marginal,
    recognition.Head,
)  # fmt: skip
"""What a model is made of; a room exports other things as well."""


def _final_classes(room: ModuleType) -> dict[str, type]:
    found = [each for each in vars(room).values() if isinstance(each, type) and each.__module__.startswith("rpmodels.")]
    return {each.__name__: each for each in found if issubclass(each, PARTS) and not inspect.isabstract(each)}


BY_ARGUMENTS: dict[str, type] = {name: each for room in ROOMS for name, each in _final_classes(room).items()}

KERNELS: dict[str, type] = {
    each.__name__: each
    for each in (
        gpytorch.kernels.RBFKernel, gpytorch.kernels.MaternKernel, gpytorch.kernels.PeriodicKernel,
        gpytorch.kernels.RQKernel, gpytorch.kernels.CosineKernel, gpytorch.kernels.LinearKernel,
        gpytorch.kernels.ScaleKernel, gpytorch.kernels.AdditiveKernel, gpytorch.kernels.ProductKernel,
        gpytorch.means.ZeroMean, gpytorch.means.ConstantMean,
    )
}  # fmt: skip


def describe(part: Any) -> Recipe:
    """The recipe of one part, and of the parts in it."""
    kind = type(part).__name__
    if type(part) is BY_ARGUMENTS.get(kind):
        return {"is": kind, **{name: _argument(getattr(part, name)) for name in _parameters(type(part))}}
    if type(part) is KERNELS.get(kind) and _ordinary(part):
        return {"is": kind, **{name: _argument(each) for name, each in _of_kernel(part).items()}}
    return {"custom": f"{type(part).__module__}.{type(part).__qualname__}"}


def _parameters(kind: type) -> list[str]:
    """Named arguments of a constructor (one that is not there takes *args, **kwargs)."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [name for name, each in inspect.signature(kind).parameters.items() if each.kind in named]


def is_custom(recipe: Any) -> bool:
    """Whether this is the user's own part, which a file only names."""
    return isinstance(recipe, Mapping) and "custom" in recipe


def own_parts(content: Any, argument: str = "") -> set[str]:
    """By which arguments the user's own parts are asked for, in a recipe or in plain values."""
    if isinstance(content, list):
        return {name for each in content for name in own_parts(each, argument)}
    if not isinstance(content, Mapping):
        return set()
    if "custom" in content or "$custom" in content:
        return {argument}
    found = {name for key, each in content.items() if key != NETWORKS for name in own_parts(each, key)}
    return found | ({"network"} if own_parts(content.get(NETWORKS)) else set())


def handed_in(content: Any, given: Container[str]) -> Any:
    """A recipe in which parts that hold parts of the user's own are asked for as a whole, where they are given so."""
    if isinstance(content, list):
        return [handed_in(each, given) for each in content]
    if not isinstance(content, Mapping) or is_custom(content):
        return content
    return {
        key: {"custom": str(each.get("is", key))}
        if key in given and isinstance(each, Mapping) and own_parts(each, key)
        else handed_in(each, given)
        for key, each in content.items()
    }


def make(recipe: Recipe, missing: Callable[[str, str], Any], argument: str) -> Any:
    """The part again; `missing` is asked, by argument and class, for what is the user's own."""
    if is_custom(recipe):
        return missing(argument, str(recipe["custom"]))
    kind = recipe["is"]
    arguments = {name: _made(each, missing, name) for name, each in recipe.items() if name != "is"}
    if kind in ("AdditiveKernel", "ProductKernel"):
        return KERNELS[kind](*arguments["kernels"])
    listed = {**BY_ARGUMENTS, **KERNELS}
    if not isinstance(kind, str) or kind not in listed:
        raise errors.unknown_part(str(kind))
    _check_kinds(kind, listed[kind], arguments)
    return listed[kind](**arguments)


def _check_kinds(name: str, kind: type, arguments: Mapping[str, Any]) -> None:
    """Every argument against the annotation of the constructor: parts take what they are given, and use it later."""
    for each, parameter in inspect.signature(kind).parameters.items():
        if each in arguments and not _is_kind(arguments[each], parameter.annotation):
            raise errors.bad_value(f"{name}.{each}", str(parameter.annotation), shown(arguments[each]))


def _is_kind(value: Any, annotation: Any) -> bool:
    """By what annotations say of plain values; shapes of tensors are compared with those of the file."""
    if isinstance(annotation, str):  # of a package that does not evaluate them
        return True
    options = get_args(annotation) if get_origin(annotation) in (UnionType, Union) else (annotation,)
    plain = tuple(each for each in options if each in SCALARS)
    if not isinstance(value, SCALARS):
        return len(plain) < len(options)
    if isinstance(value, int) and not isinstance(value, bool):
        return int in plain or float in plain or annotation in UNSAID
    return (
        isinstance(value, plain) and (bool in plain or not isinstance(value, bool)) if plain else annotation in UNSAID
    )


def _argument(value: Any) -> Any:
    """Numbers, names, sequences of them, shapes of tensors, or parts."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"number": str(value)}
    if isinstance(value, Tensor):
        return {"tensor": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, list | tuple | nn.ModuleList):
        return [_argument(each) for each in value]
    return describe(value)


def _made(value: Any, missing: Callable[[str, str], Any], argument: str) -> Any:
    if isinstance(value, list):
        return [_made(each, missing, argument) for each in value]
    if not isinstance(value, Mapping):
        return value
    if "number" in value:
        return float(value["number"])
    if "tensor" in value:  # ones: what they are comes from the file's tensors, but a scale or a count must not be 0
        return torch.ones(value["tensor"], dtype=_dtype(value["dtype"]))
    return make(dict(value), missing, argument)


def _dtype(name: Any) -> torch.dtype:
    """By its name; a file asks torch for nothing else."""
    found = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(found, torch.dtype):
        raise errors.unknown_part(str(name))
    return found


def _ordinary(kernel: Any) -> bool:
    """Whether a GPyTorch kernel or mean is as its constructor makes it: other constraints give other values."""
    constraints = [type(each) for _, each in kernel.named_constraints()]
    only_priors = list(kernel.named_priors())
    return all(each is gpytorch.constraints.Positive for each in constraints) and not only_priors


def _of_kernel(kernel: Any) -> dict[str, Any]:
    """What tells kernels of one class apart."""
    if hasattr(kernel, "kernels"):
        return {"kernels": list(kernel.kernels)}
    told: dict[str, Any] = {"batch_shape": list(getattr(kernel, "batch_shape", ()))}
    if hasattr(kernel, "nu"):
        told["nu"] = kernel.nu
    if hasattr(kernel, "base_kernel"):
        told["base_kernel"] = kernel.base_kernel
    elif getattr(kernel, "ard_num_dims", None) is not None:
        told["ard_num_dims"] = kernel.ard_num_dims
    return told
