"""What must not matter does not: padding, order, empty trials, names, batches, absent factors, and how absence is said.

Every estimator with every E-step and every way to ⟨log F⟩, on a few short trials with gaps, in float64. The models are
not trained (what holds, holds for any weights); their factors are sharpened so that mixtures matter.
"""

import copy
from dataclasses import dataclass, field, replace
from functools import cache

import gpytorch
import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import rpmodels as rp
from missing import DOES_NOT_APPLY
from registry import APPROXIMATIONS, ATOMS, E_STEPS, made, random_eta
from rpmodels import model as model_module
from rpmodels.errors import InputError
from rpmodels.families import DiagonalGaussian
from rpmodels.fitted import FittedRPM
from rpmodels.inference import NaturalGradient, free, natural_gradient
from rpmodels.learning import RPMObjective
from rpmodels.local_parameters import LocalParameters, LocalTable
from rpmodels.mixtures import AtomMixture, FreeInteriorBound, MonteCarlo, OptimalInteriorBound, SharedGrid
from rpmodels.model import RPM
from rpmodels.seeding import seeded

LENGTHS = (4, 2, 4, 1, 3, 4)
NEW_LENGTHS = (3, 1, 4)
WIDTHS = {"a": 3, "b": 2}
SHARPNESS = {1: 6.0}  # atoms so sharp that a coarser grid is seen
REFINEMENT = (2, 0.5, 1e-2)

# ---- data: a list of observations per factor, NaN (for labels "") where it is missing ---------


@dataclass(frozen=True)
class Data:
    values: dict
    times: list | None
    is_series: bool

    def __len__(self):
        return len(next(iter(self.values.values())))

    def take(self, index):
        times = None if self.times is None else [self.times[n] for n in index]
        return replace(self, values={name: [x[n] for n in index] for name, x in self.values.items()}, times=times)

    def only(self, *names):
        return replace(self, values={name: self.values[name] for name in names})

    def renamed(self, names):
        return replace(self, values={new: self.values[old] for old, new in names.items()})

    def with_empty(self, before, after):
        """Observations with every factor missing on either side, as long as the longest."""
        nothing = {name: _nothing(max(x, key=np.size)) for name, x in self.values.items()}
        values = {name: [nothing[name]] * before + x + [nothing[name]] * after for name, x in self.values.items()}
        if self.times is None:
            return replace(self, values=values)
        empty = np.linspace(0.1, 2.9, len(next(iter(nothing.values()))))
        return replace(self, values=values, times=[empty] * before + self.times + [empty] * after)

    @property
    def arguments(self):
        if self.is_series:
            return dict(self.values), {} if self.times is None else {"times": self.times}
        return {name: np.stack(x) for name, x in self.values.items()}, {}


def _nothing(x):
    return np.full_like(x, "" if x.dtype.kind == "U" else np.nan)


def data_for(case, lengths=LENGTHS, seed=0, gaps=True):
    random = np.random.default_rng(seed)
    lengths = lengths if case.is_series else (1,) * len(lengths)
    values = {name: [random.standard_normal((t, width)) for t in lengths] for name, width in WIDTHS.items()}
    if gaps:
        values["a"][0][-1] = values["b"][2][0] = np.nan
        values["b"][1][:] = np.nan
    times = [np.sort(random.uniform(0, 3, t)) for t in lengths] if case.irregular else None
    if not case.is_series:
        values = {name: [x[0] for x in each] for name, each in values.items()}
    if case.kind is rp.RPCategorical:
        words = [np.array("" if np.isnan(x[0]) else "uvw"[n % 3]) for n, x in enumerate(values["b"])]
        values["b"] = [word.astype("<U1") for word in words]
    return Data(values, times, case.is_series)


# ---- models -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    kind: type
    choices: dict = field(hash=False)
    name: str

    @property
    def is_series(self):
        return self.kind in (rp.RPGPFA, rp.RPHMM, rp.RPLDS)

    @property
    def irregular(self):
        """Pooled atoms allow every trial times of its own."""
        return self.kind is rp.RPGPFA and self.choices.get("atoms") == "pooled"

    def __str__(self):
        return self.name


