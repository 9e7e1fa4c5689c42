"""A fitted model: what is known afterwards. F_j over all training data, and the two verbs `posterior` and `score`."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from rpmodels import errors, mixtures
from rpmodels.carriers import Doubles, Factor, Factors, Sites
from rpmodels.free_energy import FreeEnergy, Score, fit_ceiling, free_energy, least_surprise
from rpmodels.inference import EStep
from rpmodels.local_parameters import LocalParameters, LocalTable
from rpmodels.mixtures.stored_atoms import StoredAtoms
from rpmodels.model import RPM
from rpmodels.observations import FactorSpec, Observations
from rpmodels.priors import Prior
from rpmodels.recognition import GenerativeFactor, Recogniser
from rpmodels.step import Inferred, Step

__all__ = ["FittedRPM", "Inferred"]

CHECKED, EVERY = 64, 4
"""Observations by which the error of a quadrature is estimated, at most, and one of how many."""


class FittedRPM(nn.Module):
    """An RPM with F_j of every factor over all its training data, always in evaluation mode.

    The atoms are natural parameters, never raw data. New observations are inferred and scored against the training
    atoms plus themselves, each by itself, so that nothing depends on the batch it came in.

    Args:
        pattern: the trained RPM
        atoms: F_j over all the training data
        times: (1, T) of the longest training trial
        n_observations: Σ weights of what was learnt from
        n_sites: the same of its sites

    """

    def __init__(
        self,
        pattern: RPM,
        atoms: Mapping[str, mixtures.Mixture],
        times: Float[Tensor, "1 T"],
        n_observations: float,
        n_sites: float,
    ) -> None:
        super().__init__()
        self.pattern = pattern
        # A list, because a user's factor names need not be valid names of submodules.
        self._atoms = nn.ModuleList(StoredAtoms(atoms[name]) for name in pattern.names)
        self._summaries: dict[str, mixtures.Mixture] = {}
        self._times = Doubles(times).to(pattern.device)
        self.n_observations, self.n_sites, self.temperature = n_observations, n_sites, 1.0
        """The last: how much populations are believed by `posterior` (`rpmodels.temperature`); by scores, wholly."""
        self.excess, self.profile = cast(Any, None), cast(Any, None)
        """`Excess` of the average q over the prior, and the `Profile` of the training data, where they are known."""
        self.record, self.verbose = cast(Any, None), False
        """How it was trained (history, steps, stop_reason), where by `rp.train`; whether many pieces show a bar."""
        self.eval()

    @staticmethod
    @torch.no_grad()
    def collected(
        pattern: RPM, observations: Observations, densities: Mapping[str, mixtures.Density] | None = None
    ) -> "FittedRPM":
        """With F_j over all these observations: the last step of every fit. `densities`: p₀ by more data than these."""
        pattern.check_specs(observations)
        densities = pattern.densities(observations) if densities is None else densities
        parts: dict[str, list[Factor]] = {name: [] for name in pattern.names if name not in densities}
        for _, factors in pattern.recognised(observations) if parts else ():
            for name, each in parts.items():
                each.append(factors[name])
        weights = torch.as_tensor(observations.weights, dtype=pattern.dtype, device=pattern.device)
        longest = int(observations.exists.sum(1).argmax())
        joint = {name: Factor.joined(each, observations.n_sites) for name, each in parts.items()}
        everywhere = observations.sites(pattern.device)
        # As in training: what taught nothing has no say in what all sites share.
        usable = torch.as_tensor(observations.usable(), device=pattern.device)
        if pattern.atoms.shared:
            everywhere = everywhere.take(usable)
        references = pattern.references(everywhere)
        atoms = pattern.mixtures(joint, weights, references)
        for name, density in densities.items():
            with pattern.as_for_new_data():
                batches = pattern.batches(observations)
                atoms[name] = pattern.drawn_mixture(name, density, batches, references[name], observations.n_sites)
        times = torch.tensor(np.array(observations.times[longest : longest + 1]))
        counts = (observations.exists.sum(1) * observations.weights)[observations.usable()]
        return FittedRPM(pattern, atoms, times, float(weights[usable].sum()), float(counts.sum()))

    def train(self, mode: bool = True) -> "FittedRPM":
        """What is fitted stays in evaluation mode; to train it further, train its `pattern`."""
        return super().train(False)

    def _apply(self, fn: Any, recurse: bool = True) -> "FittedRPM":
        self._summaries = {}  # they follow the atoms to another device or precision
        return cast("FittedRPM", super()._apply(fn, recurse))  # type: ignore[no-untyped-call]

    # ---- what it is -------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The factors."""
        return self.pattern.names

    @property
    def prior(self) -> Prior:
        """p(Z)."""
        return self.pattern.prior

    @property
    def specs(self) -> dict[str, FactorSpec]:
        """What every factor's observations look like."""
        return self.pattern.specs

    @property
    def dtype(self) -> torch.dtype:
        """Precision of everything but labels and times."""
        return self.pattern.dtype

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.pattern.device

    @property
    def times(self) -> NDArray[np.float64]:
        """(T,) of the longest training trial."""
        return np.asarray(self._times.values[0].cpu().numpy())

    def sites(self, n: int) -> Sites:
        """Those of the longest training trial, for n observations."""
        times = self._times.values.expand(n, -1)
        return Sites(times, torch.ones_like(times, dtype=torch.bool))

    def recogniser(self, name: str) -> Recogniser:
        """One recognition factor."""
        if name not in self.names:
            raise errors.unknown_factor(name, list(self.names))
        return dict(self.pattern.recognisers())[name]

    def drawn(self, name: str) -> bool:
        """Whether the atoms of a factor are draws from its p₀, not observations."""
        return self.pattern.marginal.draws_for(name)

    def atoms(self, name: str) -> mixtures.AtomMixture:
        """F_j, atom by atom."""
        found = self._mixture(name)
        if isinstance(found, mixtures.GenerativeMixture):
            return found.as_atoms(*cast(GenerativeFactor, self.recogniser(name)).alphabet())
        if not isinstance(found, mixtures.AtomMixture):
            raise errors.no_atoms(name)
        return found

    def _mixture(self, name: str) -> mixtures.Mixture:
        stored, each = cast(StoredAtoms, self._atoms[self.names.index(name)]), self.recogniser(name)
        return stored.mixture(self.pattern.atoms.shared, self.drawn(name), each.curves(), each.is_generative)

    # ---- new data ---------------------------------------------------------------------------

    def recognise(self, observations: Observations, name: str) -> Iterator[Float[Tensor, "N T D"]]:
        """η of f_j(z|x_j) of one factor by itself, batch by batch."""
        for batch, factors in self.pattern.recognised(observations):
            with torch.no_grad():
                eta = self.pattern.references(batch.sites)[name] + factors[name].g
            yield eta

    def posterior(self, observations: Observations, e_step: EStep | None = None) -> Iterator[Inferred]:
        """q(Z) of new observations, batch by batch, by its own E-step or another; no free energy is computed."""
        if e_step is None and self.temperature != 1.0:
            e_step = self.pattern.e_step.for_new_data().tempered(self.temperature)
        return self._inferred(observations, e_step)

    def free_energies(
        self,
        observations: Observations,
        approximation: mixtures.ExpectedLogMixture | None = None,
        *,
        in_training: bool = False,
        local: LocalTable | None = None,
        finer: bool = False,
    ) -> FreeEnergy:
        """F of every observation, each against the training atoms plus itself.

        Args:
            observations: new ones, read with `known=fitted.specs`
            approximation: of ⟨log F⟩ in the free energy, instead of the model's own; the choice of q stays as it is
            in_training: these are the training observations themselves, which are among the atoms already
            local: then also the parameters that training gave to each of them
            finer: with more nodes where mixtures have a quadrature of their own

        """
        chosen = approximation or self.pattern.expected_log_mixture.for_new_data()
        parts = []
        for each in self._inferred(observations, None, in_training, local):
            count = each.batch.weights if in_training else torch.ones_like(each.batch.weights)
            step = each.step
            if finer:
                step = replace(step, mixtures={name: mixture.finer() for name, mixture in each.mixtures.items()})
            with torch.no_grad(), self.pattern.blaming(each.batch, each.factors):
                parts.append(free_energy(step, each.posterior, chosen, count, self.n_observations))
        return FreeEnergy.joined(parts)

    def score(self, observations: Observations, approximation: mixtures.ExpectedLogMixture | None = None) -> Score:
        """Mean log W of new observations, or the bound or estimate of it: nats above independence."""
        energies = self.free_energies(observations, approximation)
        values, ceilings = (each.double().cpu().numpy() for each in (energies.total, energies.log_atoms))
        off = self.quadrature_error(observations, approximation)
        label = self.label(approximation)
        return Score(float(values.mean()), float(ceilings.mean()), float(np.median(values)), label, 0.0, off)

    def label(self, approximation: mixtures.ExpectedLogMixture | None = None) -> str:
        """What kind of number a score is; channels of populations are always integrated over by quadrature."""
        given = (approximation or self.pattern.expected_log_mixture).kind
        return (mixtures.Kind.QUADRATURE if all(self._populations) else given).label

    def quadrature_error(
        self,
        observations: Observations,
        approximation: mixtures.ExpectedLogMixture | None = None,
        *,
        in_training: bool = False,
    ) -> float:
        """How far F of an observation is from that by twice the nodes, on average over some; 0 without quadrature."""
        coarse = approximation or self.pattern.expected_log_mixture.for_new_data()
        fine = coarse.finer()
        if fine is None and not any(self._populations):
            return 0.0
        some = observations.some(min(CHECKED, max(1, len(observations) // EVERY)))
        one, two = (
            self.free_energies(some, each, in_training=in_training, finer=finer).values
            for each, finer in ((coarse, False), (fine or coarse, True))
        )
        return float(np.abs(one - two).mean())

    @torch.no_grad()
    def ceiling(self, observations: Observations) -> float:
        """The highest mean score that any fit of these training observations can have; ∞ where p₀ is a density."""
        if any(self.drawn(name) for name in self.names):
            return torch.inf
        if any(self._populations) or any(each.is_generative for _, each in self.pattern.recognisers()):
            return least_surprise(self.pattern.recognised(observations), self.summary, observations.weights)
        log_totals = {name: self.atoms(name).log_total.cpu() for name in self.names}
        present = {name: torch.as_tensor(observations.present[name]) for name in self.names}
        weights = torch.as_tensor(observations.weights)
        return fit_ceiling(present, weights, log_totals, self.prior.family)

    @property
    def _populations(self) -> list[bool]:
        """Which factors are populations."""
        return [each.curves() is not None for _, each in self.pattern.recognisers()]

    # ---- inside -----------------------------------------------------------------------------

    @torch.no_grad()
    def summary(self, name: str) -> mixtures.Mixture:
        """F_j in the form that the model's ⟨log F⟩ reads, made once."""
        if name not in self._summaries:
            self._summaries[name] = self._mixture(name).summarised(self.pattern.expected_log_mixture.for_new_data())
        return self._summaries[name]

    def _inferred(
        self,
        observations: Observations,
        e_step: EStep | None,
        in_training: bool = False,
        local: LocalTable | None = None,
    ) -> Iterator[Inferred]:
        pattern = self.pattern
        if pattern.prior.couples_sites and not pattern.atoms.shared:
            observations.check_times(self.times)
        if e_step is not None:
            pattern.check_e_step(e_step)
        chosen = pattern.e_step if local is not None else (e_step or pattern.e_step).for_new_data()
        approximation = pattern.expected_log_mixture.for_new_data()
        for batch, factors in pattern.recognised(observations, self.verbose):
            with torch.no_grad(), pattern.blaming(batch, factors):
                found = self.mixtures_of(factors, pattern.references(batch.sites), in_training)
                own = LocalParameters() if local is None else local.take(batch.index)
                step = Step(pattern.prior, batch.sites, factors, found, own)
                inferred = Inferred(batch, step, chosen(step, approximation))
            yield inferred

    def mixtures_of(
        self, factors: Factors, references: Mapping[str, Tensor], in_training: bool = False
    ) -> dict[str, mixtures.Mixture]:
        """F_j for these sites, with their own atoms unless they are among its atoms already."""
        found = {}
        for name, factor in factors.items():
            mixture, reference = self.summary(name), references[name]
            own = mixture.at_sites(factor.g.shape[1], reference) if in_training else mixture.with_own(factor, reference)
            found[name] = own
        return found
