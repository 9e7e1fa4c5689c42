"""The step of an RPM: E-step, free energy, and the closed-form part of the M-step."""

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import errors
from rpmodels.carriers import Batch, Factor, Factors, Sites
from rpmodels.fitted import FittedRPM, Inferred
from rpmodels.free_energy import FreeEnergy, free_energy
from rpmodels.inference import summed_potentials
from rpmodels.learning.loop import Objective, Parts, Values
from rpmodels.local_parameters import LocalParameters, LocalTable
from rpmodels.mixtures import (
    ExtraAtoms,
    Kind,
    Mixture,
    NoExtraAtoms,
    in_a_step,
    joined_atoms,
    of_all_processes,
)
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.recognition import has_no_hidden_layer
from rpmodels.step import Step


@dataclass(frozen=True)
class Evaluated(Inferred):
    """A batch with its posterior and its free energy."""

    energy: FreeEnergy


class OfRPM(Objective[RPM], ABC):
    """The free energy of an RPM, as a function of some of its parameters."""

    n_observations: float
    """Σ weights of all that there are."""


class RPMObjective(OfRPM):
    """The free energy of a batch (eq 5), F_j over its atoms, and the prior's closed-form update after the step.

    Args:
        model: prepared
        observations: all those of the training
        extra: atoms that a step has beside those of its batch; default none

    """

    shares = True

    def __init__(self, model: RPM, observations: Observations, extra: ExtraAtoms | None = None) -> None:
        super().__init__()
        self.model = model
        self.extra = extra or NoExtraAtoms()
        if model.draws_atoms and not isinstance(self.extra, NoExtraAtoms):
            raise errors.extra_beside_drawn(type(self.extra).__name__, type(model.marginal).__name__)
        self.densities = model.densities(observations)
        self.beside = self.extra.beside
        self.n_observations = float(observations.weights.sum())
        self.local = LocalTable(starting_parameters(model, observations)).to(model.device, model.dtype)
        sizes = {name: recogniser.family.natural_size for name, recogniser in model.recognisers()}
        bank = self.extra.bank(sizes, len(observations), observations.n_sites)
        self.bank = None if bank is None else bank.to(model.device, model.dtype)
        self._last: Evaluated | None = None
        self.take_last_steps(False)

    def take_last_steps(self, last: bool) -> None:
        """Then F_j has as many atoms as a step can afford, and q is found as it will be for new data."""
        model = self.model
        self._policy = model.atoms.for_last_steps() if last else model.atoms
        self._e_step = model.e_step if last else model.e_step.on_the_way()

    def forward(self, batch: Batch) -> Mapping[str, Tensor]:
        """Named terms of F, weighted means over the batch (in several processes, this one's part of them)."""
        self._last = self.evaluate(batch)
        return self._last.energy.means(batch.weights, batch.total_weight)

    def evaluate(self, batch: Batch) -> "Evaluated":
        """Recognition, E-step and free energy of every observation of the batch."""
        model = self.model
        # New data have no parameters of their own, so held-out batches are inferred as new data are.
        e_step = self._e_step if self.training else model.e_step.for_new_data()
        approximation = model.expected_log_mixture if self.training else model.expected_log_mixture.for_new_data()
        try:
            factors = model.recognise(batch)
            with model.blaming(batch, factors):
                mixtures = self._mixtures(batch, factors)
                local = self.local.take(batch.index) if self.training else LocalParameters()
                step = Step(model.prior, batch.sites, factors, mixtures, local)
                posterior = e_step(step, approximation)
                energy = free_energy(step, posterior, approximation, batch.weights, self.n_observations)
        except errors.NumericalError as failure:
            if self.group.size > 1:
                raise errors.failed_together(self.group.rank, failure) from failure
            raise
        return Evaluated(batch, step, posterior, energy)

    @torch.no_grad()
    def after_step(self) -> None:
        """prior.update from the posterior of this step."""
        if self._last is None:
            return
        last, self._last = self._last, None
        sums = self.model.prior.sums(last.posterior, last.batch.weights)
        if sums and self.group.size > 1:
            flat = self.group.summed(torch.cat([each.reshape(-1) for each in sums.values()]))
            parts = torch.split(flat, [each.numel() for each in sums.values()])
            sums = {name: part.reshape(sums[name].shape) for name, part in zip(sums, parts, strict=True)}
        self.model.prior.update(sums, min(1.0, float(last.batch.total_weight) / self.n_observations))

    def skip_step(self) -> None:
        """Forget the batch."""
        self._last = None

    def fitted(self, observations: Observations) -> FittedRPM:
        """F_j over all the data."""
        return FittedRPM.collected(self.model, observations)

    def scored(self, observations: Observations, parts: Parts, atoms: Observations) -> list[Values]:
        """F of every observation, each against the atoms of these training data plus itself, as new data are."""
        values = FittedRPM.collected(self.model, atoms, self.densities).free_energies(observations).values
        return [values[part] for part in parts]

    def is_direct(self) -> bool:
        """Whether networks have no hidden layer, nothing is drawn or local, and ⟨log F⟩ is exact or a bound."""
        model = self.model
        return (
            not self.local_parameters()
            and not model.draws_atoms
            and model.expected_log_mixture.kind is not Kind.ESTIMATE
            and all(has_no_hidden_layer(each.network) for _, each in model.recognisers())
        )

    def local_parameters(self) -> list[torch.nn.Parameter]:
        """Those of the E-step and of ⟨log F⟩."""
        return list(self.local.parameters())

    # ---- the atoms of a step ----------------------------------------------------------------

    def _mixtures(self, batch: Batch, factors: Factors) -> dict[str, Mixture]:
        """F_j over the batch's atoms, extra ones, and those of other processes' shares."""
        references = self.model.references(self._everyones(batch.sites))
        collected = self._collected(batch, factors, references)
        approximation = self.model.expected_log_mixture
        return of_all_processes({name: each.summarised(approximation) for name, each in collected.items()}, self.group)

    def _collected(self, batch: Batch, factors: Factors, references: Mapping[str, Tensor]) -> dict[str, Mixture]:
        # A sample of atoms needs every site's own beside it, which draws from a density are not: these are all there.
        drawn: dict[str, Mixture] = {
            name: self.model.drawn_mixture(
                name, each, [batch], references[name], batch.sites.exists.shape[1], fresh=self.training
            )
            for name, each in self.densities.items()
        }
        rest = {name: each for name, each in factors.items() if name not in drawn}
        if not self.training:
            return drawn | self.model.mixtures(rest, batch.weights, references)
        atoms, weights = self._with_extra(batch, rest)
        return drawn | {
            name: in_a_step(self._policy, each.family, references[name], atoms[name], weights, factors[name])
            for name, each in self.model.recognisers()
            if name in atoms
        }

    def _with_extra(self, batch: Batch, factors: Factors) -> tuple[Factors, Float[Tensor, "n"]]:
        extra = self.extra.drawn(batch, self.model.recognise, self.bank)
        if self.bank is not None:
            self.bank.remember(batch, factors)
        if extra is None:
            return factors, batch.weights
        how = (not self.model.atoms.shared, self.extra.own_gradients_for_all)
        atoms = {name: joined_atoms(factor, extra[0][name], *how) for name, factor in factors.items()}
        return atoms, torch.cat([batch.weights, extra[1].to(batch.weights.dtype)])

    def _everyones(self, sites: Sites) -> Sites:
        """What references depend on: the batch's sites in all processes, where all share one reference."""
        if not self.model.atoms.shared or self.group.size == 1:
            return sites
        gathered = self.group.gathered
        u = None if sites.u is None else gathered(sites.u)
        return Sites(gathered(sites.times), gathered(sites.exists.to(torch.uint8)).bool(), u)


def starting_parameters(model: RPM, observations: Observations) -> LocalParameters:
    """Local parameters for the parts that want some, started from what the untrained factors say."""
    sites = observations.sites(model.device)

    @cache
    def factors() -> dict[str, Factor]:
        parts = [each for _, each in model.recognised(observations)]
        return {name: Factor.joined([part[name] for part in parts], observations.n_sites) for name in model.names}

    def potentials() -> Tensor:
        return summed_potentials(factors()).detach()

    def start(name: str) -> Tensor:
        posterior = model.prior.condition(potentials(), sites)
        return factors()[name].targets.natural(posterior.eta).detach()

    approximation = model.expected_log_mixture
    return LocalParameters(
        model.e_step.initial_parameters(model.prior, sites, potentials),
        {
            name: approximation.initial_parameters(recogniser.family, partial(start, name))
            for name, recogniser in model.recognisers()
        },
    )
