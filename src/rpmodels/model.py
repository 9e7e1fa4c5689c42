"""RPM = prior + recognition factors + E-step + ⟨log F⟩ (eq 2), and everything one asks of a fitted one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from rpmodels import checks, errors
from rpmodels.carriers import OWNER, AllLatents, Batch, Factor, Factors, Rows, Sites, Targets, Times, TrialTable
from rpmodels.communicator import ALONE, Communicator
from rpmodels.families import Family, FiniteSupport, Gaussian, HasTargets
from rpmodels.fitted import FittedMixtures, joined
from rpmodels.free_energy import FreeEnergy, fit_ceiling, free_energy
from rpmodels.inference import EStep, ExactEStep, summed_potentials
from rpmodels.mixtures import (
    AtomBank,
    AtomMixture,
    AtomPolicy,
    Empirical,
    Exact,
    ExpectedLogMixture,
    Lender,
    Marginal,
    Mixture,
    OwnAtoms,
    PerSite,
    as_it_is,
    joined_atoms,
    together,
)
from rpmodels.observations import FactorSpec, Observations
from rpmodels.priors import Posterior, Prior
from rpmodels.recognition import Computing, Head, Plain, RecognitionFactor, RelativeHead, fit_scalings

INFERENCE_BATCH = 2048


@dataclass(frozen=True)
class Inferred:
    """One batch, its factors and mixtures, its posterior and its free energy."""

    batch: Batch
    factors: Factors
    mixtures: Mapping[str, Mixture]
    posterior: Posterior
    energy: FreeEnergy


class RPM(nn.Module):
    """A recognition-parametrised model (eq 2).

    Args:
        prior: p(Z), from `rpmodels.priors`
        factors: {name: network}; a network maps (n, *event) to (n, prior.family.raw_size).
            The same module under several names ties their weights.
        e_step: how q is chosen; default exact
        expected_log_mixture: how ⟨log F_j⟩ is computed; default exact
        atoms: whose observations F_j mixes; default one mixture per site
        head: factors relative to the prior (default) or absolute as in the paper
        targets: {name: the latents it speaks of}; all of them by default
        marginal: what stands behind F_j; default the empirical p₀
        lender: whose atoms a training step has beside those of its batch; default nobody's
        computing: how networks are called: as they are (default), in bfloat16, compiled
        scaling: "auto" or a name of `observations.scaling` for all factors, or {name: …}
        input_dropout: share of input values that are zeroed in training
        dtype: float32 or float64

    """

    _like: Tensor

    def __init__(
        self,
        prior: Prior,
        factors: Mapping[str, nn.Module],
        *,
        e_step: EStep | None = None,
        expected_log_mixture: ExpectedLogMixture | None = None,
        atoms: AtomPolicy | None = None,
        head: Head | None = None,
        targets: Mapping[str, Sequence[int]] | None = None,
        marginal: Marginal | None = None,
        scaling: str | Mapping[str, str] = "auto",
        input_dropout: float = 0.0,
        lender: Lender | None = None,
        computing: Computing | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if not factors:
            raise errors.no_factors([])
        self.names = tuple(factors)
        self.prior = prior
        self.e_step = e_step or ExactEStep()
        self.expected_log_mixture: ExpectedLogMixture = expected_log_mixture or Exact()
        self.atoms = atoms or PerSite()
        self.marginal = marginal or Empirical()
        chosen = head or RelativeHead()
        self.targets = {name: tuple(each) for name, each in (targets or {}).items()}
        for name in self.targets:
            self._position(name)
        views = {name: _view(prior.family, name, self.targets.get(name)) for name in self.names}
        for family, _ in views.values():
            self.expected_log_mixture.check(family)
        self._relative = chosen.relative
        self._check_e_step(self.e_step)
        # A list, because a user's factor names need not be valid names of submodules.
        self.recognition = nn.ModuleList(
            RecognitionFactor(network, chosen, *views[name], input_dropout) for name, network in factors.items()
        )
        self._scaling = scaling
        self.equip(lender, computing)
        self.rows = TrialTable()
        self.fitted = FittedMixtures({}, 0.0)
        self.specs: dict[str, FactorSpec] = {}
        self.times = Times(torch.zeros(1, 1))
        self.register_buffer("_like", torch.zeros(()))
        self.to(dtype)

    # ---- set-up -----------------------------------------------------------------------------

    def equip(self, lender: Lender | None, computing: Computing | None) -> None:
        """Choose how steps are computed; None for the defaults."""
        self.lender = lender or OwnAtoms()
        if not isinstance(self.marginal, Empirical) and not isinstance(self.lender, OwnAtoms):
            raise errors.lent_beside_drawn(type(self.lender).__name__, type(self.marginal).__name__)
        for _, recogniser in self.recognisers():
            recogniser.computing = computing or Plain()

    @property
    def dtype(self) -> torch.dtype:
        """Precision of everything but labels and times."""
        return self._like.dtype

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self._like.device

    def prepare(self, observations: Observations, as_before: bool = False) -> None:
        """Fit the input scaling, try every network, and make the per-trial rows: before training, once.

        `as_before`: a trained model goes on with the scaling it has.
        """
        if as_before and self.specs != dict(observations.specs):
            raise errors.other_specs(observations.specs, self.specs)
        observations.check_learnable(self.prior.couples_sites)
        if self.prior.couples_sites:
            observations.check_series(per_site=not self.atoms.shared)
        for name in observations.specs:
            self._position(name)
        for name in self.names:
            if name not in observations.specs:
                raise errors.unknown_factor(name, list(observations.specs))
        self.specs = dict(observations.specs)
        recognisers = dict(self.recognisers())
        if not as_before:
            fit_scalings(recognisers, observations, self._scaling, self._like)
        for name, recogniser in recognisers.items():
            recogniser.check(name, self.specs[name], self._like)
        self.rows = self._initial_rows(observations)

    def _initial_rows(self, observations: Observations) -> TrialTable:
        """Rows of parameters per trial, for the parts that want some, started from the untrained factors."""
        sites = observations.sites(self.device)

        @cache
        def factors() -> Factors:
            parts = [each for _, each in self.recognised(observations)]
            return {name: joined([part[name] for part in parts], observations.n_sites) for name in self.names}

        def potentials() -> Tensor:
            return summed_potentials(factors()).detach()

        def start(name: str) -> Tensor:
            posterior = self.prior.condition(potentials(), sites)
            return factors()[name].targets.natural(posterior.eta).detach()

        rows = {OWNER + key: row for key, row in self.e_step.initial_rows(self.prior, sites, potentials).items()}
        for name, recogniser in self.recognisers():
            own = self.expected_log_mixture.initial_rows(recogniser.family, partial(start, name))
            rows |= {name + OWNER + key: row for key, row in own.items()}
        sizes = {name: recogniser.family.natural_size for name, recogniser in self.recognisers()}
        bank = self.lender.bank(sizes, len(observations), observations.n_sites)
        table = TrialTable({name: row.detach().clone() for name, row in rows.items()}, bank)
        return table.to(self.device, self.dtype)

    def recognisers(self) -> Iterator[tuple[str, RecognitionFactor]]:
        """Every recognition factor by name."""
        for name, recogniser in zip(self.names, self.recognition, strict=True):
            yield name, cast(RecognitionFactor, recogniser)

    def _position(self, name: str) -> int:
        if name not in self.names:
            raise errors.unknown_factor(name, list(self.names))
        return self.names.index(name)

    # ---- the free energy of a batch ---------------------------------------------------------

    def references(self, sites: Sites) -> dict[str, Float[Tensor, "S d"]]:
        """What every factor is relative to, one for all sites or one per site as the atom policy needs it."""
        prior = self.prior.reference(sites, self.atoms.shared)
        return {name: recogniser.reference(prior) for name, recogniser in self.recognisers()}

    def recognise(self, batch: Batch) -> dict[str, Factor]:
        """f_j of every factor at every site."""
        return {
            name: recogniser(batch.inputs[name], batch.present[name], self._like)
            for name, recogniser in self.recognisers()
        }

    def evaluate(self, batch: Batch, n_observations: float, communicator: Communicator = ALONE) -> Inferred:
        """The training form: F_j over the batch's atoms, those lent to it, and those of other processes' shares."""
        factors = self.recognise(batch)
        references = self.references(self._everyones(batch.sites, communicator))
        collected = self._collected(batch, factors, references)
        summaries = {name: self.expected_log_mixture.summarise(each) for name, each in collected.items()}
        mixtures = together(summaries, communicator)
        parts = (self.e_step, self.expected_log_mixture)
        return self._inferred(
            batch, factors, mixtures, parts, self.rows.take(batch.index), batch.weights, n_observations
        )

    def _collected(self, batch: Batch, factors: Factors, references: Mapping[str, Tensor]) -> dict[str, AtomMixture]:
        """The atoms of a step."""
        drawn = self.marginal.draw(batch)
        if drawn is not batch:
            # A sample of atoms needs every site's own beside it, which draws from a continuous p₀ are not.
            return self._over(self.recognise(drawn), batch.weights, references)
        if not self.training:
            return self._over(factors, batch.weights, references)
        bank = cast("AtomBank | None", self.rows.bank)
        lent = self.lender.lent(batch, self.recognise, bank)
        if bank is not None:
            bank.remember(batch, factors)
        atoms, weights = factors, batch.weights
        if lent is not None:
            how = (not self.atoms.shared, self.lender.speaks_for_lent)
            atoms = {name: joined_atoms(factor, lent[0][name], *how) for name, factor in factors.items()}
            weights = torch.cat([weights, lent[1].to(weights.dtype)])
        return {
            name: self.atoms.for_a_step(recogniser.family, references[name], atoms[name], weights, factors[name])
            for name, recogniser in self.recognisers()
        }

    def _over(
        self, factors: Factors, weights: Float[Tensor, "N"], references: Mapping[str, Tensor]
    ) -> dict[str, AtomMixture]:
        """Mixtures of all these."""
        return {
            name: self.atoms.collect(recogniser.family, references[name], factors[name], weights)
            for name, recogniser in self.recognisers()
        }

    def _everyones(self, sites: Sites, communicator: Communicator) -> Sites:
        """What references depend on: the batch's sites in all processes, where all share one reference."""
        if not self.atoms.shared or communicator.size == 1:
            return sites
        u = None if sites.u is None else communicator.gathered(sites.u)
        times, exists = communicator.gathered(sites.times), communicator.gathered(sites.exists.to(torch.uint8))
        return Sites(times, exists.bool(), u)

    def _inferred(
        self,
        batch: Batch,
        factors: Factors,
        mixtures: Mapping[str, Mixture],
        parts: tuple[EStep, ExpectedLogMixture],
        rows: Rows,
        own_count: Float[Tensor, "N"],
        n_observations: float,
    ) -> Inferred:
        e_step, approximation = parts
        try:
            posterior = e_step(self.prior, batch.sites, factors, mixtures, approximation, rows)
            energy = free_energy(
                self.prior, posterior, factors, mixtures, approximation, rows, own_count, n_observations
            )
        except errors.NumericalError:
            self._blame(batch, factors)
            raise
        return Inferred(batch, factors, mixtures, posterior, energy)

    def _blame(self, batch: Batch, factors: Factors) -> None:
        """Name the factor and the trial whose precision is to blame, where one is."""
        references = self.references(batch.sites)
        for name, recogniser in self.recognisers():
            if isinstance(recogniser.family, Gaussian):
                bad = ~recogniser.family.valid(references[name] + factors[name].g) & factors[name].present
                if bool(bad.any()):
                    n, t = (int(each) for each in bad.nonzero()[0])
                    raise errors.not_a_precision(name, int(batch.index[n]), t, int(bad.sum()))

    # ---- the fitted model -------------------------------------------------------------------

    @torch.no_grad()
    def collect(self, observations: Observations) -> None:
        """F_j over all the training data: the last step of every fit."""
        collected: dict[str, list[Factor]] = {name: [] for name in self.names}
        for _, factors in self.recognised(observations, self.marginal.draw):
            for name, factor in factors.items():
                collected[name].append(factor)
        weights = torch.as_tensor(observations.weights, dtype=self.dtype, device=self.device)
        longest = int(observations.exists.sum(1).argmax())
        self.times = Times(torch.tensor(np.array(observations.times[longest : longest + 1]))).to(self.device)
        joint = {name: joined(parts, observations.n_sites) for name, parts in collected.items()}
        everywhere = observations.sites(self.device)
        # As in training: what taught nothing has no say in what all sites share.
        usable = torch.as_tensor(observations.usable(), device=self.device)
        if self.atoms.shared:
            everywhere = everywhere.take(usable)
        atoms = self._over(joint, weights, self.references(everywhere))
        self.fitted = FittedMixtures(atoms, float(weights[usable].sum()))

    def infer(
        self,
        observations: Observations,
        own: bool = True,
        approximation: ExpectedLogMixture | None = None,
        e_step: EStep | None = None,
    ) -> Iterator[Inferred]:
        """Posterior and free energy batch by batch; each observation against the training atoms plus itself.

        `own=False` is for the training observations themselves, which are among the atoms already.
        `approximation` replaces the model's own ⟨log F⟩ in the free energy, not in the choice of q; `e_step` replaces
        that choice.
        """
        if self.prior.couples_sites and not self.atoms.shared:
            observations.check_times(self.times.values[0].cpu().numpy())
        settled = self.expected_log_mixture.settled()
        mixtures = {name: self.fitted.summary(name, settled.summarise) for name in self.names}
        # Observations that were not trained (held out, empty) have no rows, so beside them nobody's are used.
        trained = not own and all(len(each) == len(observations) for each in self.rows.parameters())
        if e_step is not None:
            self._check_e_step(e_step)
            trained = False
        e_step = self.e_step if trained else (e_step or self.e_step).settled()
        for batch, factors in self.recognised(observations):
            with torch.no_grad():
                references = self.references(batch.sites)
                bound = {n: _bound(mixtures[n], factor, references[n], own) for n, factor in factors.items()}
                count = torch.ones_like(batch.weights) if own else batch.weights
                rows = self.rows.take(batch.index) if trained else {}
                parts = (e_step, settled)
                inferred = self._inferred(batch, factors, bound, parts, rows, count, self.fitted.n_observations)
                if approximation is not None:
                    posterior = inferred.posterior
                    energy = free_energy(
                        self.prior, posterior, factors, bound, approximation, {}, count, self.fitted.n_observations
                    )
                    inferred = replace(inferred, energy=energy)
            yield inferred

    def _check_e_step(self, e_step: EStep) -> None:
        """Whether it goes with this prior, these mixtures and factors."""
        smallest = self.expected_log_mixture.summarise(_one_atom(self.prior))
        e_step.check(self.prior, smallest, self._relative)

    @torch.no_grad()
    def fit_ceiling(self, observations: Observations) -> float:
        """The highest mean score that any fit of these training observations can have."""
        log_totals = {name: self.fitted.atoms(name).log_total.cpu() for name in self.names}
        present = {name: torch.as_tensor(observations.present[name]) for name in self.names}
        weights = torch.as_tensor(observations.weights)
        family = self.prior.family
        return fit_ceiling(present, weights, log_totals, family.n_states if isinstance(family, FiniteSupport) else None)

    def recognised(
        self, observations: Observations, draw: Callable[[Batch], Batch] = as_it_is
    ) -> Iterator[tuple[Batch, dict[str, Factor]]]:
        """Every factor f_j(z|x_j) by itself, batch by batch, without dropout or gradients."""
        if self.specs != dict(observations.specs):
            raise errors.other_specs(observations.specs, self.specs)
        for start in range(0, len(observations), INFERENCE_BATCH):
            index = np.arange(start, min(start + INFERENCE_BATCH, len(observations)))
            batch = draw(observations.batch(index, self.dtype, self.device))
            # Modes end before the yield: what the caller does in between keeps its gradients and its dropout.
            training = self.training
            self.eval()
            with torch.no_grad():
                factors = self.recognise(batch)
            self.train(training)
            yield batch, factors


