"""What a fit leaves on its estimator."""

from rpmodels.fitted import FittedRPM
from rpmodels.free_energy import Score
from rpmodels.learning import Attempt
from rpmodels.learning.consumers import HistoryTable


class Results:
    """Attributes that are there after `fit`; no arguments, so they stand apart from where those are declared."""

    model_: FittedRPM
    """The fitted model."""
    history_: HistoryTable
    """Named terms of the free energy, one row a step."""
    restarts_: list[Attempt]
    """What became of every start."""
    score_: Score
    """Nats above independence on the training data, with its ceiling."""
    clipped_: dict[str, int]
    """How many training values of each factor the scaling clipped."""
    n_iter_: int
    """Steps taken, those of lessons among them; `history_` has the others."""
    stop_reason_: str
    """Why training stopped."""
    converged_: bool
    """Whether more steps would have changed little."""
    validation_curve_: list[dict[str, float]]
    """Training and held-out score, where there was a validation set."""
