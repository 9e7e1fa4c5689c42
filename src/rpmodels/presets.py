"""Named bundles of choices, to be handed to an estimator: `rp.RPGPFA(**rp.presets.paper())`.

What else belongs into one of their groups is changed afterwards: `.set_params(training__callbacks=[rp.TimeLimit(60)])`.
"""

from typing import Any

from rpmodels.estimators import Inference, Recognition, Search, Training


def paper(expected_log_mixture: str = "interior_free") -> dict[str, Any]:
    """RP-GPFA as the paper has it: a free q(U) per trial, absolute factors, one mixture per time, η̃ as parameters.

    `expected_log_mixture` may be "monte_carlo" (20 samples) or "second_order" instead, or "interior_thresholded": η̃ as
    parameters too, kept valid by soft-thresholding the eigenvalues of its precision, with one threshold for all atoms.
    Plain Adam, no regularisation, 160 000 steps: what the paper reports was reached after as many. Give it a
    `TimeLimit`, or a smaller `max_iter`.
    """
    return {
        "learning_rate": 1e-2,
        "max_iter": 160_000,
        "recognition": Recognition(head="absolute", dropout=0.0, input_dropout=0.0),
        "inference": Inference(e_step="free_inducing", atoms="per_time", expected_log_mixture=expected_log_mixture),
        "training": Training(weight_decay=0.0, max_gradient_norm=None),
        "search": Search(retries=0),
    }
