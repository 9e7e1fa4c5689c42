"""Named bundles of choices, to be handed to an estimator: `rp.RPGPFA(**rp.presets.paper())`.

What else belongs into one of their groups is changed afterwards: `.set_params(training__callbacks=[rp.TimeLimit(60)])`.
"""

from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ConstantLR

from rpmodels.estimators import Inference, Recognition, Search, Training


def paper(expected_log_mixture: str = "interior_free") -> dict[str, Any]:
    """RP-GPFA as the paper has it: a free q(U) per trial, absolute factors, one mixture per time, η̃ as parameters.

    `expected_log_mixture` may be "monte_carlo" (20 samples) or "second_order" instead, or "interior_thresholded": η̃ as
    parameters too, kept valid by soft-thresholding the eigenvalues of its precision, with one threshold for all atoms.
    Two hidden layers of fifty units, or a convolutional network for images; one random start, all trials in every step,
    Adam at one rate, no regularisation, nothing held out; 160 000 steps: what the paper reports was reached after as
    many. Give it a `TimeLimit`, or a smaller `max_iter`.
    """
    return {
        "learning_rate": 1e-2,
        "max_iter": 160_000,
        "n_init": 1,
        "recognition": Recognition(head="absolute", hidden=(50, 50), dropout=0.0, input_dropout=0.0),
        "inference": Inference(e_step="free_inducing", atoms="per_time", expected_log_mixture=expected_log_mixture),
        "training": _plain_adam(),
        "search": Search(retries=0, moves=0),
    }


def paper_states() -> dict[str, Any]:
    """Peer supervision and RP-LDA as the paper has them: one random start and gradient steps, no way out of an optimum.

    For `RPCategorical` (with `recognition__tied=True`, by `set_params`), `RPLDA` and other estimators of states: a
    convolutional network with fifty units for images, all observations in every step, Adam at one rate, no
    regularisation. `RPLDA` has the closed-form E-step (A18) in any case.
    """
    return {
        "n_init": 1,
        "recognition": Recognition(hidden=(50,), dropout=0.0, input_dropout=0.0),
        "training": _plain_adam(),
        "search": Search(retries=0, moves=0),
    }


def _plain_adam() -> Training:
    """All data in a step, one rate; nothing clipped, decayed, held out or done after the last step."""
    return Training(
        batch_size=None,
        weight_decay=0.0,
        max_gradient_norm=None,
        validation_fraction=0.0,
        scheduler=one_rate,
        finish="none",
    )


def one_rate(optimiser: Optimizer) -> ConstantLR:
    """A scheduler that leaves the learning rate as it is."""
    return ConstantLR(optimiser, factor=1.0)
