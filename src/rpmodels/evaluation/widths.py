"""Widths of posteriors that no data can tell (two factors, one site)."""

from typing import cast

import torch

from rpmodels import channels
from rpmodels.evaluation.findings import Finding
from rpmodels.families import Gaussian
from rpmodels.fitted import FittedRPM
from rpmodels.observations import Observations


def of_widths(rpm: FittedRPM, observations: Observations) -> list[Finding]:
    """Two factors at one site: how well each of them says a latent is known by its product alone."""
    if not isinstance(rpm.prior.family, Gaussian) or rpm.prior.couples_sites:
        return []
    if any(channels.is_population(rpm, name) for name in rpm.names):
        return []
    told = _reliabilities(rpm, observations)
    notes = []
    for k in range(rpm.prior.family.latents):
        both = [name for name in rpm.names if k in rpm.pattern.speaks_of(name)]
        if len(both) != 2:
            continue
        one, other = (told[name][k] for name in both)
        rho = one * other
        text = (
            f"latent {k}, of which '{both[0]}' and '{both[1]}' alone speak, at one site: data tell ρ = {rho:.2f}, the "
            "product of how well each says it (its correlation with the latent), and nothing of either by itself. The "
            f"fit says {one:.2f} and {other:.2f}; each may be anything from {rho:.2f} to 1, and the width of intervals "
            "with it. By convention a fit shares ρ out about evenly. A third factor, or time, would tell."
        )
        notes.append(Finding("width not identified", text))
    return notes


def _reliabilities(rpm: FittedRPM, observations: Observations) -> dict[str, dict[int, float]]:
    """{factor: {latent: √ of the share of the prior's variance that the factor alone takes away}}."""
    prior_family = rpm.prior.family
    assert isinstance(prior_family, Gaussian)
    before = prior_family.covariance(rpm.prior.reference(observations.sites(rpm.device), shared=True)[:1]).detach()
    found: dict[str, dict[int, float]] = {}
    for name in rpm.names:
        family, latents = cast(Gaussian, rpm.recogniser(name).family), rpm.pattern.speaks_of(name)
        parts = [
            family.covariance(eta).diagonal(dim1=-2, dim2=-1).flatten(0, 1) for eta in rpm.recognise(observations, name)
        ]
        left = torch.cat(parts).mean(0) / before[0].diagonal()[list(latents)]
        kept = (1.0 - left).clamp(0.0, 1.0).sqrt().tolist()
        found[name] = dict(zip(latents, kept, strict=True))
    return found
