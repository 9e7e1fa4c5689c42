"""Which atoms a training step has beside those of its own batch.

A mixture of the batch's own n atoms stands for one of N: its free energy is too low by about (K − 1)/2n nats a factor
for K states, and by more where posteriors are sharp. Where batches must be small, there are extra atoms: potentials
remembered from earlier steps, or observations recognised anew. Extra atoms have no gradients: of the two halves of
∂⟨log f_j − log F_j⟩ the second is then too small. Where the mean posterior equals F_j it vanishes anyway
(docs/results/scale.md: what that costs and what it gains).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rpmodels import checks
from rpmodels.carriers import Batch, Factor, Factors

Recognise = Callable[[Batch], Mapping[str, Factor]]


class ExtraAtoms(ABC):
    """Where they come from. The own atom of every site is among those of its batch."""

    beside: int = 0
    """Other observations that every batch must bring along."""
    own_gradients_for_all: bool = False
    """Whether own atoms' gradients in F_j are multiplied so that they stand for those of the extra ones too."""

    @abstractmethod
    def bank(self, sizes: Mapping[str, int], observations: int, sites: int) -> "AtomBank | None":
        """What must be remembered of so many observations, given the length of every factor's potential."""

    @abstractmethod
    def drawn(
        self, batch: Batch, recognise: Recognise, bank: "AtomBank | None"
    ) -> tuple[Factors, Float[Tensor, "m"]] | None:
        """Further atoms and their weights."""


class NoExtraAtoms(ExtraAtoms):
    """None: F_j mixes the batch's own atoms, and their gradients are those of the batch's free energy."""

    def bank(self, sizes: Mapping[str, int], observations: int, sites: int) -> "AtomBank | None":
        """Nothing."""
        return None

    def drawn(
        self, batch: Batch, recognise: Recognise, bank: "AtomBank | None"
    ) -> tuple[Factors, Float[Tensor, "m"]] | None:
        """Nothing."""
        return None


class FreshAtoms(ExtraAtoms):
    """Other observations, drawn anew for every step and recognised with the present weights."""

    def __init__(self, count: int) -> None:
        self.beside = checks.integer("count", count, 1)

    def bank(self, sizes: Mapping[str, int], observations: int, sites: int) -> "AtomBank | None":
        """Nothing."""
        return None

    @torch.no_grad()
    def drawn(
        self, batch: Batch, recognise: Recognise, bank: "AtomBank | None"
    ) -> tuple[Factors, Float[Tensor, "m"]] | None:
        """Those that came with the batch."""
        return None if batch.beside is None else (recognise(batch.beside), batch.beside.weights)


class RememberedAtoms(ExtraAtoms):
    """Potentials as they were when their observations were last seen: no further recognition, but they are stale.

    All potentials of all observations are kept; a step sees `count` of them, drawn anew. From atoms that stay where
    they were a model would run away, and its free energy would seem to grow: so own gradients stand for theirs.
    """

    own_gradients_for_all = True

    def __init__(self, count: int) -> None:
        self.count = checks.integer("count", count, 1)

    def bank(self, sizes: Mapping[str, int], observations: int, sites: int) -> "AtomBank | None":
        """Every observation's last potentials."""
        return AtomBank(sizes, observations, sites)

    @torch.no_grad()
    def drawn(
        self, batch: Batch, recognise: Recognise, bank: "AtomBank | None"
    ) -> tuple[Factors, Float[Tensor, "m"]] | None:
        """Some of those seen before, none of them in the batch."""
        assert bank is not None
        return bank.drawn(batch, self.count)


class AtomBank(nn.Module):
    """The last potentials of every observation, and when they were computed: in checkpoints, not in model files."""

    weights: Tensor
    written: Tensor
    clock: Tensor

    def __init__(self, sizes: Mapping[str, int], observations: int, sites: int) -> None:
        super().__init__()
        self._names = tuple(sizes)
        for j, size in enumerate(sizes.values()):
            self.register_buffer(f"g{j}", torch.zeros(observations, sites, size))
            self.register_buffer(f"present{j}", torch.zeros(observations, sites, dtype=torch.bool))
        self.register_buffer("weights", torch.zeros(observations))
        self.register_buffer("written", torch.full((observations,), -1))
        self.register_buffer("clock", torch.zeros((), dtype=torch.int64))

    def _kept(self, name: str) -> tuple[Tensor, Tensor]:
        j = self._names.index(name)
        return self.get_buffer(f"g{j}"), self.get_buffer(f"present{j}")

    @torch.no_grad()
    def remember(self, batch: Batch, factors: Factors) -> None:
        """Write down this step's potentials."""
        self.clock += 1
        self.weights[batch.index] = batch.weights.to(self.weights.dtype)
        self.written[batch.index] = self.clock
        for name, factor in factors.items():
            g, present = self._kept(name)
            sites = factor.g.shape[1]
            present[batch.index] = False
            g[batch.index, :sites], present[batch.index, :sites] = factor.g.to(g.dtype), factor.present

    def drawn(self, batch: Batch, count: int) -> tuple[Factors, Float[Tensor, "m"]] | None:
        """So many of those seen before, or all."""
        others = self.written >= 0
        others[batch.index] = False
        known = others.nonzero()[:, 0]
        if not len(known):
            return None
        picked = known[torch.randperm(len(known))[:count].to(known.device)]
        factors = {}
        for name in self._names:
            g, present = self._kept(name)
            factors[name] = Factor(g[picked], present[picked])
        return factors, self.weights[picked]

    def staleness(self, index: Int[Tensor, "m"]) -> Float[Tensor, "m"]:
        """Steps since these observations were last seen."""
        return (self.clock - self.written[index]).double()


def joined_atoms(own: Factor, extra: Factor, keep_sites: bool, own_gradients_for_all: bool) -> Factor:
    """Own atoms first. Sites are the batch's (`keep_sites`), or the more of the two where all share a mixture."""
    sites = own.g.shape[1] if keep_sites else max(own.g.shape[1], extra.g.shape[1])
    if own_gradients_for_all:
        value = own.g.detach()
        own = replace(own, g=value + (1.0 + len(extra.g) / len(own.g)) * (own.g - value))
    both = [_at(each, sites) for each in (own, extra)]
    return replace(own, g=torch.cat([each.g for each in both]), present=torch.cat([each.present for each in both]))


def _at(factor: Factor, sites: int) -> Factor:
    more = max(0, sites - factor.g.shape[1])
    pad = nn.functional.pad
    return replace(
        factor, g=pad(factor.g[:, :sites], (0, 0, 0, more)), present=pad(factor.present[:, :sites], (0, more))
    )
