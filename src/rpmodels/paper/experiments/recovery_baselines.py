"""The baselines of table 2 on the balls: the sparse GP-VAE with one and more latents, and linear GPFA beside them.

Their −F (for GPFA −log p, which is its free energy) is the cost of *all* of x under a density, that of an RPM the
cost relative to the atoms: the two are not comparable, and a collapsed RPM (F = 0 above independence) would win such a
comparison. Only nMSE compares the models; −F stands beside the paper's numbers of the same model.
"""

import time
from collections.abc import Mapping

from rpmodels import metrics
from rpmodels.baselines import GPFA
from rpmodels.datasets import Series
from rpmodels.paper.baselines import SparseGPVAE
from rpmodels.paper.experiments import recovery
from rpmodels.paper.experiments.experiment import Outcome, Row

LATENTS = {f"sGP-VAE-{latents}D": latents for latents in (1, 2, 3)}


def rows(most: int) -> list[Row]:
    """GP-VAEs and linear GPFA with one latent up to so many; with one, GPFA needs no condition."""
    vaes = [Row(model) for model, latents in LATENTS.items() if latents <= most]
    return [*vaes, Row("GPFA"), *(Row("GPFA", condition=f"K={latents}") for latents in range(2, most + 1))]


def recovered(row: Row, series: Series, n_training: int, n_inducing: int, seed: int) -> Outcome:
    """Fit on the first trials; recovery there and on the others, the truth regressed on all latents."""
    if row.model in LATENTS:
        model = SparseGPVAE(LATENTS[row.model], n_inducing=n_inducing, random_state=seed)
        found = recovery.fitted(model, series, n_training)
        return Outcome({**found.metrics, "free_energy_paper": -model.score_ * n_training}, found.extras)
    return _linear(int(row.condition.removeprefix("K=") or 1), series, n_training, seed)


def _linear(latents: int, series: Series, n_training: int, seed: int) -> Outcome:
    x, z = series.x[:n_training], series.z[:n_training]
    begun = time.monotonic()
    model = GPFA(latents, random_state=seed).fit(x)
    seconds = time.monotonic() - begun
    mean, new = model.transform(x), model.transform(series.x[n_training:])
    return Outcome(
        {
            "nmse": metrics.nmse(mean, z),
            "nmse_heldout": metrics.nmse(new, series.z[n_training:], mean, z),
            "free_energy_paper": -model.score(x) * x.shape[0] * x.shape[1],
            "steps": float(len(model.log_likelihoods_)),
            "fit_seconds": seconds,
        },
        {"time_scales": model.time_scales_.round(3).tolist()},
    )


def paper(energy: tuple[str, str], nmse: tuple[str, str]) -> Mapping[tuple[str, str], str]:
    """Table 2, one and two latents."""
    found: dict[tuple[str, str], str] = {}
    for model, cost, error in zip(list(LATENTS)[:2], energy, nmse, strict=True):
        found |= {(model, "free_energy_paper"): cost, (model, "nmse"): error}
    return found
