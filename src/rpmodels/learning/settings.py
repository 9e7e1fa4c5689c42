"""How to train: the one block of settings that `train`, tournaments and estimators share."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from rpmodels import errors
from rpmodels.checks import Function, Instance, Integer, Nothing, Number, Rule, shown
from rpmodels.learning.finish import Finish, QuasiNewton
from rpmodels.learning.loop import Objective
from rpmodels.learning.optimisers import adamw, flat_then_cosine


@dataclass(frozen=True)
class Strong:
    """How many times stronger regularisation is while a fit searches, and for which share of its steps."""

    dropout: float = 2.5
    input_dropout: float = 3.0
    weight_decay: float = 10.0
    share: float = 0.4


RULES: Mapping[str, Rule] = {
    "max_iter": Integer(1),
    "learning_rate": Number(above=0.0),
    "batch_size": Integer(2) | Nothing(),
    "weight_decay": Number(least=0.0),
    "max_gradient_norm": Number(above=0.0) | Nothing(),
    "tol": Number(least=0.0) | Nothing(),
    "patience": Integer(1),
    "validation_fraction": Number(least=0.0, below=1.0),
    "alternate": Nothing() | Integer(1),
    "optimiser": Nothing() | Function("a function: parameters → torch optimiser"),
    "scheduler": Nothing() | Function("a function: optimiser → torch scheduler"),
    "low_rate": Number(least=0.0, below=1.0),
    "workers": Integer(0),
    "finish": Instance(Finish),
    "strong": Nothing() | Instance(Strong),
}
"""What the settings of a run may be."""


Made = TypeVar("Made")


@dataclass(frozen=True)
class TrainingSettings:
    """How to train.

    Args:
        max_iter: gradient steps at most, those of lessons among them, which leave at least half
        learning_rate: of AdamW; along a cosine to a hundredth over the last `low_rate` of the steps
        batch_size: observations a step; None for all
        weight_decay: on the weights of the recognition networks, not on biases
        max_gradient_norm: clipping; None for none
        tol, patience: stop when the mean free energy gains less than tol over `patience` steps; None: never.
            With validation, stop when the held-out score has not improved for `patience` steps
        validation_fraction: share of observations held out to stop by
        low_rate: share of the steps in which the learning rate falls
        alternate: train the trials' own parameters (of a free E-step) and all others by turns of so many steps;
            None for jointly
        optimiser, scheduler: factories that replace the default AdamW and the fall of its rate
        workers: processes that read batches ahead of time; for data on disk or made on the way
        finish: what comes after the last step
        strong: regularisation while the fit searches; None: as always

    """

    max_iter: int = 1000
    learning_rate: float = 1e-3
    batch_size: int | None = 500
    weight_decay: float = 0.0
    max_gradient_norm: float | None = None
    tol: float | None = None
    patience: int = 200
    validation_fraction: float = 0.0
    low_rate: float = 0.3
    alternate: int | None = None
    optimiser: Callable[[Iterable[Any]], Optimizer] | None = None
    scheduler: Callable[[Optimizer], LRScheduler] | None = None
    workers: int = 0
    finish: Finish = field(default_factory=QuasiNewton)
    strong: Strong | None = None

    def __post_init__(self) -> None:
        for name, rule in RULES.items():
            rule.check(name, getattr(self, name))

    def make_optimiser(self, objective: Objective[Any]) -> Optimizer:
        """The user's, or AdamW with decay on weight matrices of the recognition networks only."""
        if self.optimiser is not None:
            return _made("optimiser", self.optimiser, objective.parameters(), Optimizer)
        return adamw(objective.model.recognition, objective.parameters(), self.learning_rate, self.weight_decay)

    def make_scheduler(self, optimiser: Optimizer) -> LRScheduler | None:
        """The user's, or a flat rate that ends in a cosine."""
        if self.scheduler is not None:
            return _made("scheduler", self.scheduler, optimiser, LRScheduler)
        return flat_then_cosine(optimiser, self.max_iter, self.low_rate)

    def told(self, step: int, lessons: int, longest: int) -> str:
        """How many steps a run has had that nobody stopped before its end, of which some were lessons."""
        last = f"max_iter = {self.max_iter} steps"
        taken = last if step == longest else f"{step + lessons} of {last}"
        return f"{taken} ({lessons} of them lessons)" if lessons else taken


def _made(what: str, factory: Callable[[Any], Made], given: Any, kind: type[Made]) -> Made:
    """What a factory of the user's gives, checked."""
    try:
        made = factory(given)
    except Exception as failure:
        raise errors.factory_failed(what, failure) from failure
    if not isinstance(made, kind):
        raise errors.bad_value(what, f"a function that returns a torch {kind.__name__}", f"one of {shown(made)}")
    return made