WAYS = [name for name in APPROXIMATIONS if name != "grid"]
COVARIANCES = ("diagonal", "full")
KINDS = list(ATOMS)


def _cases():
    def case(kind, **choices):
        words = [str(each) for each in choices.values()]
        return Case(kind, choices, "-".join([kind.__name__, *words]))

    yield from (case(rp.RPCategorical, n_states=3, prior=prior) for prior in ("uniform", "learned", 0.7))
    yield from (case(rp.RPHMM, n_states=3, transitions=each) for each in ("learned", 0.7))
    yield case(rp.RPLDS, n_latents=2, e_step="amortised", expected_log_mixture="interior", atoms="pooled")
    yield case(rp.RPLDS, n_latents=2, e_step="natural_gradient", expected_log_mixture="second_order", atoms="per_time")
    for e, e_step in enumerate(E_STEPS):
        for a, way in enumerate(WAYS):
            parts = {"e_step": e_step, "expected_log_mixture": way}
            if e_step != "free_inducing":
                yield case(rp.RPFA, n_latents=2, **parts, covariance=COVARIANCES[(e + a) % 2])
            # Every E-step and every ⟨log F⟩ meets every kind of atoms and of covariance.
            combined = {"atoms": KINDS[(e + a) % 2], "covariance": COVARIANCES[(e // 2 + a // 2) % 2]}
            yield case(rp.RPGPFA, n_latents=2, **parts, **combined)
    # One latent: quadrature on a grid.
    yield case(rp.RPFA, n_latents=1, e_step="natural_gradient", expected_log_mixture="quadrature")
    for e_step, atoms in zip(("amortised", "free"), ATOMS, strict=True):
        yield case(rp.RPGPFA, n_latents=1, e_step=e_step, expected_log_mixture="quadrature", atoms=atoms)
    yield case(rp.RPFA, n_latents=2, head="absolute", e_step="natural_gradient")
    yield case(rp.RPFA, n_latents=2, targets={"b": (1,)})
    yield case(rp.RPGPFA, n_latents=2, atoms="pooled", mean=gpytorch.means.LinearMean(1))
    # Populations, all factors or one of them.
    yield case(rp.RPFA, n_latents=2, channels="separate", e_step="natural_gradient")
    yield case(rp.RPFA, n_latents=2, channels="separate", targets={"b": (1,)})
    yield case(rp.RPFA, n_latents=1, channels={"b": "separate"}, expected_log_mixture="quadrature")
    yield case(rp.RPLDS, n_latents=2, channels="separate")
    for e_step, atoms in zip(("amortised", "free", "free_inducing", "natural_gradient"), KINDS * 2, strict=True):
        yield case(rp.RPGPFA, n_latents=2, channels="separate", e_step=e_step, atoms=atoms)
    yield case(rp.RPGPFA, n_latents=2, channels={"a": "separate"}, atoms="pooled", mean=gpytorch.means.LinearMean(1))


CASES = list(_cases())
each_case = pytest.mark.parametrize("case", CASES, ids=str)


class BriefFreeBound(FreeInteriorBound):
    """With fewer of Newton's steps for new data."""

    def for_new_data(self):
        return OptimalInteriorBound(1)


def estimator_for(case, names=None, dtype="float64"):
    chosen = dict(case.choices)
    if chosen.get("expected_log_mixture") == "monte_carlo":
        # Fresh noise would make two evaluations of the training form differ whatever they are of.
        chosen["expected_log_mixture"] = MonteCarlo(6, fresh=False)
    brief = {"interior_optimal": OptimalInteriorBound(1), "interior_free": BriefFreeBound()}
    if chosen.get("expected_log_mixture") in brief:
        chosen["expected_log_mixture"] = brief[chosen["expected_log_mixture"]]
    if chosen.get("e_step") == "natural_gradient":
        chosen["e_step"] = NaturalGradient(*REFINEMENT)  # few steps, and some observations done before others
    if "targets" in chosen and names is not None:
        chosen["targets"] = {names[name]: latents for name, latents in chosen["targets"].items()}
    if isinstance(chosen.get("channels"), dict) and names is not None:
        chosen["channels"] = {names[name]: each for name, each in chosen["channels"].items()}
    if case.kind is rp.RPGPFA:
        chosen |= {"n_inducing": 3, "length_scale": 1.0}
    return made(case.kind, network={}, dropout=0.0, input_dropout=0.0, dtype=dtype, random_state=0, **chosen)


def read(data, known=None, **options):
    x, times = data.arguments
    return rp.read(x, series=data.is_series, known=known, **times, **options)


def built(case, data, names=None, dtype="float64", sharpness=None):
    """An untrained model with sharp factors, prepared for these data."""
    estimator, observations = estimator_for(case, names, dtype), read(data)
    with seeded(0):
        model = estimator._build(observations).to(getattr(torch, dtype)).eval()
    with torch.no_grad(), seeded(1):
        for _, factor in model.recognisers():
            for parameter in factor.parameters():
                if factor.curves() is None:
                    parameter.mul_(sharpness or SHARPNESS.get(case.choices.get("n_latents"), 2.0))
                else:
                    parameter.normal_()
    model.prepare(observations)
    return estimator, model, observations


def objective_of(model, observations):
    """Local parameters (if any) are moved away from where they start, trial by trial in the same way."""
    noise = 0.2 * torch.randn(10, 7, 7, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def moved(named):
        found = {}
        for name, row in named.items():
            part = noise[..., 0] if row.ndim == 3 else noise
            found[name] = row.detach() + part[tuple(map(slice, row.shape))].to(row.dtype)
        return found

    objective = RPMObjective(model, observations)
    # In a fit observations that can teach nothing are left out before this is counted.
    objective.n_observations = float(len(observations.usable()))
    start = objective.local.take(torch.arange(len(observations)))
    objective.local = LocalTable(LocalParameters(moved(start.e_step), {n: moved(start.of(n)) for n in model.names}))
    return objective


@cache
def fitted(case):
    """An estimator that has its atoms, and its training data."""
    data = data_for(case)
    estimator, model, observations = built(case, data)
    estimator.model_ = FittedRPM.collected(model, observations)
    return estimator, data


def new_data(case):
    return data_for(case, NEW_LENGTHS, seed=1)


# ---- what comes out ---------------------------------------------------------------------------


def inferred(model, observations):
    """Per observation, of its own length: μ_q and η_q of all its latents (so mean and covariance), and its score."""
    rows, totals = [], iter(model.free_energies(observations).total)
    for each in model.posterior(observations):
        for n, length in enumerate(each.batch.sites.exists.sum(1)):
            rows.append((each.posterior.mu[n, :length], each.posterior.eta[n, :length], next(totals)))
    return rows


def out(case, data, **options):
    model = fitted(case)[0].model_
    return inferred(model, read(data, model.specs, **options))


def same(left, right, tolerance=1e-10):
    for one, other in zip(left, right, strict=True):
        same_tensors(one, other, tolerance)


@cache
def whole(case):
    """All new data at once."""
    return out(case, new_data(case))


def same_tensors(left, right, tolerance=1e-10):
    for x, y in zip(left, right, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            torch.testing.assert_close(x, y, rtol=0, atol=tolerance * max(1.0, float(y.abs().max())))


def training(model, observations, index=None, counted=None):
    """F of the training form per observation, and its sum's gradient by every parameter but the trials' own."""
    index = np.arange(len(observations)) if index is None else np.asarray(index)
    objective = objective_of(model, observations)
    energy = objective.evaluate(observations.batch(index, model.dtype, model.device)).energy
    total = energy.total if counted is None else energy.total[counted]
    shared = {n: p for n, p in model.named_parameters() if p.requires_grad}
    own = objective.local_parameters()
    gradients = torch.autograd.grad(total.sum(), [*shared.values(), *own], allow_unused=True)
    return total.detach(), dict(zip(shared, gradients, strict=False)), gradients[len(shared) :]


# ---- the properties ---------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Free E-steps refine new data in fifty steps: some will do. Types and shapes are checked in all other tests."""
    monkeypatch.setattr(free, "REFINEMENT", 2)
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@each_case
def test_together_and_alone_are_the_same(case):
    data = new_data(case)
    alone = [out(case, data.take([n]))[0] for n in range(len(data))]
    same(whole(case), alone)


@each_case
def test_the_inference_batch_does_not_matter(case, monkeypatch):
    expected = whole(case)
    monkeypatch.setattr(model_module.RPM, "at_once", lambda *_: 2)  # of three; one by one is the test above
    same(out(case, new_data(case)), expected)


def test_a_sharp_posterior_does_not_choose_the_grid_of_others():
    family = DiagonalGaussian(1)
    g = random_eta(family, 1, 5)
    mixture = AtomMixture(family, torch.tensor([[0.0, -0.5]], dtype=g.dtype), True, g, torch.zeros_like(g[..., 0]))
    spread = torch.tensor([1.0, 0.01, 1e-5], dtype=g.dtype)[:, None, None]
    eta = family.natural(torch.full_like(spread, 0.3), spread.square())
    together = SharedGrid()(eta, mixture, {})
    alone = torch.cat([SharedGrid()(eta[n : n + 1], mixture, {}) for n in range(3)])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


TOO_SHARP = [
    case
    for case in CASES
    if case.name.startswith(("RPGPFA-2-natural_gradient-second_order", "RPGPFA-2-natural_gradient-monte_carlo"))
]


@pytest.mark.parametrize("case", TOO_SHARP, ids=str)
def test_a_step_that_one_observation_cannot_take_holds_up_no_other(case, monkeypatch):
    _, pattern, observations = built(case, data_for(case), sharpness=32.0)
    model = FittedRPM.collected(pattern, observations)
    refused, possible = [], natural_gradient._Problem.possible

    def watched(problem, potentials):
        refused.append(~possible(problem, potentials))
        return ~refused[-1]

    monkeypatch.setattr(natural_gradient._Problem, "possible", watched)
    data = data_for(case, LENGTHS, seed=1)
    together = inferred(model, read(data, model.specs))
    assert any(each.any() and not each.all() for each in refused)
    same([inferred(model, read(data.take([n]), model.specs))[0] for n in range(len(data))], together)


@each_case
def test_outputs_follow_their_observations(case):
    order = [2, 0, 1]
    same(out(case, new_data(case).take(order)), [whole(case)[n] for n in order])


@each_case
def test_the_training_free_energy_follows_its_observations(case):
    model, data = fitted(case)[0].model_.pattern, fitted(case)[1]
    observations, order = read(data), [3, 5, 0, 2, 4, 1]
    total, gradients, own = training(model, observations)
    permuted, *others = training(model, observations, order)
    same_tensors([permuted, *others[0].values(), *others[1]], [total[order], *gradients.values(), *own])


@each_case
def test_empty_observations_change_nothing_for_the_others_in_inference(case):
    data = new_data(case)
    same(out(case, data.with_empty(1, 1))[1:-1], whole(case))


@each_case
def test_empty_observations_change_nothing_for_the_others_in_training(case):
    if "mean" in case.choices:
        pytest.skip(f"{DOES_NOT_APPLY}: one reference averages over the sites, and no training batch has empty trials")
    model, data = copy.deepcopy(fitted(case)[0].model_.pattern), fitted(case)[1]
    observations, more = read(data), read(data.with_empty(0, 2))
    total, gradients, own = training(model, observations)
    model.prepare(more)
    again, others, rows = training(model, more, counted=slice(0, len(data)))
    same_tensors([again, *others.values()], [total, *gradients.values()])
    same_tensors([row[tuple(map(slice, before.shape))] for row, before in zip(rows, own, strict=True)], own)


@each_case
def test_names_and_their_order_do_not_matter(case):
    names = {"b": "x.y \u241f", "a": "b"}  # in another order, by place and by alphabet
    estimator, data = fitted(case)
    before = estimator.model_.pattern
    _, model, observations = built(case, data.renamed(names), names)
    for name, each in before.recognisers():
        dict(model.recognisers())[names[name]].load_state_dict(each.state_dict())
    model.prior.load_state_dict(before.prior.state_dict())
    again = FittedRPM.collected(model, observations)
    same(inferred(again, read(new_data(case).renamed(names), again.specs)), whole(case))
    same_tensors([training(model, observations)[0]], [training(before, read(data))[0]])


@each_case
def test_an_absent_factor_might_never_have_been(case):
    whole_model, kept = fitted(case)[0].model_, "b"
    model = whole_model.pattern
    alone = RPM(
        model.prior,
        {kept: dict(model.recognisers())[kept].network},
        e_step=model.e_step,
        expected_log_mixture=model.expected_log_mixture,
        atoms=model.atoms,
        head=dict(model.recognisers())[kept].head,
        targets={kept: model.targets[kept]} if kept in model.targets else None,
        dtype=torch.float64,
    ).eval()
    alone.recognition[0].scaling = dict(model.recognisers())[kept].scaling
    alone.specs = {kept: model.specs[kept]}
    times, atoms = torch.as_tensor(whole_model.times)[None], {kept: whole_model._mixture(kept)}
    alone_fitted = FittedRPM(alone, atoms, times, whole_model.n_observations, whole_model.n_sites)
    data = new_data(case).only(kept)
    same(out(case, data), inferred(alone_fitted, read(data, alone.specs)))


@each_case
def test_gaps_may_be_marked_or_be_nan(case):
    data = new_data(case)
    complete = data_for(case, NEW_LENGTHS, seed=1, gaps=False)
    marked = {name: present(x, case) for name, x in data.values.items()}
    same(out(case, complete, presence=marked), whole(case))


def present(observations, case):
    """(N, T), or (N,) without time."""
    there = [np.atleast_1d((x != "") if x.dtype.kind == "U" else ~np.isnan(x).any(-1)) for x in observations]
    if not case.is_series:
        return np.concatenate(there)
    longest = max(map(len, there))
    return np.array([np.pad(each, (0, longest - len(each))) for each in there])


# ---- gradients ----------------------------------------------------------------------------------

SITES = len(LENGTHS) * max(LENGTHS)
NEVER_LAST = sum(1 << bit for bit in range(SITES) if bit % 4 != 3)
ONE_BIN = (1 << SITES) - 1 - 0b1011


@each_case
@settings(max_examples=2, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["float64", "float32"]), st.integers(0, 2**SITES - 1), st.integers(0, 2**SITES - 1))
@example("float64", NEVER_LAST, 2**SITES - 1)  # a site that a factor never sees
@example("float32", ONE_BIN, ONE_BIN)  # a trial of one bin
@example("float32", 0b10010, 0b10010)  # two bins in all, most sites without any atoms
def test_gradients_are_finite_for_any_missingness(case, dtype, a, b):
    data = data_for(case, gaps=False)
    observations = read(data, presence={"a": mask(a, case), "b": mask(b, case)})
    model = unprepared(case, dtype)
    try:
        model.prepare(observations)
    except InputError:
        return  # nothing to learn from
    total, gradients, own = training(model, observations)
    assert torch.isfinite(total).all()
    for name, gradient in gradients.items():
        assert gradient is None or torch.isfinite(gradient).all(), name
    assert all(torch.isfinite(row).all() for row in own)


@cache
def unprepared(case, dtype):
    return built(case, data_for(case, gaps=False), dtype=dtype)[1]


def mask(bits, case):
    every = np.array([bool(bits >> bit & 1) for bit in range(SITES)]).reshape(len(LENGTHS), -1)
    return every if case.is_series else every[:, 0]


# ---- whole fits -----------------------------------------------------------------------------------

WORTH_A_FIT = ("RPCategorical-3-0.7", "RPFA-2-free-interior_free", "RPGPFA-2-free-interior-", "RPGPFA-2-pooled-Linear",
               "RPGPFA-2-separate-free-", "RPFA-2-separate-natural")  # fmt: skip
FITS = [case for case in CASES if case.name.startswith(WORTH_A_FIT)]


@pytest.mark.parametrize("case", FITS, ids=str)
def test_empty_observations_change_nothing_in_a_fit(case):
    data, scores = data_for(case), []
    for each in (data, data.with_empty(2, 1)):
        x, times = each.arguments
        estimator = estimator_for(case).set_params(max_iter=2, n_init=1)
        model = estimator.fit(x, **times).model_
        scores.append(inferred(model, read(new_data(case), model.specs)))
    same(*scores)
