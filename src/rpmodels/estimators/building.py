"""The RPM of an estimator, from its groups of arguments and the data."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from rpmodels.estimators import labelled, parts
from rpmodels.estimators.groups import Groups, Recognition
from rpmodels.estimators.networks import Layers, channel_curves, linear_for_counts, networks, with_constant_precision
from rpmodels.estimators.private import n_private, targets_of
from rpmodels.estimators.regularisation import Regularisation, either
from rpmodels.families import Family
from rpmodels.learning import dtype_of
from rpmodels.mixtures import AtomPolicy, ExpectedLogMixture, FixedGrid
from rpmodels.model import RPM, targeted
from rpmodels.observations import Observations
from rpmodels.priors import Prior


def model_of_states(
    prior: Prior,
    atoms: AtomPolicy,
    observations: Observations,
    network: Any,
    chosen: Groups,
    default: Regularisation,
    targets: Mapping[str, Sequence[str]] | None = None,
    factors: Mapping[str, Any] | None = None,
) -> RPM:
    """With this prior over states, inferred exactly; factors may speak of some of several latents.

    `factors`: as the user gave them; of labels some say p(label | state) themselves.
    """
    return _one_family(prior, atoms, observations, network, chosen, default, factors, targets=targets)


def model_of_angles(
    prior: Prior, atoms: AtomPolicy, observations: Observations, network: Any, chosen: Groups, default: Regularisation
) -> RPM:
    """With this prior over angles, inferred as `chosen.inference` says."""
    given = chosen.inference
    known = {**parts.APPROXIMATIONS, "quadrature": lambda _: FixedGrid()}
    return _one_family(
        prior,
        atoms,
        observations,
        _for_counts(network, observations, chosen.recognition),
        chosen,
        default,
        e_step=parts.e_step(given.e_step),
        expected_log_mixture=parts.named(
            "expected_log_mixture", given.expected_log_mixture, known, ExpectedLogMixture, 1
        ),
        marginal=parts.marginal(given.marginal),
    )


def _layers(given: Recognition, default: Regularisation) -> Layers:
    """Hidden layers of the user's own have no linear map beside them."""
    dropout = either(given.dropout, default.dropout, "dropout", below=1.0)
    if isinstance(given.hidden, str):
        return Layers(default.hidden, dropout, default.straight)
    return Layers(tuple(int(units) for units in given.hidden), dropout, straight=False)


def _for_counts(network: Any, observations: Observations, given: Recognition) -> Any:
    """Linear, unless hidden layers are wanted."""
    return linear_for_counts(network, observations) if isinstance(given.hidden, str) else network


def _one_family(
    prior: Prior,
    atoms: AtomPolicy,
    observations: Observations,
    network: Any,
    chosen: Groups,
    default: Regularisation,
    factors: Mapping[str, Any] | None = None,
    **others: Any,
) -> RPM:
    """With factors whose raw numbers are those of the prior's family; exact where there are no other parts."""
    given = chosen.recognition
    targets: Mapping[str, Sequence[str]] = others.get("targets") or {}
    sizes = {name: targeted(prior.family, name, targets.get(name))[0].raw_size for name in observations.specs}
    said = labelled.tables(factors, observations, sizes)
    return RPM(
        prior,
        networks(network, given.tied, observations, sizes, _layers(given, default)) | said,
        atoms=atoms,
        head=parts.head(given.head),
        scaling=given.scaling,
        input_dropout=either(given.input_dropout, default.input_dropout, "input_dropout", below=1.0),
        computing=chosen.engine.computing(),
        dtype=dtype_of(chosen.engine.dtype),
        **others,
    )


def model_of_numbers(
    prior: Callable[[Family], Prior],
    n_latents: int,
    atoms: AtomPolicy,
    observations: Observations,
    network: Any,
    chosen: Groups,
    default: Regularisation,
    populations: Collection[str] = (),
) -> RPM:
    """With K continuous latents, and those that are one factor's own, inferred as `chosen.inference` says."""
    recognition, inference = chosen.recognition, chosen.inference
    alone = () if observations.n_sites > 1 else set(observations.specs) - set(populations)
    targets = targets_of(recognition, n_latents, observations.specs, alone) or {}
    n_latents += n_private(recognition)
    # Channels along projections couple the latents.
    covariance = "full" if populations else recognition.covariance
    latents = {name: len(targets.get(name, range(n_latents))) for name in observations.specs}
    raw = {name: parts.family(covariance, max(1, count)).raw_size for name, count in latents.items()}
    constant = recognition.precision == "constant"
    made = networks(
        _for_counts(network, observations, recognition),
        recognition.tied,
        observations,
        latents if constant else raw,
        _layers(recognition, default),
    )
    approximation = inference.expected_log_mixture
    if constant:
        made = with_constant_precision(made, latents, raw)
    return RPM(
        prior(parts.family(covariance, n_latents)),
        made | {name: channel_curves(observations, name, latents[name]) for name in populations},
        e_step=parts.e_step(inference.e_step, bool(populations)),
        expected_log_mixture=parts.named(
            "expected_log_mixture", approximation, parts.APPROXIMATIONS, ExpectedLogMixture, max(latents.values())
        ),
        atoms=atoms,
        head=parts.head(recognition.head),
        targets=targets,
        marginal=parts.marginal(inference.marginal),
        scaling=recognition.scaling,
        input_dropout=either(recognition.input_dropout, default.input_dropout, "input_dropout", below=1.0),
        computing=chosen.engine.computing(),
        dtype=dtype_of(chosen.engine.dtype),
    )
