"""One file per fitted model: a safetensors file whose header says, in JSON, how to build what the tensors belong to.

Nothing in a file is ever executed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import Excess
from rpmodels.families import Family
from rpmodels.fitted import FittedRPM
from rpmodels.mixtures import AtomMixture
from rpmodels.model import RPM
from rpmodels.observations import FactorSpec
from rpmodels.persistence import plain, recipes, schema
from rpmodels.persistence.frugal import Frugal
from rpmodels.persistence.profiles import described_profile, made_profile
from rpmodels.persistence.sealed import as_written, open_sealed, write_sealed
from rpmodels.recognition import LookupTable, RecognitionFactor

FORMAT = 4
"""Raised when older readers could no longer understand a file."""
MODEL = "model."
"""Before the names of the model's own tensors."""
FORMAT_1 = {"fitted._atoms.": "_atoms.", "times.": "_times.", "": "pattern."}
"""How names of tensors began in files of format 1, and how they do now."""

Missing = Callable[[str, str], Any]
"""(argument, class) of a part that is the user's own → the part."""


@dataclass(frozen=True)
class Opened:
    """What a file holds, checked to be whole, nothing of it built yet."""

    path: Path
    about: Mapping[str, Any]
    """What the writer said beside the model."""
    recipe: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    format: int = FORMAT

    def model(self, missing: Missing) -> FittedRPM:
        """The fitted model on the CPU, in the precision it was saved in."""
        own = {n.removeprefix(MODEL): each for n, each in self.tensors.items() if n.startswith(MODEL)}
        with Frugal(own.values()):
            model = _built(self.recipe, own, missing)
        expected = model.state_dict()
        differing = sorted(
            name
            for name in expected.keys() | own.keys()
            if name not in own or name not in expected or own[name].shape != expected[name].shape
        )
        if differing:
            raise errors.parts_do_not_fit(str(self.path), differing)
        unknown = [name for name, each in own.items() if each.is_floating_point() and bool(each.isnan().any())]
        if unknown:
            raise errors.not_numbers_in_file(str(self.path), unknown)
        model.load_state_dict(own)
        if self.format < 3:
            _multiplied(model)
        model.profile = made_profile(self.about.get("profile"), self.tensors)
        return model


def save_file(path: str | Path, model: FittedRPM, about: Mapping[str, Any], extra: Mapping[str, Tensor]) -> None:
    """Write a fitted model, what there is to say about it (plain values), and tensors of the caller's own."""
    profile, numbers = described_profile(model.profile)
    tensors = {MODEL + name: each for name, each in model.state_dict().items()} | dict(extra) | numbers
    content = {"about": {**about, "profile": profile}, "recipe": _recipe(model)}
    write_sealed(path, FORMAT, content, tensors)


def open_file(path: str | Path) -> Opened:
    """Read a file and check that it is one of ours, whole, and of a format we know."""
    content, tensors = open_sealed(path, FORMAT)
    if "recipe" not in content:
        raise errors.not_a_model_file(str(path), "it holds a checkpoint")
    with as_written(path):
        schema.check(content, content["format"])
    if content["format"] == 1:
        tensors = {_renamed(name): each for name, each in tensors.items()}
    recipe = content["recipe"] if content["format"] > 2 else _with_gains(content["recipe"])
    return Opened(Path(path), content["about"], recipe, tensors, int(content["format"]))


def _with_gains(recipe: Any) -> Any:
    """Before format 3 a table had no gain unless it said so."""
    if isinstance(recipe, list):
        return [_with_gains(each) for each in recipe]
    if not isinstance(recipe, Mapping):
        return recipe
    own = {"gain": 1.0} if recipe.get("is") == LookupTable.__name__ else {}
    return own | {name: _with_gains(each) for name, each in recipe.items()}


@torch.no_grad()
def _multiplied(model: FittedRPM) -> None:
    """Before format 3 a table gave its weights times its gain, which is now a matter of learning alone."""
    for module in model.modules():
        if isinstance(module, LookupTable):
            module.weight.mul_(module.gain)


def _renamed(name: str) -> str:
    """A tensor of format 1 as it is called now."""
    if not name.startswith(MODEL):
        return name
    inside = name.removeprefix(MODEL)
    old, new = next((old, new) for old, new in FORMAT_1.items() if inside.startswith(old))
    return MODEL + new + inside.removeprefix(old)


