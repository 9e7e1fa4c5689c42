"""Several discrete latents at once: t(z) has a one-hot vector for the joint state of every scope.

p(z) ∝ exp(Σ_s η_s(z_s)), a Markov random field whose Φ and μ come from a junction tree (`junction_tree`, `messages`). A
factor that speaks of some of the latents has a `Categorical` over their joint states.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from rpmodels import checks, errors
from rpmodels.carriers import Targets
from rpmodels.families.categorical import Categorical
from rpmodels.families.family import Discrete, Family, HasTargets, Samplable
from rpmodels.families.junction_tree import JunctionTree, Scope, junction_tree
from rpmodels.families.messages import Choose, Messages, Reduce, highest, log_sum, marginal_of

LARGEST = 2**14
"""Joint states of one clique: 16 384 numbers for every observation."""


@dataclass(frozen=True)
class JointStates(Discrete, Samplable, HasTargets):
    """Latents with names and numbers of states; scopes are the sets of them that something speaks of.

    η is Σ over scopes of their numbers of joint states long: scope after scope, the last latent's state fastest. The
    parametrisation is not minimal. Every latent is in some scope.
    """

    names: tuple[str, ...]
    states: tuple[int, ...]
    scopes: tuple[Scope, ...]
    """Latents of every scope by their places, in rising order."""
    largest: int = LARGEST
    """Joint states that a clique may have."""
    latents: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "latents", len(self.names))

    # ---- the tree ---------------------------------------------------------------------------

    @cached_property
    def tree(self) -> JunctionTree:
        """Made once for all families that are equal."""
        return junction_tree(self.names, self.states, self.scopes, self.largest)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Joint states of every scope."""
        return tuple(math.prod(self.tree.shape(scope)) for scope in self.scopes)

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """Where every scope is in η."""
        ends = [sum(self.sizes[: i + 1]) for i in range(len(self.sizes))]
        return tuple(slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True))

    def messages(self, eta: Float[Tensor, "n D"], reduce: Reduce = log_sum) -> Messages:
        """Those of η from the leaves to the root."""
        said: list[Tensor | None] = [None] * len(self.tree.nodes)
        for scope, part in zip(self.scopes, torch.split(eta.mT.contiguous(), list(self.sizes)), strict=True):
            said[self.tree.place(scope)] = part
        return Messages.collected(self.tree, said, reduce)

    def calibrated(self, eta: Float[Tensor, "*b D"]) -> tuple[Float[Tensor, "*b D"], Float[Tensor, "*b"]]:
        """log p of the joint states of every scope, and Φ."""
        found = self.messages(eta.reshape(-1, eta.shape[-1]))
        logs = found.log_marginals
        blocks = [logs[self.tree.place(scope)].flatten(0, -2) for scope in self.scopes]
        return torch.cat(blocks).mT.reshape(eta.shape), found.log_partition.reshape(eta.shape[:-1])

    def log_partition_of(
        self, eta: Float[Tensor, "*b D"], mu: Float[Tensor, "*b D"], value: Float[Tensor, "*b"]
    ) -> Float[Tensor, "*b"]:
        """Φ(η) from what was calibrated without gradients; its gradient is μ."""
        found: Tensor = _Calibrated.apply(eta, mu, value)  # type: ignore[no-untyped-call]
        return found

    # ---- the family -------------------------------------------------------------------------

    @property
    def natural_size(self) -> int:
        """Joint states of all scopes together."""
        return sum(self.sizes)

    @property
    def raw_size(self) -> int:
        """The same."""
        return self.natural_size

    def log_normaliser(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b"]:
        """Φ(η) = log Σ_z exp Σ_s η_s(z_s)."""
        return self.messages(eta.reshape(-1, eta.shape[-1])).log_partition.reshape(eta.shape[:-1])

    def mean(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """Probabilities of the joint states of every scope."""
        return self.calibrated(eta)[0].exp()

    def statistic(self, z: Int[Tensor, "*b A"]) -> Float[Tensor, "*b D"]:
        """One-hot, scope after scope."""
        parts = [torch.nn.functional.one_hot(self.joint(z, scope), size) for scope, size in self._sized]
        return torch.cat(parts, -1).to(torch.get_default_dtype())

    @property
    def _sized(self) -> list[tuple[Scope, int]]:
        return list(zip(self.scopes, self.sizes, strict=True))

    def joint(self, z: Int[Tensor, "*b A"], scope: Sequence[int]) -> Int[Tensor, "*b"]:
        """The joint state of some latents, in the order they are given, as one number."""
        index = torch.zeros_like(z[..., 0])
        for a in scope:
            index = index * self.states[a] + z[..., a]
        return index

    def to_valid(self, raw: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """Every vector is valid."""
        return raw

    def to_potential(self, raw: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """Every vector is a potential."""
        return raw

    # ---- configurations ---------------------------------------------------------------------

    def sample(self, eta: Float[Tensor, "*b D"], generator: torch.Generator) -> Int[Tensor, "*b A"]:
        """A configuration for every leading index."""

        def drawn(logs: Float[Tensor, "F n"]) -> Int[Tensor, "n"]:
            return torch.multinomial(torch.softmax(logs.mT, -1), 1, generator=generator)[:, 0]

        return self._assigned(eta, log_sum, drawn)

    @torch.no_grad()
    def most_probable(self, eta: Float[Tensor, "*b D"]) -> Int[Tensor, "*b A"]:
        """The configuration of the highest probability."""
        return self._assigned(eta, highest, lambda logs: logs.argmax(0))

    def _assigned(self, eta: Float[Tensor, "*b D"], reduce: Reduce, choose: Choose) -> Int[Tensor, "*b A"]:
        found = self.messages(eta.reshape(-1, eta.shape[-1]), reduce).assigned(choose)
        return found.reshape(*eta.shape[:-1], self.latents)

    # ---- some of the latents ----------------------------------------------------------------

    def index(self, what: str, latent: object) -> int:
        """Latents are known by name."""
        if latent in self.names:
            return self.names.index(str(latent))
        if isinstance(latent, str):
            raise errors.bad_choice(what, self.names, latent)
        return checks.integer(what, latent, 0)

    def targets(self, indices: Sequence[int]) -> tuple[Family, Targets]:
        """Their joint states, in the order they are given: logits for every combination."""
        inside = [i for i, scope in enumerate(self.scopes) if set(indices) <= set(scope)]
        if not inside:
            asked = {self.names[a]: self.states[a] for a in indices}
            raise errors.unknown_scope(asked, [tuple(self.names[a] for a in scope) for scope in self.scopes])
        best = min(inside, key=lambda i: self.sizes[i])
        shape = self.tree.shape(self.scopes[best])
        scope = tuple(self.scopes[best].index(a) for a in indices)
        family = Categorical(math.prod(self.states[a] for a in indices))
        return family, ScopeTargets(self.natural_size, self.places[best], shape, scope, self)

    def everything(self) -> tuple[Family, Targets]:
        """All latents jointly."""
        return self.targets(range(self.latents))

    def with_scope(self, scope: Sequence[int]) -> "JointStates":
        """The family in which these latents, too, have a table: η of this one with zeros behind it."""
        scopes = tuple(dict.fromkeys((*self.scopes, tuple(sorted(scope)))))
        return JointStates(self.names, self.states, scopes, self.largest)


class _Calibrated(torch.autograd.Function):
    """Φ with ∂Φ/∂η = μ."""

    @staticmethod
    def forward(ctx: Any, eta: Tensor, mu: Tensor, value: Tensor) -> Tensor:  # noqa: ARG004 - it has the gradient
        ctx.save_for_backward(mu)
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (mu,) = ctx.saved_tensors
        return grads[0][..., None] * mu, None, None


@dataclass(frozen=True)
class ScopeTargets(Targets):
    """Some of the latents of one scope, in any order."""

    size: int
    place: slice
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    """Which axis of the scope's table every target is."""
    family: JointStates

    @property
    def _whole(self) -> bool:
        return self.axes == tuple(range(len(self.shape)))

    def natural(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b d"]:
        """log p of the targets."""
        if not eta.requires_grad and not bool(eta.any()):  # uniform, as references are: so is every marginal
            size = math.prod(self.shape[axis] for axis in self.axes)
            return eta.new_full((*eta.shape[:-1], size), -math.log(size))
        return self.log_marginal(self.family.calibrated(eta)[0])

    def log_marginal(self, logs: Float[Tensor, "*b D"]) -> Float[Tensor, "*b d"]:
        """The same from log p of every scope."""
        block = logs[..., self.place]
        if self._whole:
            return block
        table = block.reshape(-1, *self.shape).movedim(0, -1)
        kept = marginal_of(table, tuple(range(len(self.shape))), tuple(sorted(self.axes)))
        return self._ordered(kept.movedim(-1, 0)).reshape(*logs.shape[:-1], -1)

    def mean(self, mu: Float[Tensor, "*b D"]) -> Float[Tensor, "*b d"]:
        """Summed over the other latents of the scope."""
        block = mu[..., self.place]
        if self._whole:
            return block
        table = block.reshape(-1, *self.shape)
        others = [1 + i for i in range(len(self.shape)) if i not in self.axes]
        kept = table.sum(others) if others else table
        return self._ordered(kept).reshape(*mu.shape[:-1], -1)

    def _ordered(self, table: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """From the order of the scope to that of the targets, behind an axis of observations."""
        rising = sorted(self.axes)
        return table.permute(0, *(1 + rising.index(axis) for axis in self.axes))

    def embed(self, g: Float[Tensor, "*b d"]) -> Float[Tensor, "*b D"]:
        """In the place of the scope, the same for every state of its other latents; zero elsewhere."""
        block = g if self._whole else self._spread(g)
        return torch.nn.functional.pad(block, (self.place.start, self.size - self.place.stop))

    @classmethod
    def added(cls, parts: Sequence[tuple[Targets, Tensor]]) -> Float[Tensor, "*b D"]:
        """Scope by scope, so that zeros are written once."""
        blocks: dict[int, Tensor] = {}
        for targets, g in parts:
            each = cast(ScopeTargets, targets)
            block = g if each._whole else each._spread(g)
            start = each.place.start
            blocks[start] = blocks[start] + block if start in blocks else block
        family, like = cast(ScopeTargets, parts[0][0]).family, parts[0][1]
        sized = zip(family.places, family.sizes, strict=True)
        zeros = like.new_zeros(1).expand(*like.shape[:-1], 1)
        return torch.cat([blocks.get(p.start, zeros.expand(*like.shape[:-1], size)) for p, size in sized], -1)

    def _spread(self, g: Float[Tensor, "*b d"]) -> Float[Tensor, "*b s"]:
        rising = sorted(self.axes)
        table = g.reshape(-1, *(self.shape[axis] for axis in self.axes))
        table = table.permute(0, *(1 + self.axes.index(axis) for axis in rising))
        sizes = [size if axis in self.axes else 1 for axis, size in enumerate(self.shape)]
        return table.reshape(-1, *sizes).expand(-1, *self.shape).reshape(*g.shape[:-1], -1)
