"""The arguments that all estimators have, and those that many have."""

from collections.abc import Mapping
from typing import Any, ClassVar

from rpmodels.checks import ByFactor, Flag, Instance, Integer, Listed, Nothing
from rpmodels.estimators.arguments import Declared, GroupOf, argument
from rpmodels.estimators.engine import Engine
from rpmodels.estimators.groups import Groups, Inference, Recognition, Search, Training
from rpmodels.estimators.names import check, resolved
from rpmodels.estimators.networks import NETWORK
from rpmodels.learning import RULES
from rpmodels.observations import SAID_OF_FACTORS
from rpmodels.seeding import SEED

COLUMN = Integer() | Instance(str, called="a name")
COLUMNS = COLUMN | Instance(slice) | Listed(COLUMN | Flag())
"""What may say which columns of a table a factor has."""

SAID = "rp.Population(…), rp.Pinned(…) or rp.Generative(…)"

OF_STATES: Mapping[str, str] = dict.fromkeys(
    ("recognition.targets", "recognition.private", "recognition.precision", "recognition.covariance"),
    "its latents are states",
)
"""What estimators with discrete latents have no use for."""


class CommonArguments(Declared):
    """What every estimator can be told."""

    usual: ClassVar[Mapping[str, Any]] = {"training.max_gradient_norm": None, "search.retries": 0}

    network: Any = argument(
        NETWORK | ByFactor(NETWORK, "any of these"),
        "of every factor, (n, *event) → (n, raw numbers of the latent)",
        default="auto",
    )
    max_iter: int = argument(RULES["max_iter"], "gradient steps, those of lessons among them", default=1000)
    learning_rate: float = argument(
        RULES["learning_rate"], "of AdamW, dropped tenfold for the last steps", default=1e-3
    )
    n_init: int = argument(Integer(1), "starts, judged early by free energy", default=4)
    random_state: Any = argument(SEED, "the same number gives the same fit", default=None)
    verbose: int = argument(Integer(0) | Flag(), "1 for a progress bar", default=0)
    recognition: Recognition | None = argument(GroupOf(Recognition), "the networks and their output", default=None)
    training: Training | None = argument(GroupOf(Training), "how it is trained", default=None)
    search: Search | str | None = argument(GroupOf(Search), "how starts are compared", default=None)
    engine: Engine | None = argument(GroupOf(Engine), "where and how it is computed", default=None)

    def _chosen(self) -> Groups:
        """The groups as they are for this estimator. Every argument is checked here, so `fit` begins with it."""
        check(self)
        return Groups(**{"inference": Inference(), **resolved(self)})


class WithFactors(Declared):
    """What estimators of several factors can be told of tables."""

    factors: Mapping[str, Any] | None = argument(
        Nothing() | ByFactor(COLUMNS | Instance(*SAID_OF_FACTORS, called=SAID), f"columns or {SAID}"),
        "which columns belong to which factor, to split one array; which factors are populations; and which of labels "
        "have a known or a learned p(label | state)",
        default=None,
    )