def _recipe(fitted: FittedRPM) -> dict[str, Any]:
    model = fitted.pattern
    networks: list[nn.Module] = []
    factors = []
    for name, recogniser in model.recognisers():
        if not any(recogniser.network is each for each in networks):
            networks.append(recogniser.network)
        place = next(i for i, each in enumerate(networks) if each is recogniser.network)
        spec, scaling = model.specs[name], recogniser.scaling
        factors.append({
            "name": name, "network": place, "event_shape": list(spec.event_shape),
            "vocabulary": plain.to_plain(spec.vocabulary), "scaling": recipes.describe(scaling),
            "clipped": scaling.clipped, "seen": scaling.seen, "targets": plain.to_plain(model.targets.get(name)),
        })  # fmt: skip
    parts = {name: recipes.describe(getattr(model, name)) for name in PARTS}
    _, first = next(model.recognisers())
    dropouts = [each.input_dropout.p for _, each in model.recognisers() if isinstance(each, RecognitionFactor)]
    return {
        **parts, "head": recipes.describe(first.head), "input_dropout": dropouts[0] if dropouts else 0.0,
        "networks": [recipes.describe(each) for each in networks], "factors": factors,
        "dtype": str(model.dtype).removeprefix("torch."), "n_observations": fitted.n_observations,
        "n_sites": fitted.n_sites, "temperature": fitted.temperature,
        "excess": None if fitted.excess is None else [fitted.excess.mean.tolist(), fitted.excess.stretch.tolist()],
    }  # fmt: skip


PARTS = ("prior", "e_step", "expected_log_mixture", "atoms", "marginal")


def _built(recipe: Mapping[str, Any], tensors: Mapping[str, Tensor], missing: Missing) -> FittedRPM:
    """The model that a recipe describes, with buffers of the size that the tensors have."""
    factors = recipe["factors"]
    networks = [
        recipes.make(each, _network(missing, [f["name"] for f in factors if f["network"] == place]), "network")
        for place, each in enumerate(recipe["networks"])
    ]
    model = RPM(
        factors={factor["name"]: networks[factor["network"]] for factor in factors},
        head=recipes.make(recipe["head"], missing, "head"),
        targets={f["name"]: _plain(f["targets"]) for f in factors if f["targets"] is not None},
        input_dropout=recipe["input_dropout"],
        dtype=getattr(torch, recipe["dtype"]),
        **{name: recipes.make(recipe[name], missing, name) for name in PARTS},
    )
    atoms = {}
    for number, (factor, (name, recogniser)) in enumerate(zip(factors, model.recognisers(), strict=True)):
        model.specs[name] = FactorSpec(tuple(factor["event_shape"]), _plain(factor["vocabulary"]))
        recogniser.scaling = recipes.make(factor["scaling"], missing, "scaling")
        recogniser.scaling.clipped, recogniser.scaling.seen = factor["clipped"], factor["seen"]
        reference, g, log_count = (tensors[f"_atoms.{number}.{each}"] for each in ("reference", "g", "log_count"))
        _check_atoms(name, model.atoms.shared, recogniser.family, reference, g, log_count, tensors["_times.values"])
        atoms[name] = AtomMixture(recogniser.family, reference, model.atoms.shared, g, log_count)
    times, count = tensors["_times.values"], recipe["n_observations"]
    # Not said by older files; all observations were as long as the longest then.
    fitted = FittedRPM(model, atoms, times, count, recipe.get("n_sites", count * times.shape[1]))
    fitted.temperature = float(recipe.get("temperature", 1.0))
    if recipe.get("excess") is not None:
        fitted.excess = Excess(*(np.asarray(each, np.float64) for each in recipe["excess"]))
    return fitted


def _check_atoms(
    name: str, shared: bool, family: Family, reference: Tensor, g: Tensor, log_count: Tensor, times: Tensor
) -> None:
    """Tensors whose size nothing in the recipe says must fit each other and the family of the factor."""
    size = family.to_potential(torch.zeros(1, family.raw_size)).shape[-1]
    sites = 1 if shared else times.shape[-1]
    fit = g.ndim == 3 and log_count.shape == g.shape[:2] and g.shape[-1] == size and times.ndim == 2 and len(times) == 1
    # One reference may serve all sites.
    if not fit or len(g) != sites or reference.shape not in ((sites, size), (1, size)):
        shapes = [tuple(each.shape) for each in (reference, g, log_count, times)]
        raise errors.bad_value(f"atoms of factor '{name}'", f"those of {sites} site(s) and {size} numbers", shapes)


def _network(missing: Missing, names: list[str]) -> Missing:
    """A network of the user's own is asked for by the first factor that has it."""
    return lambda _, kind: missing(f"network of factor '{names[0]}'", kind)


def _plain(value: Any) -> Any:
    return plain.from_plain(value, lambda kind: kind)
