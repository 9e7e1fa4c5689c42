"""The models by their names on the command line, and their arguments from `--set`."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rpmodels import errors
from rpmodels.checks import in_words, shown
from rpmodels.estimators import RPFA, RPGPFA, RPHMM, RPLDA, RPLDS, RPCategorical, RPMEstimator
from rpmodels.estimators.arguments import every_argument
from rpmodels.estimators.names import nested

LATENTS, STATES = "--latents", "--states"


@dataclass(frozen=True)
class Kind:
    """A model as the command line knows it."""

    name: str
    estimator: type[RPMEstimator]
    size: str
    """The argument that says how many latents or states there are."""
    option: str
    """The option that sets it."""
    in_trials: bool = False
    """Whether an observation has several rows."""
    in_time: bool = False
    """Whether these follow each other in time."""
    takes_times: bool = False
    """Whether `fit` is told when they were."""


MODELS = {
    kind.name: kind
    for kind in (
        Kind("categorical", RPCategorical, "n_states", STATES),
        Kind("fa", RPFA, "n_latents", LATENTS),
        Kind("gpfa", RPGPFA, "n_latents", LATENTS, in_trials=True, in_time=True, takes_times=True),
        Kind("lda", RPLDA, "n_topics", STATES, in_trials=True),
        Kind("hmm", RPHMM, "n_states", STATES, in_trials=True, in_time=True),
        Kind("lds", RPLDS, "n_latents", LATENTS, in_trials=True, in_time=True, takes_times=True),
    )
}

ELSEWHERE = {
    "factors": "use --factor",
    "random_state": "use --seed",
    "training.optimiser": "it takes Python objects; fit in Python",
    "training.scheduler": "it takes Python objects; fit in Python",
    "training.callbacks": "it takes Python objects; fit in Python",
    "training.warm_start": "every command fits anew; fit in Python",
}
"""Arguments that `--set` does not take, and what to do instead."""

JSON = {"True": "true", "False": "false", "None": "null"}
"""Words for values as the command line has them."""


def kind_named(name: str) -> Kind:
    """The model of this name."""
    if name not in MODELS:
        raise errors.bad_choice("--model", MODELS, name)
    return MODELS[name]


def kind_of(estimator: RPMEstimator) -> Kind:
    """What a fitted model is."""
    for kind in MODELS.values():
        if isinstance(estimator, kind.estimator):
            return kind
    raise errors.bad_choice("the model", (kind.estimator.__name__ for kind in MODELS.values()), type(estimator))


def make_estimator(
    kind: Kind, latents: int | None, states: int | None, settings: Sequence[str], seed: int
) -> RPMEstimator:
    """The untrained estimator that the options ask for."""
    arguments = _settings(kind, settings)
    for option, count in ((LATENTS, latents), (STATES, states)):
        if count is None:
            continue
        if option != kind.option:
            raise errors.other_size(kind.name, kind.option, option)
        if kind.size in arguments:
            raise errors.not_by_set(kind.size, f"{option} is there too; give one of them")
        arguments[kind.size] = count
    make: Callable[..., RPMEstimator] = kind.estimator
    return make(**{"verbose": 1, "random_state": seed, **nested(kind.estimator, arguments)})


def _settings(kind: Kind, texts: Sequence[str]) -> dict[str, Any]:
    """`ARGUMENT=VALUE` or `GROUP.ARGUMENT=VALUE` texts as values by name, checked against their declarations."""
    declared = every_argument(kind.estimator)
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name or name in found:
            raise errors.bad_setting_text(text)
        if name not in declared:
            raise errors.unknown_setting(kind.name, name, [each for each in declared if each not in ELSEWHERE])
        if name in ELSEWHERE:
            raise errors.not_by_set(name, ELSEWHERE[name])
        found[name] = _value(value)
        rule = declared[name].rule
        if not rule.fits(found[name]):
            raise errors.bad_value(
                f"--set {name}", in_words([JSON.get(each, each) for each in rule.words]), shown(found[name])
            )
    return found


def _value(text: str) -> Any:
    """JSON, otherwise the text itself."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except ValueError:
        return text


def _refuse(constant: str) -> Any:
    """NaN and infinities are no settings."""
    raise ValueError(constant)
