"""The profile of a fit as plain values with tensors among them, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from torch import Tensor

from rpmodels.persistence.plain import from_plain, to_plain
from rpmodels.persistence.states import with_tensors, without_tensors
from rpmodels.profile import Departure, Profile
from rpmodels.profile.emptiness import Emptiness
from rpmodels.profile.profile import FactorProfile
from rpmodels.profile.shown import Scale
from rpmodels.profile.sketch import Sketch
from rpmodels.profile.wiring import Wiring

PROFILE = "profile."
"""Before the names of its tensors."""


def described_profile(profile: Profile | None) -> tuple[Any, dict[str, Tensor]]:
    """Plain values, and the tensors they name; None where there is no profile."""
    if profile is None:
        return None, {}
    tensors: dict[str, Tensor] = {}
    plain = to_plain(without_tensors(asdict(profile), tensors))
    return plain, {PROFILE + name: each for name, each in tensors.items()}


def made_profile(plain: Any, tensors: Mapping[str, Tensor]) -> Profile | None:
    """The profile again; files of older formats have none."""
    if plain is None:
        return None
    own = {name.removeprefix(PROFILE): each for name, each in tensors.items() if name.startswith(PROFILE)}
    content = with_tensors(from_plain(plain, str), {name: each.numpy() for name, each in own.items()})
    return Profile(**{
        **content,
        "factors": {name: _factor(each) for name, each in content["factors"].items()},
        "wirings": tuple(_with_sketches(each) for each in content["wirings"]),
        "told": {what: Sketch(**each) for what, each in content["told"].items()},
        "own": tuple(Departure(**each) for each in content["own"]),
    })  # fmt: skip


def _factor(content: Mapping[str, Any]) -> FactorProfile:
    sketches = {name: Sketch(**each) for name, each in content["sketches"].items()}
    return FactorProfile(Scale(**content["scale"]), sketches, Emptiness(**content["emptiness"]))


def _with_sketches(content: Mapping[str, Any]) -> Wiring:
    sketches = {name: Sketch(**content[name]) for name in ("agreement", "left", "size", "pace")}
    return Wiring(**{**content, **sketches})
