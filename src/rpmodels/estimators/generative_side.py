"""Verbs of every estimator: what a factor would have shown, draws of latents and observations, p(x_j | z) (eq 1–2)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rpmodels import channels, checks, errors, generative
from rpmodels.estimators.description import Description
from rpmodels.estimators.drawn_sites import drawn_sites
from rpmodels.estimators.layout import Layout
from rpmodels.families import Discrete, Family, FiniteSupport, HasTargets, JointStates
from rpmodels.fitted import FittedRPM
from rpmodels.generative import Rows
from rpmodels.observations import Observations
from rpmodels.observations.arrays import as_array
from rpmodels.observations.reading import checked_weights
from rpmodels.seeding import spawn


@dataclass(frozen=True)
class Imputed:
    """What a factor would have shown, in the form of X: arrays, or lists of them."""

    values: Any
    """(…, A): probabilities of the atoms, which are the rows of the fit; (…, L): of the labels; or (…, *event):
    expected observations."""
    error: Any
    """Of each of the values: the standard error where q was drawn from, what fewer nodes change where a quadrature was
    made, zero where states were summed over."""
    effective: NDArray[np.float64]
    """(N,): so many independent draws are as good; ∞ where nothing was drawn."""
    method: str
    """"sum over states", "quadrature", "importance" or "q"."""
    spread: Any = None
    """(…, *event): the sd of the observation given the other factors, beside an expected one."""


class WithGenerativeSide(ABC):
    """For every estimator: FittedRPM knows all of it, and only the form of data and results is added here."""

    description: ClassVar[Description]
    random_state: Any

    @abstractmethod
    def _fitted(self) -> FittedRPM:
        """The fitted model."""

    @abstractmethod
    def _laid_out(self, X: Any, **options: Any) -> tuple[Observations, Layout]:
        """New data, checked against what the model was fitted to, and the form of results."""

    def _as_for_fit(self, X: Any) -> Observations:
        """Data every row of which counts once."""
        return self._laid_out(X)[0]

    def impute(
        self,
        X: Any,
        factor: str | None = None,
        *,
        rows: Any = None,
        row_weights: Any = None,
        hide: bool | None = None,
        method: str = "auto",
        draws: int = generative.DRAWS,
        nodes: int | None = None,
        **options: Any,
    ) -> Imputed:
        """What a factor would have shown, given all others: p(x_j | the others) = ⟨p₀ f_j/F_j⟩.

        The model keeps no data: alone it knows how probable every row of its fit is. Given these rows, or others to
        choose from, it gives expected observations with their sd, or the probabilities of labels.

        Args:
            X: as for `latents`
            factor: its name; None where there is one only
            rows: observations of the factor in the form of the data, such as those of the fit
            row_weights: (N,) of the rows; the `sample_weight` of the fit, where it had some
            hide: whether rows of the factor that X has are hidden; None: where there are other factors. If not, they
                are looked at, and what is found for missing rows is what was missed
            method: "quadrature" (one site, at most three latents or an angle), "importance" (draws of q, weighted),
                "q" (q as the posterior), "auto"; states are always summed over
            draws: of q
            nodes: of a quadrature, along every latent
            options: as for `latents` (times, presence, inputs)

        """
        (checks.Nothing() | checks.Flag()).check("hide", hide)
        model, name = self._fitted(), self._factor(factor)
        observations, layout = self._laid_out(X, **options)
        found = generative.impute(
            model,
            observations,
            name,
            rows=None if rows is None else self._rows(name, rows, row_weights),
            hide=len(model.names) > 1 if hide is None else hide,
            method=method,
            draws=draws,
            nodes=nodes,
            seed=spawn(self.random_state, 5)[4],
        )
        spec = model.specs[name]
        shape = (-1,) if rows is None or spec.is_label else spec.event_shape

        def formed(values: Tensor) -> Any:
            return layout.form(values.reshape(*values.shape[:2], *shape).cpu().numpy())

        spread = None if found.spread is None or spec.is_label else formed(found.spread)
        effective = found.effective.double().cpu().numpy()
        return Imputed(formed(found.values), formed(found.error), effective, found.method, spread)

    def sample(
        self,
        n_samples: int = 1,
        length: int | None = None,
        *,
        times: Any = None,
        inputs: Any = None,
        rows: Any = None,
        row_weights: Any = None,
        random_state: Any = None,
    ) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
        """Draws from the joint of latents and observations (eq 2): {factor: what it shows}, and the latents.

        A factor shows atoms, by number: (n_samples,), of series (n_samples, length), −1 where it has none. Given
        `rows` it shows these. Populations show numbers, channel by channel.

        Args:
            n_samples: how many
            length: of series; as the longest of the fit by default
            times: (T,) of series instead, of models that take times
            inputs: (T, U) or (n_samples, T, U), of models with inputs
            rows: {factor: observations} in the form of the data, such as those of the fit; of one factor as they are
            row_weights: (N,) of the rows; the `sample_weight` of the fit, where it had some
            random_state: of the draws; that of the model by default

        """
        model = self._fitted()
        count = checks.integer("n_samples", n_samples, 1)
        seed = self.random_state if random_state is None else random_state
        generator = torch.Generator(model.device).manual_seed(spawn(seed, 3)[2])
        sites = drawn_sites(self.description, model, count, length, times, inputs)
        given = {} if rows is None else self._given(rows, row_weights)
        on_rows = {name: generative.conditional_on_rows(model, name, each.observations, sites)
                   for name, each in given.items()}  # fmt: skip
        z, drawn = generative.sample(model, count, generator, sites, on_rows)
        shown = {name: self._shown(name, each, given.get(name)) for name, each in drawn.items()}
        if self.description.in_trials:
            return shown, np.asarray(z.cpu().numpy())
        return {name: each[:, 0] for name, each in shown.items()}, np.asarray(z[:, 0].cpu().numpy())

    def conditional_weights(self, factor: str | None = None, z: Any = None) -> NDArray[Any]:
        """p(x_j = row m of the fit | z), the implied generative conditional on the atoms: (…, A).

        Args:
            factor: its name; None where there is one only
            z: latents as `sample` gives them; None: every state of a discrete latent, (K, A) (of several latents an
                axis for each that the factor speaks of; where every site has its own atoms, behind an axis of sites)

        """
        model, name = self._fitted(), self._factor(factor)
        if z is None:
            return self._of_every_state(name)
        latents = _as_latents(model.prior.family, z, self.description.in_trials)
        found = generative.conditional_weights(model, name, latents.to(model.device)).cpu().numpy()
        return np.asarray(found if self.description.in_trials else found[:, 0])

    def _of_every_state(self, name: str) -> NDArray[Any]:
        """Of every state of the latents that a factor speaks of."""
        model = self._fitted()
        family = model.recogniser(name).family
        if not isinstance(family, FiniteSupport):
            raise errors.needs_latents(type(family).__name__)
        t = family.statistic(family.values().to(model.device))
        found = generative.conditional(model, name).weights(t[None, None])[0].cpu().numpy()
        each = found.reshape(len(found), *self._states_of(name), -1)
        return np.asarray(each[0] if len(each) == 1 else each)

    def _states_of(self, name: str) -> tuple[int, ...]:
        """Numbers of states of the latents that a factor speaks of."""
        family = self._fitted().recogniser(name).family
        assert isinstance(family, FiniteSupport)
        return (family.n_states,)

    # ---- rows of the user's -------------------------------------------------------------------

    def _factor(self, factor: str | None) -> str:
        """The name of a factor: the one that was asked for, or the only one there is."""
        names = self._fitted().names
        if factor is None and len(names) > 1:
            raise errors.bad_value("factor", f"one of {', '.join(names)}", None)
        if factor is not None and str(factor) not in names:
            raise errors.unknown_factor(str(factor), list(names))
        return names[0] if factor is None else str(factor)

    def _rows(self, name: str, rows: Any, weights: Any) -> Rows:
        """Observations of one factor, as numbers: labels one-hot."""
        model = self._fitted()
        if channels.is_population(model, name):
            raise errors.population_predicts(name)
        observations = self._as_for_fit(self._as_data(name, rows))
        observations = replace(observations, weights=checked_weights(weights, len(observations)))
        values = torch.as_tensor(np.asarray(observations.values[name]), device=model.device)
        vocabulary = model.specs[name].vocabulary
        if vocabulary is None:
            numbers = values.flatten(2) if values.ndim > 2 else values[..., None]
        else:
            numbers = torch.nn.functional.one_hot(values.long(), len(vocabulary))
        return Rows(observations, numbers)

    def _as_data(self, name: str, rows: Any) -> Any:
        """Rows of one factor as data with this factor alone; given by its name, they are looked up."""
        if self.description.one_factor:
            return rows
        if isinstance(rows, Mapping):
            named = {str(key): each for key, each in rows.items()}
            if name not in named:
                raise errors.bad_value("rows", f"those of factor '{name}'", f"those of {', '.join(named) or 'none'}")
            rows = named[name]
        # Alone, an array with one number or label a time looks like one recording of several channels.
        one_a_time = self.description.in_trials and self._fitted().specs[name].event_shape == ()
        return {name: list(rows) if one_a_time and np.ndim(rows) == 2 else rows}

    def _given(self, rows: Any, weights: Any) -> dict[str, Rows]:
        """Of every factor that has some."""
        if isinstance(rows, Mapping) and not self.description.one_factor:
            return {self._factor(name): self._rows(self._factor(name), each, weights) for name, each in rows.items()}
        return {self._factor(None): self._rows(self._factor(None), rows, weights)}

    def _shown(self, name: str, index: Tensor, rows: Rows | None) -> NDArray[Any]:
        """Draws as the user sees them: atoms by number, values of channels, or rows."""
        model = self._fitted()
        if channels.is_population(model, name):
            values = channels.curves_of(model, name).grid.values.to(index.device)
            picked = values.expand(*index.shape, -1).gather(-1, index[..., None])[..., 0]
            return np.asarray(picked.cpu().numpy())
        places = np.asarray(index.cpu().numpy())
        if rows is None:
            return places
        return _picked(np.asarray(rows.observations.values[name]), places, model, name)


def _picked(values: NDArray[Any], index: NDArray[np.int64], model: FittedRPM, name: str) -> NDArray[Any]:
    """Rows by the number of their atom; where there is none NaN, or None for a label; labels by their names."""
    site = np.arange(index.shape[1]).clip(max=values.shape[1] - 1)  # later ones have no atoms
    found = values.reshape(-1, *values.shape[2:])[index] if model.pattern.atoms.shared else values[index, site]
    vocabulary = model.specs[name].vocabulary
    if vocabulary is not None:
        named = np.asarray(vocabulary)[found]
        return np.asarray(np.where(index < 0, None, named) if (index < 0).any() else named)
    missing = (index < 0).reshape(*index.shape, *[1] * (found.ndim - 2))
    return np.asarray(np.where(missing, np.nan, found))


def _as_latents(family: Family, z: Any, in_trials: bool) -> Tensor:
    """(n, T, *z), from what the user gave."""
    values = as_array("z", z)
    whole = isinstance(family, Discrete)
    columns = (family.latents,) if isinstance(family, HasTargets) else ()
    expected = (("n", "T") if in_trials else ("n",)) + tuple(str(each) for each in columns)
    fits = values.ndim == len(expected) and values.shape[values.ndim - len(columns) :] == columns
    good = values.dtype.kind in ("iu" if whole else "biuf") and bool(np.isfinite(values).all())
    if not fits or not good:
        kind = "states (whole numbers)" if whole else "finite numbers"
        raise errors.bad_value("z", f"{kind} of shape ({', '.join(expected)})", f"shape {values.shape}")
    if isinstance(family, FiniteSupport | JointStates):
        last = np.asarray(family.n_states if isinstance(family, FiniteSupport) else family.states) - 1
        if values.size and bool(((values < 0) | (values > last)).any()):
            raise errors.bad_value("z", f"states from 0 to {last.tolist()}", f"{values.min()} to {values.max()}")
    tensor = torch.as_tensor(values, dtype=torch.int64 if whole else torch.float64)
    return tensor if in_trials else tensor[:, None]
