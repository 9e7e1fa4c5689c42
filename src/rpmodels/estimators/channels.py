"""Verbs of estimators that may have populations: what channels are expected to show, and what each of them brings."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rpmodels import channels, errors
from rpmodels.estimators import parts
from rpmodels.estimators.layout import Layout, joined
from rpmodels.fitted import FittedRPM
from rpmodels.observations import Observations

Array = NDArray[np.float64]
REACH, POINTS = 3.0, 61
"""Of tuning curves: sds of the prior, and points."""


@dataclass(frozen=True)
class Tuning:
    """Curves of every channel of a population along its projection u = w·z of the latents."""

    u: Array
    """(U,) values of the projection, in sds of the prior."""
    expected: Array
    """(C, U): E[x_c | u]."""
    directions: Array
    """(C, K): w, of length one."""
    precision: Array
    """(C,): nats that a channel says of its projection, on average over its values: ⟨½ log(1 + b)⟩."""


class WithChannels(ABC):
    """For estimators of continuous latents."""

    @abstractmethod
    def _fitted(self) -> FittedRPM:
        """The fitted model."""

    @abstractmethod
    def _new(self, X: Any, **options: Any) -> tuple[Observations, Layout]:
        """New data, checked against what the model was fitted to."""

    def rates(self, X: Any, factor: str | None = None, *, e_step: Any = None, **options: Any) -> Any:
        """Denoised observations ⟨E[x_c | u_c]⟩ of every channel of a population, in the form of X.

        Channels that X does not show (NaN) are predicted from the others. It needs no read-out that is fitted
        afterwards: p(x_c | u) = p₀ f_c/F_c is the model's own.

        Args:
            X: as for `transform`
            factor: the population; None where there is one only
            e_step: another way to q than the one that the model was trained with: "natural_gradient" refines it
            options: as for `transform`

        """
        observations, layout = self._new(X, **options)
        found = [each.rates for each in self._predicted(observations, factor, e_step)]
        return layout.form(joined(found, observations.n_sites))

    def channel_probabilities(
        self, X: Any, factor: str | None = None, *, e_step: Any = None, **options: Any
    ) -> tuple[Any, Array]:
        """p(x_c = value | X) of every channel, (…, C, A) in the form of X, and the values (C, A), NaN beyond the last.

        The last value of a count stands for itself and all above it. Arguments as for `rates`.
        """
        observations, layout = self._new(X, **options)
        found = [each.probabilities.flatten(2) for each in self._predicted(observations, factor, e_step)]
        curves = channels.curves_of(self._fitted(), self._population(factor))
        flat = layout.form(joined(found, observations.n_sites))
        shape = (curves.n_channels, curves.n_values)
        values = torch.where(torch.isfinite(curves.log_p0), curves.grid.values, torch.nan)
        apart = [each.reshape(*each.shape[:-1], *shape) for each in (flat if isinstance(flat, list) else [flat])]
        return (apart if isinstance(flat, list) else apart[0]), values.double().cpu().numpy()

    def _predicted(self, observations: Observations, factor: str | None, e_step: Any) -> Any:
        chosen = parts.other_e_step(e_step)
        return channels.predicted(self._fitted(), observations, self._population(factor), chosen)

    def tuning(self, factor: str | None = None, u: Any = None) -> Tuning:
        """How every channel of a population depends on its projection of the latents.

        `u`: where; default from −3 to 3 sds of the prior.
        """
        model, name = self._fitted(), self._population(factor)
        places = np.linspace(-REACH, REACH, POINTS) if u is None else np.asarray(u, np.float64)
        if places.ndim != 1 or not np.isfinite(places).all():
            raise errors.bad_value("u", "finite numbers of shape (U,)", f"shape {places.shape}")
        with torch.no_grad():
            curves = channels.curves_of(model, name).curves()
            says = (curves.log_p0.exp() * 0.5 * torch.log1p(curves.b)).sum(1)
        expected = channels.tuning(model, name, torch.as_tensor(places, device=model.device))
        found = (each.double().cpu().numpy() for each in (expected, curves.directions, says))
        return Tuning(places, *found)

    def contributions(self, X: Any, **options: Any) -> dict[str, Array]:
        """Nats that every factor (N, 1), and every channel of a population (N, C), brings to each trial.

        KL between the posterior of the latents with and without it; `options` as for `transform`.
        """
        observations, _ = self._new(X, **options)
        found = channels.contributions(self._fitted(), observations)
        return {name: each.double().cpu().numpy() for name, each in found.items()}

    @property
    def populations_(self) -> tuple[str, ...]:
        """The factors whose channels are recognised one by one."""
        model = self._fitted()
        return tuple(name for name in model.names if channels.is_population(model, name))

    def _population(self, factor: str | None) -> str:
        """The name of a population: the one that was asked for, or the only one there is."""
        if factor is not None:
            return str(factor)
        names = self.populations_
        if len(names) != 1:
            raise errors.which_population(names) if names else errors.no_population(self._fitted().names[0], [])
        return names[0]
