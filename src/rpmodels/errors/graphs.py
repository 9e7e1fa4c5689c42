"""Graphs of discrete latents that cannot be."""

import math
from collections.abc import Mapping, Sequence

from rpmodels.errors.kinds import BuildError, InputError


def clique_too_large(
    latents: Mapping[str, int], size: int, largest: int, scopes: Sequence[tuple[str, ...]]
) -> BuildError:
    """A junction tree that is too wide."""
    named = ", ".join(f"'{name}' ({states})" for name, states in latents.items())
    return BuildError(
        f"The junction tree has a clique of the latents {named}: {size} joint states, for every observation; expected "
        f"at most {largest}. It holds {len(scopes)} sets of latents that a table or a factor speaks of, the largest "
        f"{max(scopes, key=len, default=())}. Give latents fewer states, parents or edges, let factors speak of fewer "
        "of them, or raise `largest`."
    )


def unknown_scope(latents: Mapping[str, int], scopes: Sequence[tuple[str, ...]]) -> BuildError:
    """A factor on latents that no table holds together."""
    size = math.prod(latents.values())
    return BuildError(
        f"A factor that speaks of the latents {tuple(latents)} jointly ({size} joint states): expected latents of one "
        f"set that the prior knows, {list(scopes)}. Name fewer latents in `targets`, or make the prior with "
        f"scopes=[{tuple(latents)}]."
    )


def cyclic_parents(latents: Sequence[str]) -> InputError:
    """Tables that wait for each other."""
    return InputError(f"parents: expected no circle, got one among {list(latents)}: p(z) would not sum to one.")


def too_many_joint_states(what: str, sizes: Sequence[int], total: int, largest: int) -> BuildError:
    """A product space whose square is too large."""
    return BuildError(
        f"{what} of {sizes} make {total} joint states, between which all transitions are summed at every time: "
        f"expected at most {largest}. Take fewer of them, or raise `largest` (work grows with its square)."
    )
