"""A recognition factor f_j(z|x): input scaling, input dropout, network and head."""

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import Factor
from rpmodels.families import Family
from rpmodels.observations import FactorSpec, Scaling, Unscaled
from rpmodels.recognition.heads import Head
from rpmodels.recognition.networks import rows_of


class RecognitionFactor(nn.Module):
    """Everything between an observed x_j and its potential. Absent rows never reach the network."""

    def __init__(self, network: nn.Module, head: Head, input_dropout: float = 0.0) -> None:
        super().__init__()
        self.network = network
        self.head = head
        self.scaling: Scaling = Unscaled()
        self.input_dropout = nn.Dropout(input_dropout)

    def forward(
        self,
        inputs: Shaped[Tensor, "N T *event"],
        present: Bool[Tensor, "N T"],
        family: Family,
        reference: Float[Tensor, "S D"],
    ) -> Factor:
        """g at every site, zero where absent."""
        if bool(present.all()):
            raw = self._raw(rows_of(inputs), reference.dtype).reshape(*present.shape, -1)
            return Factor(self.head(family, raw, reference), present)
        raw = reference.new_zeros(*present.shape, family.raw_size)
        if bool(present.any()):
            raw[present] = self._raw(inputs[present], reference.dtype)
        g = self.head(family, raw, reference)
        return Factor(torch.where(present[..., None], g, torch.zeros_like(g)), present)

    def _raw(self, rows: Shaped[Tensor, "n *event"], dtype: torch.dtype) -> Float[Tensor, "n R"]:
        scaled = self.scaling(rows, dtype)
        if scaled.is_floating_point():
            scaled = self.input_dropout(scaled)
        raw: Tensor = self.network(scaled)
        return raw

    def check(self, name: str, spec: FactorSpec, family: Family, like: Tensor) -> None:
        """Try the network on two rows before any work is done; say what it gave and what it should give."""
        rows = torch.zeros(2, *spec.event_shape, dtype=like.dtype)
        if spec.vocabulary is not None:  # the largest code, to see whether the table reaches it
            rows = torch.full((2,), max(0, len(spec.vocabulary) - 1))
        expected = (2, family.raw_size)
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
