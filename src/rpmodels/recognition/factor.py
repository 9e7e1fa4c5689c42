"""A recognition factor f_j(z|x): input scaling, input dropout, network and head."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import AllLatents, Factor, Targets
from rpmodels.families import Family, FiniteSupport, FullGaussian
from rpmodels.observations import FactorSpec, Observations, Scaling, Unscaled, fit_scaling
from rpmodels.recognition.computing import Computing, Plain
from rpmodels.recognition.dropout import Dropout
from rpmodels.recognition.generative import GenerativeFactor, GenerativeTable
from rpmodels.recognition.heads import Head
from rpmodels.recognition.networks import rows_of
from rpmodels.recognition.population import ChannelCurves, PopulationFactor
from rpmodels.tracing import recording


class RecognitionFactor(nn.Module):
    """Everything between an observed x_j and its potential. Absent rows never reach the network.

    `family` is that of the latents it targets.
    """

    is_generative = False

    def __init__(
        self,
        network: nn.Module,
        head: Head,
        family: Family,
        targets: Targets | None = None,
        input_dropout: float = 0.0,
        computing: Computing | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.computing = computing or Plain()
        self.head = head
        self.family = family
        self.targets = targets or AllLatents()
        self.scaling: Scaling = Unscaled()
        self.input_dropout = Dropout(input_dropout)

    def reference(self, prior: Float[Tensor, "S D"]) -> Float[Tensor, "S d"]:
        """What g is relative to, given the prior's marginal over all latents."""
        return self.head.reference(self.family, self.targets.natural(prior))

    def forward(self, inputs: Shaped[Tensor, "N T *event"], present: Bool[Tensor, "N T"], like: Tensor) -> Factor:
        """g at every site, zero where absent, in the precision and place of `like`.

        In a recorded program the network sees zeros where a row is absent, and what it makes of them is not heard.
        """
        if recording() or bool(present.all()):
            raw = self._raw(rows_of(inputs), like.dtype).reshape(*present.shape, -1)
            return Factor(self.head(self.family, raw), present, self.targets)
        raw = like.new_zeros(*present.shape, self.family.raw_size)
        if bool(present.any()):
            raw[present] = self._raw(inputs[present], like.dtype)
        g = self.head(self.family, raw)
        return Factor(torch.where(present[..., None], g, torch.zeros_like(g)), present, self.targets)

    def curves(self) -> None:
        """No channels of its own."""

    def outside(self, rows: Shaped[Tensor, "n *event"]) -> Bool[Tensor, "n *event"]:
        """Which numbers are beyond what the scaling of the training data tells apart."""
        return self.scaling.outside(rows)

    def _raw(self, rows: Shaped[Tensor, "n *event"], dtype: torch.dtype) -> Float[Tensor, "n R"]:
        scaled = self.scaling(rows, dtype)
        if scaled.is_floating_point():
            scaled = self.input_dropout(scaled)
        return self.computing(self.network, scaled).to(dtype)

    def check(self, name: str, spec: FactorSpec, like: Tensor) -> None:
        """Try the network on two rows before any work is done; say what it gave and what it should give."""
        rows = torch.zeros(2, *spec.event_shape, dtype=like.dtype)
        if spec.vocabulary is not None:  # the largest code, to see whether the table reaches it
            rows = torch.full((2,), max(0, len(spec.vocabulary) - 1))
        expected = (2, self.family.raw_size)
        training = self.training
        self.eval()
        try:
            with torch.no_grad():
                got = tuple(self._raw(rows.to(like.device), like.dtype).shape)
        except (RuntimeError, TypeError, ValueError, IndexError) as failure:
            raise errors.network_failed(name, spec.event_shape, failure) from failure
        finally:
            self.train(training)
        if got != expected:
            raise errors.network_shape(name, spec.event_shape, expected, got)


def recogniser(
    network: nn.Module, head: Head, family: Family, targets: Targets, input_dropout: float, computing: Computing | None
) -> "RecognitionFactor | PopulationFactor | GenerativeFactor":
    """The factor that a network is for: curves of channels make a population, a table p(y|z) a generative one."""
    if isinstance(network, ChannelCurves):
        if not isinstance(family, FullGaussian):
            raise errors.population_needs_full(type(family).__name__)
        return PopulationFactor(network, head, family, targets)
    if isinstance(network, GenerativeTable):
        if not isinstance(family, FiniteSupport):
            raise errors.needs_finite_support("a factor that says p(label | z)", type(family).__name__)
        return GenerativeFactor(network, head, family, targets)
    return RecognitionFactor(network, head, family, targets, input_dropout, computing)


def fit_scalings(
    recognisers: Mapping[str, "RecognitionFactor | PopulationFactor | GenerativeFactor"],
    observations: Observations,
    choice: str | Mapping[str, str],
    like: Tensor,
) -> None:
    """One scaling per network and choice: factors that share a network must share what it sees."""
    given = dict.fromkeys(recognisers, choice) if isinstance(choice, str) else choice
    asked = {str(name): each for name, each in given.items()}
    for name in asked:
        if name not in recognisers:
            raise errors.unknown_factor(name, list(recognisers))
    groups: dict[tuple[int, str], list[str]] = {}
    for name, recogniser in recognisers.items():
        if not isinstance(recogniser, RecognitionFactor):  # whose grids and tables are made of the values themselves
            continue
        groups.setdefault((id(recogniser.network), asked.get(name, "auto")), []).append(name)
    for (_, chosen), names in groups.items():
        rows = [observations.present_rows(name) for name in names]
        together = rows[0] if len(rows) == 1 else np.concatenate(rows)
        scaling = fit_scaling(", ".join(names), together, chosen, observations.specs[names[0]].is_label)
        for name in names:
            recognisers[name].scaling = scaling.to(like.device, like.dtype)
