"""What "auto" stands for: how hard to regularise, how large a network to build, how many observations a step has."""

import math
from dataclasses import dataclass, replace

from rpmodels import checks, errors
from rpmodels.estimators.networks import is_small_image
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.recognition import ChannelCurves, has_no_hidden_layer

ROWS_PER_CHANNEL = 50
"""Fewer training rows for every input channel call for a linear network (docs/results/lorenz.md)."""
FEWEST_DIVIDED, FEWEST_HELD_OUT = 20, 4
"""Observations from which on some are held out, and how many at least."""
HELD_OUT, ENOUGH_SITES = 0.1, 10_000
"""Share that is held out, and sites that are enough."""
LARGE_EVENT = 32 * 32
"""Numbers in an observation from which on it is a large image."""


@dataclass(frozen=True)
class Regularisation:
    """How hard to regularise, and how large an MLP to build: more and smaller as data shrink."""

    dropout: float
    input_dropout: float
    weight_decay: float
    hidden: tuple[int, ...]
    straight: bool = False
    """Whether MLPs of vectors have a linear map beside them, which a fit may begin from."""


def regularisation(n_rows: int) -> Regularisation:
    """The default for this many training rows (measured: docs/results/peer-supervision.md)."""
    if n_rows < 2_000:
        return Regularisation(dropout=0.2, input_dropout=0.1, weight_decay=0.1, hidden=(50,))
    if n_rows < 10_000:
        return Regularisation(dropout=0.1, input_dropout=0.05, weight_decay=0.03, hidden=(50, 50))
    return Regularisation(dropout=0.0, input_dropout=0.0, weight_decay=0.01, hidden=(50, 50))


def continuous_regularisation(observations: Observations) -> Regularisation:
    """The same for continuous latents; no hidden layer makes the network linear.

    Dropout ends their over-confidence and improves recovery as well (docs/results/textured-ball.md). Images are not
    linear in what they show, so that few of them call for more of it (docs/results/dynamics.md); a convolution has
    fewer weights than pixels.
    """
    n_rows, specs = int(observations.exists.sum()), observations.specs.values()
    channels = max(spec.event_shape[0] if len(spec.event_shape) == 1 else 1 for spec in specs)
    pixels = max(math.prod(spec.event_shape) if is_small_image(spec) else 1 for spec in specs)
    if ROWS_PER_CHANNEL * channels <= n_rows < ROWS_PER_CHANNEL * pixels:
        return Regularisation(dropout=0.3, input_dropout=0.4, weight_decay=0.03, hidden=(50, 50))
    if n_rows < ROWS_PER_CHANNEL * channels:
        return Regularisation(dropout=0.0, input_dropout=0.3, weight_decay=0.1, hidden=())
    if n_rows < 10_000:
        return Regularisation(dropout=0.1, input_dropout=0.0, weight_decay=0.03, hidden=(50, 50), straight=True)
    return Regularisation(dropout=0.05, input_dropout=0.0, weight_decay=0.01, hidden=(50, 50), straight=True)


def has_plenty(observations: Observations) -> bool:
    """Whether there are rows enough for every channel of the widest vector that a linear map of them is no noise."""
    widths = [spec.event_shape[0] for spec in observations.specs.values() if len(spec.event_shape) == 1]
    return bool(observations.exists.sum() >= ROWS_PER_CHANNEL * max(widths, default=0))


def circular_regularisation(observations: Observations) -> Regularisation:
    """The same for angles, whose intervals cover what they say with it (docs/bars.md).

    Input dropout makes those of linear networks too wide, and those of MLPs are too narrow without more of the rest.
    """
    default = replace(continuous_regularisation(observations), straight=False)
    if not default.hidden:
        return replace(default, input_dropout=0.0)
    if int(observations.exists.sum()) >= 10_000:
        return default
    return replace(default, dropout=0.3, weight_decay=0.1)


def batch_size(given: int | str | None, observations: Observations, sites: int, least: int) -> int | None:
    """Observations a step: a number, None for all, or "auto": as many as have so many sites, but some at least.

    Of large images a tenth: their networks are most of a step, and steps are worth more than their size
    (docs/results/arena.md).
    """
    if not isinstance(given, str):
        return given
    if given != "auto":
        raise errors.bad_value("batch_size", "an integer, None or 'auto'", repr(given))
    if any(math.prod(spec.event_shape) >= LARGE_EVENT for spec in observations.specs.values()):
        sites, least = sites // 10, max(1, least // 4)
    fitting = max(least, sites // max(1, round(float(observations.exists.sum(1).mean()))))
    return None if fitting >= len(observations) else fitting


def held_out_share(model: RPM, observations: Observations) -> float:
    """Of the observations, that a fit is stopped by: a tenth where networks could learn the others by heart.

    Numbers near natural parameters have a deterministic end instead, and parameters of single observations cannot be
    held out. Too few observations say nothing.
    """
    networks = [each.network for _, each in model.recognisers()]
    usable = len(observations.usable())
    direct = [has_no_hidden_layer(each) or isinstance(each, ChannelCurves) for each in networks]
    if all(direct) or usable < FEWEST_DIVIDED:
        return 0.0
    sites = max(1.0, float(observations.exists.sum(1).mean()))
    count = max(FEWEST_HELD_OUT, min(round(HELD_OUT * usable), round(ENOUGH_SITES / sites)))
    return count / usable


def either(given: float | str, default: float, name: str, below: float = math.inf) -> float:
    """A number the user gave, or the default for "auto"."""
    if isinstance(given, str):
        if given != "auto":
            raise errors.bad_value(name, "a number or 'auto'", repr(given))
        return default
    return checks.number(name, given, least=0.0, below=below)
