"""A factor of labels that says p(y|z) itself, in the place of recognising z: known (pinned) or learned (generative).

Its potential is log p(y|z) − log p₀(y), with p₀ how often labels were seen: it enters log W as f_j/F_j does, and F_j is
the reference. Σ_y p₀(y) exp(potential) = Σ_y p(y|z) = 1 for every z, so that the model stays normalised.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import AllLatents, Factor, Targets
from rpmodels.families import FiniteSupport
from rpmodels.observations import FactorSpec, Scaling, Unscaled
from rpmodels.recognition.heads import Head

GAIN = 10.0
"""How many times the learning rate its numbers move in a step: they are logarithms of probabilities."""
SPREAD = 0.5
"""Standard deviation of learned log p(y|z) where they begin."""
LEAST = 1e-12
"""Probability of what a known table calls impossible: of labels that contradict everything else, something is left."""
UNSEEN = 0.5
"""How often a label of no weight counts as seen."""


class GenerativeTable(nn.Module):
    """log p(y|z) − log p₀(y) of L labels and K (joint) states.

    Args:
        n_labels, n_out: L and K
        learned: whether p(y|z) is learned, or known

    """

    gain = GAIN
    log_p0: Tensor
    logits: Tensor

    def __init__(self, n_labels: int, n_out: int, learned: bool = True) -> None:
        super().__init__()
        self.n_labels, self.n_out, self.learned = n_labels, n_out, learned
        self.register_buffer("log_p0", torch.zeros(n_labels, dtype=torch.float64))
        begun = torch.zeros(n_out, n_labels, dtype=torch.float64)
        if learned:
            self.logits = nn.Parameter(begun)
            self.reset_parameters()
        else:
            self.register_buffer("logits", begun)

    @staticmethod
    def of(
        codes: Int[np.ndarray, "n"],
        weights: Float[np.ndarray, "n"],
        n_labels: int,
        n_out: int,
        known: Float[np.ndarray, "K L"] | None = None,
    ) -> "GenerativeTable":
        """With p₀ of these training labels; p(y|z) is learned where it is not known."""
        made = GenerativeTable(n_labels, n_out, known is None)
        counts = np.maximum(np.bincount(codes, weights, n_labels), UNSEEN)
        made.log_p0.copy_(torch.as_tensor(np.log(counts / counts.sum())))
        if known is not None:
            made.logits.copy_(torch.as_tensor(known).double().clamp_min(LEAST).log())
        return made

    def reset_parameters(self) -> None:
        """Learned tables near uniform; what is known stays."""
        if self.learned:
            nn.init.normal_(self.logits, std=SPREAD)

    def log_table(self) -> Float[Tensor, "K L"]:
        """log p(y|z)."""
        return torch.log_softmax(self.logits, -1)

    def forward(self, codes: Int[Tensor, "*n"]) -> Float[Tensor, "*n K"]:
        """Potentials of labels."""
        return (self.log_table() - self.log_p0).mT[codes]


class GenerativeFactor(nn.Module):
    """Everything between labels and their potentials, in the place of a `RecognitionFactor`."""

    is_generative = True

    def __init__(
        self, network: GenerativeTable, head: Head, family: FiniteSupport, targets: Targets | None = None
    ) -> None:
        super().__init__()
        self.network, self.head, self.family = network, head, family
        self.targets = targets or AllLatents()
        self.scaling: Scaling = Unscaled()

    def reference(self, prior: Float[Tensor, "S D"]) -> Float[Tensor, "S d"]:
        """What f_j would be relative to, were it asked for: p(z|y) under it."""
        return self.head.reference(self.family, self.targets.natural(prior))

    def forward(self, inputs: Int[Tensor, "N T"], present: Bool[Tensor, "N T"], like: Tensor) -> Factor:
        """log p(y|z)/p₀(y) at every site, zero where there is no label."""
        g = torch.where(present[..., None], self.network(inputs).to(like.dtype), 0.0)
        log_p0 = torch.where(present, self.network.log_p0[inputs].to(like.dtype), 0.0)
        return Factor(g, present, self.targets, log_p0=log_p0)

    @torch.no_grad()
    def alphabet(self) -> tuple[Float[Tensor, "L K"], Float[Tensor, "L"]]:
        """Potentials and log p₀ of all labels."""
        codes = torch.arange(self.network.n_labels, device=self.network.log_p0.device)
        return self.network(codes), self.network.log_p0

    def curves(self) -> None:
        """No channels of its own."""

    def outside(self, rows: Int[Tensor, "n"]) -> Bool[Tensor, "n"]:
        """None: unknown labels are refused where they are read."""
        return torch.zeros_like(rows, dtype=torch.bool)

    def check(self, name: str, spec: FactorSpec, like: Tensor) -> None:
        """Refuse what holds no labels, or others."""
        if spec.vocabulary is None:
            raise errors.network_needs_labels(name)
        expected = (self.network.n_labels, self.network.n_out)
        got = (len(spec.vocabulary), self.family.n_states)
        if got != expected:
            wanted = f"{expected[1]} states and {expected[0]} labels"
            raise errors.bad_value(f"p(label | state) of factor '{name}'", wanted, got[::-1])


def pinned_table(
    name: str, states: int, labels: int, error: float, table: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """p(y|z) that is known: as given, or state k having label k mod L but for errors."""
    if table is None:
        if states < labels:
            raise errors.too_few_states_to_pin(name, states, labels)
        right = np.eye(labels)[np.arange(states) % labels]
        return np.asarray((1.0 - error) * right + error * (1.0 - right) / max(1, labels - 1))
    given = np.asarray(table, np.float64)
    sums = given.sum(-1, keepdims=True) if given.ndim else given
    good = given.shape == (states, labels) and bool((given >= 0).all()) and bool((abs(sums - 1.0) < 1e-3).all())
    if not good:
        expected = f"p(label | state): {states} rows of {labels} numbers ≥ 0 that sum to 1"
        raise errors.bad_value(f"the table of factor '{name}'", expected, f"shape {given.shape}: {given.tolist()}")
    return np.asarray(given / sums)
