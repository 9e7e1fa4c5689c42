"""RPM = prior + recognition factors + E-step + ⟨log F⟩ (eq 2): what can be written down before there are data."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import errors, memory, mixtures
from rpmodels.carriers import AllLatents, Batch, Factor, Factors, Sites, Targets
from rpmodels.families import Family, HasDomain, HasTargets
from rpmodels.inference import EStep, ExactEStep
from rpmodels.observations import FactorSpec, Observations
from rpmodels.priors import Prior
from rpmodels.recognition import Computing, Head, Recogniser, RelativeHead, fit_scalings, recogniser

HIDDEN = 256
"""Numbers that networks are taken to have for a site, beside what they see and say."""


class RPM(torch.nn.Module):
    """A recognition-parametrised model (eq 2): a pattern, which `rp.train` turns into a `FittedRPM`.

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
        scaling: "auto" or a name of `observations.scaling` for all factors, or {name: …}
        input_dropout: share of input values that are zeroed in training
        computing: how networks are called: as they are (default), in bfloat16, compiled
        dtype: float32 or float64

    """

    _like: Tensor

    def __init__(
        self,
        prior: Prior,
        factors: Mapping[str, torch.nn.Module],
        *,
        e_step: EStep | None = None,
        expected_log_mixture: mixtures.ExpectedLogMixture | None = None,
        atoms: mixtures.AtomPolicy | None = None,
        head: Head | None = None,
        targets: Mapping[str, Sequence[int | str]] | None = None,
        marginal: mixtures.Marginal | None = None,
        scaling: str | Mapping[str, str] = "auto",
        input_dropout: float = 0.0,
        computing: Computing | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if not factors:
            raise errors.no_factors([])
        self.names = tuple(factors)
        self.prior = prior
        self.e_step: EStep = e_step or ExactEStep()
        self.expected_log_mixture: mixtures.ExpectedLogMixture = expected_log_mixture or mixtures.Exact()
        self.atoms = atoms or mixtures.PerSite()
        self.marginal = marginal or mixtures.Empirical()
        chosen = head or RelativeHead()
        for name in (*(targets or {}), *self.marginal.names):
            self._check_name(name)
        self.targets = {name: _places(prior.family, name, each) for name, each in (targets or {}).items()}
        views = {name: targeted(prior.family, name, self.targets.get(name)) for name in self.names}
        for family, _ in views.values():
            self.expected_log_mixture.check(family)
        self._relative = chosen.relative
        # A list, because a user's factor names need not be valid names of submodules.
        self.recognition = torch.nn.ModuleList(
            recogniser(network, chosen, *views[name], input_dropout, computing) for name, network in factors.items()
        )
        self.check_e_step(self.e_step)
        self._scaling = scaling
        self.specs: dict[str, FactorSpec] = {}
        self.register_buffer("_like", torch.zeros(()))
        self.to(dtype)

    def check_e_step(self, e_step: EStep) -> None:
        """Refuse an E-step that does not go with this prior, these mixtures and factors."""
        reference = self.prior.reference(Sites.single(1), shared=True).detach()
        for _, each in self.recognisers():
            atom = _one_atom(each.family, each.targets.natural(reference))
            e_step.check(self.prior, self.expected_log_mixture.summarise(atom), self._relative)

    def _check_name(self, name: str) -> None:
        if name not in self.names:
            raise errors.unknown_factor(name, list(self.names))

    @property
    def dtype(self) -> torch.dtype:
        """Precision of everything but labels and times."""
        return self._like.dtype

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self._like.device

    def speaks_of(self, name: str) -> tuple[int, ...]:
        """The latents that a factor speaks of; none are told apart where a family does not do that."""
        every = range(self.prior.family.latents) if isinstance(self.prior.family, HasTargets) else ()
        return self.targets.get(name, tuple(every))

    @property
    def draws_atoms(self) -> bool:
        """Whether F_j of some factor has draws from p₀ for atoms."""
        return any(self.marginal.draws_for(name) for name in self.names)

    def private_latents(self) -> dict[str, list[int]]:
        """{factor: the latents that it speaks of and no other factor does}, of those that have some."""
        if not self.targets:
            return {}
        spoken = Counter(k for name in self.names for k in self.speaks_of(name))
        own = {name: [k for k in sorted(self.speaks_of(name)) if spoken[k] == 1] for name in self.names}
        return {name: each for name, each in own.items() if each}

    # ---- what the data look like ------------------------------------------------------------

    def prepare(self, observations: Observations, as_before: bool = False) -> None:
        """Fit the input scaling and try every network: before training, once.

        `as_before`: a trained model goes on with the scaling it has.
        """
        if as_before:
            self.check_specs(observations)
        channels = [name for name, each in self.recognisers() if each.curves() is not None]
        observations.check_whole(channels)
        observations.check_learnable(self.prior.couples_sites, channels)
        if self.prior.couples_sites:
            observations.check_series(not self.atoms.shared, self.private_latents())
        for name in observations.specs:
            self._check_name(name)
        for name in self.names:
            if name not in observations.specs:
                raise errors.unknown_factor(name, list(observations.specs))
        self.specs = dict(observations.specs)
        recognisers = dict(self.recognisers())
        if not as_before:
            fit_scalings(recognisers, observations, self._scaling, self._like)
        for name, each in recognisers.items():
            each.check(name, self.specs[name], self._like)
            kind = np.dtype(observations.values[name].dtype).kind
            self.marginal.check(name, self.specs[name], kind, each.curves() is not None)

    def check_specs(self, observations: Observations) -> None:
        """Refuse observations that do not look like those the model was prepared for."""
        if self.specs != dict(observations.specs):
            raise errors.other_specs(observations.specs, self.specs)
        if observations.gaps:
            observations.check_whole([name for name, each in self.recognisers() if each.curves() is not None])

    # ---- recognition ------------------------------------------------------------------------

    def recognisers(self) -> Iterator[tuple[str, Recogniser]]:
        """Every recognition factor by name."""
        for name, each in zip(self.names, self.recognition, strict=True):
            yield name, cast(Recogniser, each)

    def references(self, sites: Sites) -> dict[str, Float[Tensor, "S d"]]:
        """What every factor is relative to, one for all sites or one per site as the atom policy needs it."""
        prior = self.prior.reference(sites, self.atoms.shared)
        return {name: each.reference(prior) for name, each in self.recognisers()}

    def recognise(self, batch: Batch) -> dict[str, Factor]:
        """f_j of every factor at every site."""
        return {name: each(batch.inputs[name], batch.present[name], self._like) for name, each in self.recognisers()}

    def recognised(
        self, observations: Observations, verbose: bool = False
    ) -> Iterator[tuple[Batch, dict[str, Factor]]]:
        """Every factor f_j(z|x_j) by itself, batch by batch, without dropout or gradients."""
        self.check_specs(observations)
        for batch in self.batches(observations, verbose):
            # Modes end before the yield: what the caller does in between keeps its gradients and its dropout.
            with self.as_for_new_data():
                factors = self.recognise(batch)
            for name, each in factors.items():
                if not bool(torch.isfinite(each.g).all()):
                    raise errors.not_recognised(name)
            yield batch, factors

    def batches(self, observations: Observations, verbose: bool = False) -> Iterator[Batch]:
        """All of them, as many at a time as fit into the budget of a piece; `verbose`: with a bar, if they are many."""
        for index in observations.pieces(self.at_once(observations), verbose):
            yield observations.batch(index, self.dtype, self.device)

    def at_once(self, observations: Observations) -> int:
        """How many observations are recognised, and latents found from them, at a time outside of training."""
        seen = sum(int(np.prod(each.event_shape)) for each in observations.specs.values())
        said = 8 * len(self.names) * self.prior.family.natural_size
        numbers = observations.n_sites * (seen + said + HIDDEN) + self.prior.numbers(1, observations.n_sites)
        return max(1, memory.BUDGET // (numbers * self.dtype.itemsize))

    @contextmanager
    def as_for_new_data(self) -> Iterator[None]:
        """Inside, neither dropout nor gradients."""
        training = self.training
        self.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.train(training)

    # ---- mixtures -------------------------------------------------------------

    def densities(self, observations: Observations) -> dict[str, mixtures.Density]:
        """p₀ of the factors for which it is not the empirical one, by all these data."""
        found = {name: self.marginal.of(name, observations, not self.atoms.shared) for name in self.names}
        return {name: each for name, each in found.items() if each is not None}

    def drawn_mixture(
        self,
        name: str,
        density: mixtures.Density,
        batches: Iterable[Batch],
        reference: Float[Tensor, "S D"],
        sites: int,
        fresh: bool = False,
    ) -> mixtures.AtomMixture:
        """F_j over draws from p₀; of a kernel density these stand around the observations of the batches."""
        recogniser = dict(self.recognisers())[name]
        drawn = list(density.draws(batches, sites, fresh, self.device))
        if self.atoms.shared:  # whose draws need no sites
            sites = max(each.present.shape[1] for each in drawn)
        factor = Factor.joined([recogniser(each.values, each.present, self._like) for each in drawn], sites)
        weights = [
            torch.nn.functional.pad(each.weights.to(self.dtype), (0, sites - each.weights.shape[1])) for each in drawn
        ]
        mixture = self.atoms.collect(recogniser.family, reference, factor, torch.cat(weights))
        return replace(mixture, drawn=True)

    def mixtures(
        self, factors: Factors, weights: Float[Tensor, "N"], references: Mapping[str, Tensor]
    ) -> dict[str, mixtures.Mixture]:
        """F_j over the atoms of these factors, and of the channels of populations."""
        return {
            name: mixtures.collected(self.atoms, each.family, references[name], factors[name], weights, each.curves())
            for name, each in self.recognisers()
            if name in factors
        }

    @contextmanager
    def blaming(self, batch: Batch, factors: Factors) -> Iterator[None]:
        """Where the numbers fail inside, the factor and the trial whose precision is to blame are named."""
        try:
            yield
        except errors.NumericalError:
            self._blame(batch, factors)
            raise

    def _blame(self, batch: Batch, factors: Factors) -> None:
        references = self.references(batch.sites)
        for name, each in self.recognisers():
            if isinstance(each.family, HasDomain):
                bad = ~each.family.valid(references[name] + factors[name].g) & factors[name].present
                if bool(bad.any()):
                    n, t = (int(each) for each in bad.nonzero()[0])
                    raise errors.not_a_precision(name, int(batch.index[n]), t, int(bad.sum()))


def _one_atom(family: Family, reference: Float[Tensor, "1 D"]) -> mixtures.AtomMixture:
    """The smallest mixture there is, to see what an approximation makes of it."""
    nothing = torch.zeros_like(reference)
    return mixtures.AtomMixture(family, reference, True, nothing[:, None], nothing[:, :1])


def _places(family: Family, name: str, latents: Sequence[int | str]) -> tuple[int, ...]:
    """The latents that a factor targets, checked, names as places."""
    if not isinstance(family, HasTargets):
        raise errors.needs_targets("a factor that targets some of the latents", type(family).__name__)
    chosen = tuple(family.index(f"targets of factor '{name}'", each) for each in latents)
    if not chosen or len(set(chosen)) < len(chosen) or max(chosen) >= family.latents:
        expected = f"different latents from 0 to {family.latents - 1}"
        raise errors.bad_value(f"targets of factor '{name}'", expected, list(latents))
    return chosen


def targeted(family: Family, name: str, latents: Sequence[int | str] | None) -> tuple[Family, Targets]:
    """The family of the latents that a factor targets, all where none are named, and the way to it."""
    if latents is not None:
        chosen = _places(family, name, latents)
        assert isinstance(family, HasTargets)
        return family.targets(chosen)
    return family.everything() if isinstance(family, HasTargets) else (family, AllLatents())
