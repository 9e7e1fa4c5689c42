"""The arguments of estimators that few people change, in groups: each declared once, for all estimators."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from rpmodels.checks import Array, ByFactor, Flag, Function, Instance, Integer, Listed, Nothing, Number, Word
from rpmodels.estimators import parts
from rpmodels.estimators.arguments import AUTO, Group, argument
from rpmodels.estimators.engine import Engine
from rpmodels.families import Family
from rpmodels.inference import EStep
from rpmodels.learning import RULES, Finish
from rpmodels.mixtures import AtomPolicy, ExpectedLogMixture, Marginal
from rpmodels.observations.scaling import NAMES

LEFT = Word(AUTO)
"""A choice that is left to the estimator."""


P0 = Word(*parts.MARGINALS) | Instance(Marginal)


class Recognition(Group):
    """How observations are recognised: the networks of the factors, and what becomes of their output."""

    tied: bool = argument(Flag(), "share one network among factors with the same kind of observation", default=False)
    head: str = argument(
        Word(*parts.HEADS), "factors relative to the prior, or absolute as in the paper", default="relative"
    )
    scaling: str | Mapping[str, str] = argument(
        Word(*NAMES) | ByFactor(Word(*NAMES), "any of these"), "of what the networks see", default=AUTO
    )
    hidden: Sequence[int] | str = argument(
        LEFT | Listed(Integer(1)),
        "units of the hidden layers of MLPs, none for linear maps; auto: fewer as data shrink, and a linear map beside "
        "them where events are vectors",
        default=AUTO,
    )
    dropout: float | str = argument(
        LEFT | Number(least=0.0, below=1.0), "share of hidden values zeroed in training; auto: more as data shrink",
        default=AUTO,
    )  # fmt: skip
    input_dropout: float | str = argument(
        LEFT | Number(least=0.0, below=1.0), "share of input values zeroed in training; auto: more as data shrink",
        default=AUTO,
    )  # fmt: skip
    targets: Mapping[str, Sequence[int]] | None = argument(
        Nothing() | ByFactor(Listed(Integer(0))), "the latents that a factor speaks of; others speak of all",
        default=None,
    )  # fmt: skip
    private: Mapping[str, int] | None = argument(
        Nothing() | ByFactor(Integer(1)),
        "how many latents a factor has to itself, beside those that all share; for continuous latents `n_latents` "
        "counts the shared ones, which come first",
        default=None,
    )
    precision: str = argument(
        Word(*parts.PRECISIONS),
        "of every factor, from its network for every observation or one constant",
        default="network",
    )
    covariance: Any = argument(
        LEFT | Word(*parts.FAMILIES) | Instance(Family),
        "of every factor, and of the latents given all of them",
        default=AUTO,
    )


class Inference(Group):
    """How q is found and ⟨log F⟩ computed, for continuous latents."""

    expected_log_mixture: Any = argument(
        LEFT | Word(*parts.APPROXIMATIONS) | Instance(ExpectedLogMixture),
        "how ⟨log F⟩ is computed: in closed form (interior), or as named; quadrature for K ≤ 3", default=AUTO,
    )  # fmt: skip
    e_step: Any = argument(
        Word(*parts.E_STEPS) | Instance(EStep) | LEFT,
        "how q is found; auto: amortised, and of populations refined in the last steps of a fit and afterwards; "
        "free_inducing is the paper's q(U), for RPGPFA; partly_heard: in training from a random half of the times, for "
        "slow latents; refined: of populations, in all steps",
        default=AUTO,
    )
    atoms: Any = argument(
        LEFT | Word("per_time", "pooled") | Instance(AtomPolicy),
        "of F_j in series: those of the same time (A20), or pooled over time", default=AUTO,
    )  # fmt: skip
    marginal: Any = argument(
        P0 | ByFactor(P0, "any of these"), "p₀, which stands behind F_j; the factors not named have the empirical one",
        default="empirical",
    )  # fmt: skip
    alternate: int | None = argument(
        RULES["alternate"],
        "with a free E-step, train the trials' own parameters and all others by turns of so many steps", default=None,
    )  # fmt: skip


class Training(Group):
    """How a fit is trained, beside its steps and their size."""

    batch_size: int | str | None = argument(
        LEFT | RULES["batch_size"], "observations a step; None for all", default=AUTO
    )
    tol: float | None = argument(
        RULES["tol"], "stop when the free energy gains less (nats) over `patience` steps", default=None
    )
    patience: int = argument(RULES["patience"], "steps without improvement before stopping", default=200)
    validation_fraction: float | str = argument(
        LEFT | RULES["validation_fraction"],
        "share of the observations held out to choose starts and to stop by, with `patience`; auto: a tenth where "
        "networks have hidden layers",
        default=AUTO,
    )
    weight_decay: float | str = argument(
        LEFT | RULES["weight_decay"], "on the weights of the networks; auto: more as data shrink", default=AUTO
    )
    max_gradient_norm: float | str | None = argument(
        LEFT | RULES["max_gradient_norm"], "clip gradients at this norm", default=AUTO
    )
    optimiser: Callable[[Iterable[Any]], Optimizer] | None = argument(
        RULES["optimiser"], "in the place of AdamW", default=None
    )
    scheduler: Callable[[Optimizer], LRScheduler] | None = argument(
        RULES["scheduler"], "in the place of a flat rate that ends in a cosine",
        default=None,
    )  # fmt: skip
    finish: Any = argument(
        Word(*parts.FINISHES) | Instance(Finish),
        "what comes after the last step: auto is L-BFGS where networks are linear or tables and data not too many",
        default=AUTO,
    )  # fmt: skip
    callbacks: Sequence[Any] | None = argument(
        Nothing() | Listed(Function()), "called with the loop's state after every step of the final run", default=None
    )
    warm_start: bool = argument(
        Flag(), "whether another `fit` goes on from the last one: one start, from its weights and with its scaling",
        default=False,
    )  # fmt: skip


class Search(Group):
    """How starts are compared, and what becomes of a fit that found nothing.

    `search="quick"` has a third of the starts and no moves: for a first look, in two thirds to four fifths of the time.
    `search="thorough"` has three times as many starts and moves: for a last one, in one and a half times the time and
    more (measured: docs/results/optimum.md). Comparisons end early where independent starts have found the same.
    """

    bundles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"starts": 1 / 3, "moves": 0},
        "thorough": {"starts": 3.0, "moves": 12},
    }

    starts: float = argument(Number(above=0.0, below=20.0), "times `n_init`", default=1.0)
    moves: int = argument(Integer(0), "ways out of poor optima that are tried at most, for states", default=4)
    start: Any = argument(
        Nothing() | Array(1, 2, 3) | Listed(Array(1, 2)),
        "latents or states to begin from as well, in the form that `transform` or `predict` would give them",
        default=None,
    )  # fmt: skip
    retries: int | str = argument(
        LEFT | Integer(0), "how often a collapsed fit (score about 0) is tried again from other starts", default=AUTO
    )
    n_jobs: int | None = argument(
        Nothing() | Integer(1) | Integer(most=-1), "processes for the starts, one thread each; -1 for all cores",
        default=None,
    )  # fmt: skip


@dataclass(frozen=True)
class Groups:
    """All groups of an estimator, checked; where the estimator has a choice of its own, in the place of "auto"."""

    recognition: Recognition
    inference: Inference
    training: Training
    search: Search
    engine: Engine
