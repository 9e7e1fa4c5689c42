"""RPM = prior + recognition factors + E-step + ⟨log F⟩ (eq 2), and everything one asks of a fitted one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import Batch, Factor, Factors, Sites, TrialTable
from rpmodels.families import FiniteSupport
from rpmodels.fitted import FittedMixtures, joined
from rpmodels.free_energy import FreeEnergy, fit_ceiling, free_energy
from rpmodels.inference import EStep, ExactEStep
from rpmodels.mixtures import AtomMixture, AtomPolicy, Exact, ExpectedLogMixture, Mixture, PerSite
from rpmodels.observations import FactorSpec, Observations, fit_scaling
from rpmodels.priors import Posterior, Prior
from rpmodels.recognition import Head, RecognitionFactor, RelativeHead

INFERENCE_BATCH = 2048


@dataclass(frozen=True)
class Inferred:
    """One batch, its posterior and its free energy."""

    batch: Batch
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
        scaling: "auto" or a name of `observations.scaling` for all factors, or {name: …}
        input_dropout: share of input values that are zeroed in training
        dtype: float32 or float64

    """

    times: Tensor
    """Times of the sites of the longest training observation."""

    def __init__(
        self,
        prior: Prior,
        factors: Mapping[str, nn.Module],
        *,
        e_step: EStep | None = None,
        expected_log_mixture: ExpectedLogMixture | None = None,
        atoms: AtomPolicy | None = None,
        head: Head | None = None,
        scaling: str | Mapping[str, str] = "auto",
        input_dropout: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if not factors:
            raise errors.no_factors([])
        self.names = tuple(factors)
        self.prior = prior
        self.e_step = e_step or ExactEStep()
        self.expected_log_mixture = expected_log_mixture or Exact()
        self.atoms = atoms or PerSite()
        self.expected_log_mixture.check(prior.family)
        self.e_step.check(prior.family, self.expected_log_mixture.summarise(_one_atom(prior)))
        chosen = head or RelativeHead()
        # A list, because a user's factor names need not be valid names of submodules.
        self.recognition = nn.ModuleList(
            RecognitionFactor(network, chosen, input_dropout) for network in factors.values()
        )
        self._scaling = scaling
        self.rows = TrialTable()
        self.fitted = FittedMixtures({}, 0.0)
        self.specs: dict[str, FactorSpec] = {}
        self.register_buffer("times", torch.zeros(1, 1))
        self.to(dtype)

    # ---- set-up -----------------------------------------------------------------------------

    @property
    def dtype(self) -> torch.dtype:
        """Precision of everything but labels."""
        return self.times.dtype

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.times.device

    def prepare(self, observations: Observations) -> None:
        """Fit the input scaling, try every network, and make the per-trial rows: before training, once."""
        observations.check_learnable(self.prior.couples_sites)
        for name in observations.specs:
            self._position(name)
        for name in self.names:
            if name not in observations.specs:
                raise errors.unknown_factor(name, list(observations.specs))
        self.specs = dict(observations.specs)
        self._fit_scaling(observations)
        for name, recogniser in self.recognisers():
            spec = self.specs[name]
            recogniser.check(name, spec, self.prior.family, self.times)
        self.rows = self._fresh_rows(observations)

    def _fresh_rows(self, observations: Observations) -> TrialTable:
        shape = (len(observations), observations.n_sites, self.prior.family)
        rows = {**self.e_step.initial_rows(*shape), **self.expected_log_mixture.initial_rows(*shape)}
        return TrialTable(rows).to(self.device, self.dtype)

    def _fit_scaling(self, observations: Observations) -> None:
        """One scaling per network and choice: factors that share a network must share what it sees."""
        given = dict.fromkeys(self.names, self._scaling) if isinstance(self._scaling, str) else self._scaling
        asked = {str(name): choice for name, choice in given.items()}
        for name in asked:
            self._position(name)
        groups: dict[tuple[int, str], list[tuple[str, RecognitionFactor]]] = {}
        for name, recogniser in self.recognisers():
            groups.setdefault((id(recogniser.network), asked.get(name, "auto")), []).append((name, recogniser))
        for (_, choice), members in groups.items():
            names = [name for name, _ in members]
            rows = [observations.present_rows(name) for name in names]
            together = rows[0] if len(rows) == 1 else np.concatenate(rows)
            scaling = fit_scaling(", ".join(names), together, choice, self.specs[names[0]].is_label)
            for _, recogniser in members:
                recogniser.scaling = scaling.to(self.device, self.dtype)

    def recognisers(self) -> Iterator[tuple[str, RecognitionFactor]]:
        """Every recognition factor by name."""
        for name, recogniser in zip(self.names, self.recognition, strict=True):
            yield name, cast(RecognitionFactor, recogniser)

    def _position(self, name: str) -> int:
        if name not in self.names:
            raise errors.unknown_factor(name, list(self.names))
        return self.names.index(name)

    # ---- the free energy of a batch ---------------------------------------------------------

    def reference(self, sites: Sites) -> Float[Tensor, "S D"]:
        """The natural parameters that factors are relative to, as the atom policy needs them."""
        return self.prior.reference(sites, self.atoms.shared)

    def recognise(self, batch: Batch) -> dict[str, Factor]:
        """f_j of every factor at every site."""
        reference = self.reference(batch.sites)
        return {
            name: recogniser(batch.inputs[name], batch.present[name], self.prior.family, reference)
            for name, recogniser in self.recognisers()
        }

    def evaluate(self, batch: Batch, n_observations: float) -> Inferred:
        """The training form: F_j over the batch's own atoms."""
        factors = self.recognise(batch)
        reference = self.reference(batch.sites)
        mixtures = {
            name: self.expected_log_mixture.summarise(
                self.atoms.collect(self.prior.family, reference, factor, batch.weights)
            )
            for name, factor in factors.items()
        }
        return self._inferred(batch, factors, mixtures, self.rows, batch.weights, n_observations)

    def _inferred(
        self,
        batch: Batch,
        factors: Factors,
        mixtures: Mapping[str, Mixture],
        table: TrialTable,
        own_count: Float[Tensor, "N"],
        n_observations: float,
    ) -> Inferred:
        rows = table.take(batch.index)
        posterior = self.e_step(self.prior, batch.sites, factors, mixtures, self.expected_log_mixture, rows)
        energy = free_energy(
            self.prior, posterior, factors, mixtures, self.expected_log_mixture, rows, own_count, n_observations
        )
        return Inferred(batch, posterior, energy)

    # ---- the fitted model -------------------------------------------------------------------

    @torch.no_grad()
    def collect(self, observations: Observations) -> None:
        """F_j over all the training data: the last step of every fit."""
        collected: dict[str, list[Factor]] = {name: [] for name in self.names}
        for _, factors in self.recognised(observations):
            for name, factor in factors.items():
                collected[name].append(factor)
        weights = torch.as_tensor(observations.weights, dtype=self.dtype, device=self.device)
        longest = int(observations.exists.sum(1).argmax())
        times = np.array(observations.times[longest : longest + 1])
        self.times = torch.tensor(times, dtype=self.dtype, device=self.device)
        reference = self.reference(Sites(self.times, torch.ones_like(self.times, dtype=torch.bool)))
        atoms = {
            name: self.atoms.collect(self.prior.family, reference, joined(parts, observations.n_sites), weights)
            for name, parts in collected.items()
        }
        self.fitted = FittedMixtures(atoms, float(weights.sum()))

    def infer(self, observations: Observations, own: bool = True) -> Iterator[Inferred]:
        """Posterior and free energy batch by batch; each observation against the training atoms plus itself.

        `own=False` is for the training observations themselves, which are among the atoms already.
        """
        summarise = self.expected_log_mixture.summarise
        mixtures = {name: self.fitted.summary(name, summarise) for name in self.names}
        rows = self._fresh_rows(observations) if own else self.rows
        for batch, factors in self.recognised(observations):
            with torch.no_grad():
                reference = self.reference(batch.sites)
                bound = {name: _bound(mixtures[name], factor, reference, own) for name, factor in factors.items()}
                count = torch.ones_like(batch.weights) if own else batch.weights
                inferred = self._inferred(batch, factors, bound, rows, count, self.fitted.n_observations)
            yield inferred

    @torch.no_grad()
    def fit_ceiling(self, observations: Observations) -> float:
        """The highest mean score that any fit of these training observations can have."""
        log_totals = {name: self.fitted.atoms(name).log_total.cpu() for name in self.names}
        present = {name: torch.as_tensor(observations.present[name]) for name in self.names}
        weights = torch.as_tensor(observations.weights)
        family = self.prior.family
        return fit_ceiling(present, weights, log_totals, family.n_states if isinstance(family, FiniteSupport) else None)

    def recognised(self, observations: Observations) -> Iterator[tuple[Batch, dict[str, Factor]]]:
        """Every factor f_j(z|x_j) by itself, batch by batch, without dropout or gradients."""
        if self.specs != dict(observations.specs):
            raise errors.other_specs(observations.specs, self.specs)
        for start in range(0, len(observations), INFERENCE_BATCH):
            index = np.arange(start, min(start + INFERENCE_BATCH, len(observations)))
            batch = observations.batch(index, self.dtype, self.device)
            # Modes end before the yield: what the caller does in between keeps its gradients and its dropout.
            training = self.training
            self.eval()
            with torch.no_grad():
                factors = self.recognise(batch)
            self.train(training)
            yield batch, factors

    # ---- the implied generative side ---------------------------------------------------------

    @torch.no_grad()
    def impute(self, observations: Observations, name: str) -> Float[Tensor, "N T A"]:
        """p(x_j = atom m | the other factors): ⟨p(x_j = m | z)⟩ under the posterior without factor j."""
        self._position(name)
        family = self.prior.family
        if not isinstance(family, FiniteSupport):
            raise errors.needs_finite_support("imputation", type(family).__name__)
        hidden = {**observations.present, name: np.zeros_like(observations.present[name])}
        states = family.values().to(self.device)
        every = states[:, None].expand(-1, observations.n_sites, *states.shape[1:])
        table = self.fitted.conditional_weights(name, every)
        results = []
        for inferred in self.infer(replace(observations, present=hidden)):
            probabilities = family.log_probabilities(inferred.posterior.eta).exp()
            length = probabilities.shape[1]
            weights = torch.einsum("ntk,kta->nta", probabilities, table[:, :length])
            results.append(nn.functional.pad(weights, (0, 0, 0, observations.n_sites - length)))
        return torch.cat(results)

    @torch.no_grad()
    def sample(
        self, n: int, generator: torch.Generator, sites: Sites | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """n draws of (Z, X) from the RPM's joint: Z and, per factor, the index of an atom at every site.

        The sites are those of the training data unless given; −1 stands where a factor has no atoms.
        """
        times = self.times.expand(n, -1)
        z = self.prior.sample(sites or Sites(times, torch.ones_like(times, dtype=torch.bool)), generator)
        return z, {name: self.fitted.draw(name, z, generator) for name in self.names}


def _one_atom(prior: Prior) -> AtomMixture:
    """The smallest mixture there is, to see what an approximation makes of it."""
    reference = prior.reference(Sites.single(1), shared=True).detach()
    nothing = torch.zeros_like(reference)
    return AtomMixture(prior.family, reference, True, nothing[:, None], nothing[:, :1])


def _bound(mixture: Mixture, factor: Factor, reference: Float[Tensor, "S D"], own: bool) -> Mixture:
    """A fitted mixture for these sites, with their own atoms unless they are among its atoms already."""
    return mixture.with_own(factor, reference) if own else mixture.at_sites(factor.g.shape[1], reference)
