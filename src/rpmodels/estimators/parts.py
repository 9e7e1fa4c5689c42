"""Parts of a model by their names: from plain values (an estimator's arguments) to objects, once, in the plan."""

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from rpmodels import checks, errors, mixtures
from rpmodels.estimators.arguments import AUTO
from rpmodels.families import DiagonalGaussian, Family, FullGaussian
from rpmodels.inference import Amortised, EStep, FreeInducing, FreePotentials, NaturalGradient, PartlyHeard, Refined
from rpmodels.learning import Finish, NoFinish, QuasiNewton
from rpmodels.mixtures import ExpectedLogMixture, Marginal, MarginalByFactor
from rpmodels.priors import CategoricalPrior, DiscreteGraph, JointChain, MarkovChainPrior, stationary
from rpmodels.recognition import AbsoluteHead, Head, RelativeHead

HEADS: dict[str, type[Head]] = {"relative": RelativeHead, "absolute": AbsoluteHead}
APPROXIMATIONS: dict[str, Callable[[int], ExpectedLogMixture]] = {
    "interior": lambda _: mixtures.InteriorBound(),
    "interior_optimal": lambda _: mixtures.OptimalInteriorBound(),
    "interior_free": lambda _: mixtures.FreeInteriorBound(),
    "interior_thresholded": lambda _: mixtures.ThresholdedInteriorBound(),
    "second_order": lambda _: mixtures.SecondOrder(),
    "monte_carlo": lambda _: mixtures.MonteCarlo(),
    "quadrature": mixtures.quadrature,
}
E_STEPS: dict[str, Callable[[], EStep]] = {
    "amortised": Amortised,
    "natural_gradient": NaturalGradient,
    "free": FreePotentials,
    "free_inducing": FreeInducing,
    "partly_heard": PartlyHeard,
    "refined": Refined,
}
PRECISIONS = ("network", "constant")
FAMILIES: dict[str, Callable[[int], Family]] = {"diagonal": DiagonalGaussian, "full": FullGaussian}
MARGINALS: dict[str, Callable[[], Marginal]] = {
    "empirical": mixtures.Empirical,
    "kernel_density": mixtures.KernelDensity,
    "gaussian": mixtures.GaussianMarginal,
    "poisson": mixtures.PoissonMarginal,
    "categorical": mixtures.CategoricalMarginal,
}

FINISHES: dict[str, Callable[[], Finish]] = {"auto": QuasiNewton, "none": NoFinish}


def named(what: str, choice: Any, known: Mapping[str, Callable[..., Any]], kind: type, *arguments: Any) -> Any:
    """An object the user made, or the one that a name stands for."""
    if isinstance(choice, kind):
        return choice
    if not isinstance(choice, str) or choice not in known:
        raise errors.bad_choice(what, (*known, f"a {kind.__name__}"), choice)
    return known[choice](*arguments)


def marginal(choice: Any) -> Marginal:
    """By name or made by the user, for all factors or for those named."""
    if isinstance(choice, Mapping):
        return MarginalByFactor.chosen({str(name): marginal(each) for name, each in choice.items()})
    made: Marginal = named("marginal", choice, MARGINALS, Marginal)
    return made


def other_e_step(choice: Any) -> EStep | None:
    """Another way to q than a model's own, by name or made by the user; None for its own."""
    found: EStep | None = None if choice is None else named("e_step", choice, E_STEPS, EStep)
    return found


def e_step(choice: Any, populations: bool = False) -> EStep:
    """By name or made by the user; auto: amortised, and of populations refined in the last steps and afterwards."""
    if choice == AUTO:
        return Refined(late=True) if populations else Amortised()
    made: EStep = named("e_step", choice, E_STEPS, EStep)
    return made


def family(choice: str, latents: int) -> Family:
    """Diagonal or full Gaussian over K latents."""
    checks.integer("n_latents", latents, 1)
    made: Family = named("covariance", choice, FAMILIES, Family, latents)
    return made


def head(choice: str) -> Head:
    """Factors relative to the prior, or absolute."""
    if choice not in HEADS:
        raise errors.bad_choice("head", HEADS, choice)
    return HEADS[choice]()


