"""The public `train`: from a pattern and observations to a fitted model."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rpmodels import errors
from rpmodels.fitted import FittedRPM
from rpmodels.learning.batches import divide
from rpmodels.learning.consumers import Progress
from rpmodels.learning.loop import State
from rpmodels.learning.objective import RPMObjective
from rpmodels.learning.run import Run
from rpmodels.learning.settings import TrainingSettings
from rpmodels.mixtures import ExtraAtoms
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.seeding import spawn


def train(
    model: RPM,
    observations: Observations,
    settings: TrainingSettings | None = None,
    *,
    extra: ExtraAtoms | None = None,
    random_state: Any = None,
    callbacks: Sequence[Callable[[State], None]] = (),
    verbose: bool = False,
    **fields: Any,
) -> FittedRPM:
    """Train an RPM on observations: scaling, loop, rescue, stopping, and F_j over all data at the end.

    `fields` are those of `TrainingSettings`, for those who do not want to build one; `extra` are atoms of a step beside
    those of its batch. The fitted model's `record` has the history and the reason to stop.
    """
    if settings is not None and fields:
        raise errors.bad_value("settings", "either TrainingSettings or their fields", f"both ({', '.join(fields)})")
    chosen = settings or TrainingSettings(**fields)
    seeds = spawn(random_state, 2)
    data = divide(observations, chosen.validation_fraction, seeds[0])
    model.prepare(data.training)
    run = Run.start(model, data, chosen, seeds[1], partial(RPMObjective, extra=extra))
    progress = Progress(chosen.max_iter, verbose, type(model.prior).__name__)
    try:
        run.finish(data, [progress, *callbacks])
    finally:
        progress.close()
    fitted: FittedRPM = run.fitted
    fitted.record = run.record
    return fitted