def _one_atom(prior: Prior) -> AtomMixture:
    """The smallest mixture there is, to see what an approximation makes of it."""
    reference = prior.reference(Sites.single(1), shared=True).detach()
    nothing = torch.zeros_like(reference)
    return AtomMixture(prior.family, reference, True, nothing[:, None], nothing[:, :1])


def _view(family: Family, name: str, indices: Sequence[int] | None) -> tuple[Family, Targets]:
    """The family of the latents that a factor targets, and the way to it."""
    if indices is None:
        return family, AllLatents()
    if not isinstance(family, HasTargets):
        raise errors.needs_targets("a factor that targets some of the latents", type(family).__name__)
    chosen = [checks.integer(f"targets of factor '{name}'", each, 0) for each in indices]
    if not chosen or len(set(chosen)) < len(chosen) or max(chosen) >= family.latents:
        expected = f"different latents from 0 to {family.latents - 1}"
        raise errors.bad_value(f"targets of factor '{name}'", expected, list(indices))
    return family.targets(chosen)


def _bound(mixture: Mixture, factor: Factor, reference: Float[Tensor, "S D"], own: bool) -> Mixture:
    """A fitted mixture for these sites, with their own atoms unless they are among its atoms already."""
    return mixture.with_own(factor, reference) if own else mixture.at_sites(factor.g.shape[1], reference)