def markov_chain_prior(choice: Any, n_states: int) -> MarkovChainPrior:
    """By name ("learned"), by (K, K) transition probabilities, or by a number: the concentration of Dirichlets."""
    if isinstance(choice, str):
        if choice != "learned":
            raise errors.bad_choice("transitions", ("learned", "a (K, K) matrix", "a Dirichlet concentration"), choice)
        return MarkovChainPrior.learned(n_states)
    if isinstance(choice, numbers.Real):
        return MarkovChainPrior.dirichlet(n_states, float(choice))
    try:
        rows = np.asarray(choice, float)
    except (TypeError, ValueError) as failure:
        raise errors.bad_value("transitions", "a name, probabilities or a number", repr(choice)) from failure
    if rows.shape != (n_states, n_states):
        raise errors.bad_value("transitions", f"shape ({n_states}, {n_states})", f"shape {rows.shape}")
    return MarkovChainPrior.fixed(stationary(torch.as_tensor(rows)), torch.as_tensor(rows))


def chains_prior(choice: Any, states: Mapping[str, int]) -> JointChain:
    """Chains by the same choice, or by one for each: {chain: choice}, others learned."""
    if isinstance(choice, Mapping):
        named = {str(name): each for name, each in choice.items()}
        for name in named:
            if name not in states:
                raise errors.bad_choice("transitions", states, name)
        return JointChain.of({name: markov_chain_prior(named.get(name, "learned"), k) for name, k in states.items()})
    if not isinstance(choice, str | numbers.Real):
        raise errors.bad_value("transitions", "a word, a number, or {chain: …} for several chains", np.shape(choice))
    return JointChain.of({name: markov_chain_prior(choice, k) for name, k in states.items()})


def durations_prior(choice: Any, n_states: int, longest: int) -> JointChain:
    """By name, by a number (Dirichlets over hazards and jumps), or by known jumps, with zeros on the diagonal."""
    if isinstance(choice, str):
        return JointChain.durations(n_states, longest)
    if isinstance(choice, numbers.Real):
        return JointChain.durations(n_states, longest, concentration=float(choice))
    if isinstance(choice, Mapping):
        raise errors.bad_value("transitions", "those of one chain", dict(choice))
    rows = torch.as_tensor(np.asarray(choice, float))
    if rows.shape != (n_states, n_states) or bool(rows.diagonal().any()):
        expected = f"shape ({n_states}, {n_states}) with zeros on the diagonal: `durations` say how long states last"
        raise errors.bad_value("transitions", expected, rows.tolist())
    return JointChain.durations(n_states, longest, jumps=rows)


def graph_prior(
    choice: Any,
    states: Mapping[str, int],
    parents: Mapping[str, Sequence[str]] | None,
    scopes: Sequence[Sequence[str]],
    largest: int,
    cliques: Sequence[Sequence[str]],
) -> DiscreteGraph:
    """By name ("learned"), by a number: the concentration of Dirichlets, or by known tables of some latents."""
    if isinstance(choice, str):
        if choice != "learned":
            raise errors.bad_choice("tables", ("learned", "known tables", "a Dirichlet concentration"), choice)
        return DiscreteGraph.learned(states, parents, scopes, largest, cliques=cliques)
    if isinstance(choice, numbers.Real):
        return DiscreteGraph.dirichlet(states, parents, float(choice), scopes, largest, cliques)
    known = {str(name): torch.as_tensor(np.asarray(each, float)) for name, each in choice.items()}
    return DiscreteGraph.learned(states, parents, scopes, largest, known, cliques)


def categorical_prior(choice: Any, n_states: int) -> CategoricalPrior:
    """By name ("uniform", "learned"), by K probabilities, or by a number: the concentration of a Dirichlet."""
    if isinstance(choice, str):
        made = {"uniform": CategoricalPrior.uniform, "learned": CategoricalPrior.learned}
        if choice not in made:
            raise errors.bad_choice("prior", (*made, "probabilities", "a Dirichlet concentration"), choice)
        return made[choice](n_states)
    if isinstance(choice, numbers.Real):
        return CategoricalPrior.dirichlet(n_states, float(choice))
    try:
        probabilities = np.asarray(choice, float)
    except (TypeError, ValueError) as failure:
        raise errors.bad_value("prior", "a name, probabilities or a number", repr(choice)) from failure
    if probabilities.shape != (n_states,):
        raise errors.bad_value("prior", f"{n_states} probabilities", f"shape {probabilities.shape}")
    return CategoricalPrior.fixed(torch.as_tensor(probabilities))
