"""RPFA: continuous latents behind several observations, one site each (RP-FA)."""

from collections.abc import Mapping, Sequence
from typing import Any

from rpmodels.estimators import tables
from rpmodels.estimators.continuous import ContinuousEstimator
from rpmodels.estimators.layout import Layout, Rows
from rpmodels.families import Family
from rpmodels.learning import AsGiven, RandomStart, Start, Training
from rpmodels.mixtures import AtomPolicy, PerSite
from rpmodels.observations import Observations, adapters, read
from rpmodels.priors import GaussianPrior, Prior

INTERVAL = 0.1
"""Share of max_iter between two halvings of the starts."""


class RPFA(ContinuousEstimator):
    """Recognition-parametrised factor analysis: z ~ N(0, I) in K dimensions, a factor for every kind of observation.

    Args:
        n_latents: K
        expected_log_mixture: how ⟨log F⟩ is computed: "interior" (closed form), "interior_optimal", "interior_free",
            "second_order", "monte_carlo", "quadrature" (K ≤ 3), or an `ExpectedLogMixture`
        e_step: "amortised", "natural_gradient", "free", or an `EStep`
        covariance: of every factor, "diagonal" or "full"
        precision: of every factor from its "network", or "constant"
        targets: {factor: the latents it speaks of}; the others all
        learned_prior: mean and (co)variance of the prior learned instead of N(0, I)
        marginal: behind F_j: "empirical", "kernel_density", "gaussian"
        network, tied, factors, head, scaling: as in `RPCategorical`
        max_iter, tol, learning_rate, batch_size, n_init, warm_start, n_jobs, random_state: as in `RPCategorical`
        device, dtype, verbose: as in `RPCategorical`
        weight_decay, dropout, input_dropout, validation_fraction, patience: as in `RPCategorical`
        max_gradient_norm, optimiser, scheduler, callbacks, engine: as in `RPCategorical`
        retries: how often a collapsed fit (score about 0) is tried again from other starts
        alternate: with a free E-step, train the trials' own parameters and all others by turns of so many steps

    Attributes:
        model_, history_, restarts_, score_, clipped_, n_iter_, stop_reason_, validation_curve_: as in `RPCategorical`

    """

    learned_prior: bool

    def __init__(
        self,
        n_latents: int = 2,
        *,
        expected_log_mixture: Any = "interior",
        e_step: Any = "amortised",
        covariance: str = "diagonal",
        precision: str = "network",
        targets: Mapping[str, Sequence[int]] | None = None,
        learned_prior: bool = False,
        marginal: Any = "empirical",
        network: Any = "auto",
        tied: bool = False,
        factors: Mapping[str, Any] | None = None,
        head: str = "relative",
        scaling: str | Mapping[str, str] = "auto",
        max_iter: int = 1000,
        tol: float | None = None,
        learning_rate: float = 5e-3,
        batch_size: int | str | None = 500,
        n_init: int = 3,
        warm_start: bool = False,
        retries: int = 3,
        n_jobs: int | None = None,
        random_state: int | None = None,
        device: str = "auto",
        dtype: str = "float32",
        verbose: int = 0,
        weight_decay: float | str = "auto",
        dropout: float | str = "auto",
        input_dropout: float | str = "auto",
        validation_fraction: float = 0.0,
        patience: int = 200,
        max_gradient_norm: float | None = 1.0,
        alternate: int | None = None,
        optimiser: Any = None,
        scheduler: Any = None,
        callbacks: Sequence[Any] | None = None,
        engine: Mapping[str, Any] | None = None,
    ) -> None:
        self._remember(locals())

    def _prior(self, family: Family, observations: Observations) -> Prior:
        return GaussianPrior(family, self.learned_prior)

    def _atoms(self, observations: Observations) -> AtomPolicy:
        return PerSite()

    def _read(self, X: Any, **options: Any) -> tuple[Observations, Layout]:
        X, _ = adapters.to_trials(X, series=False)
        factors = None if isinstance(X, Mapping) else tables.columns(self)
        return read(tables.checked(self, X, reset=False), factors=factors, **options), Rows()

    def _starts(self) -> Sequence[Start]:
        return [AsGiven(), *[RandomStart() for _ in range(self.n_init - 1)]]

    def _interval(self, training: Training) -> int:
        return max(1, round(INTERVAL * training.max_iter))
