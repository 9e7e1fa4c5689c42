"""What a fitted model says about itself and about new data, in sentences."""

from typing import Any, cast

import torch
from torch import Tensor

from rpmodels import channels, generative
from rpmodels.estimators import RPMEstimator, plain_data
from rpmodels.estimators.fit import AT_CEILING, LEARNT_NOTHING
from rpmodels.evaluation.belonging import belonging
from rpmodels.evaluation.findings import Diagnosis, Finding
from rpmodels.evaluation.widths import of_widths
from rpmodels.families import FiniteSupport, Gaussian
from rpmodels.fitted import FittedRPM, Inferred
from rpmodels.free_energy import Score
from rpmodels.observations import Observations

DEAD = 0.95
"""Posterior over prior variance, on average, of a latent that no observation informs."""
FAR = 4.0
"""Times the prior's second moment: latents of data unlike those of the fit."""
SILENT = 0.01
"""Nats that a factor adds to its reference."""
ODD_MIXTURE = 0.5
"""KL(F_j‖p) in nats: in the model itself F_j is the prior."""
CLIPPED = 0.01
BEYOND_CHANCE = 1e-3
"""Probability of a difference between data and draws, all statistics counted."""
FAR_OFF = 0.25
"""Of the statistic's own scale: smaller differences are no news."""
COOL = 0.6
"""Temperature of populations below which halves of their channels disagree by more than the noise of the search."""
COARSE = 1e-3
"""Nats a site that a quadrature may be off by."""
RARE = 0.1
"""Of the share 1/K that a state has when all are used alike."""


def diagnose(model: RPMEstimator, X: Any, **options: Any) -> Diagnosis:
    """Look at a fitted model on data, new or those of the fit: dead latents, silent factors, misfit, data far away.

    Args:
        model: fitted
        X: as `score` takes it
        options: as in `score` (times, presence)

    """
    X, options = plain_data(model, X, options)
    observations = model.read(X, **options)
    rpm = model.model_
    batches = list(rpm.posterior(observations))
    sites = max(1.0, float(observations.exists.sum(1).mean()))
    found = [*_of_score(model.score_, sites), *_of_quadrature(model.score_, sites), *_of_scaling(rpm)]
    found += [*_of_mixtures(rpm), *_of_temperature(rpm)]
    for check in (_of_latents, _of_states, _of_factors):
        found += check(rpm, batches)
    found += [*_of_draws(rpm, observations), *belonging(model, X, **options)]
    notes = _to_know(rpm, observations)
    if model.symmetry_ is not None:
        notes.append(Finding("what is free", model.symmetry_.text))
    return Diagnosis(tuple(found), tuple(notes))


def _to_know(rpm: FittedRPM, observations: Observations) -> list[Finding]:
    notes = of_widths(rpm, observations)
    if rpm.profile is None:
        text = "this model has no profile of the data of its fit (its file is older): whether data belong is not known."
        notes.append(Finding("no profile", text))
    return notes


def _of_score(score: Score, sites: float) -> list[Finding]:
    if score < LEARNT_NOTHING * sites:
        return [Finding("learnt nothing", f"the training score is {float(score):.4f} nats above independence.")]
    if score > AT_CEILING * score.ceiling > 0:
        text = (
            f"the training score {float(score):.3f} is at its ceiling {score.ceiling:.3f}: other partitions do as well."
        )
        return [Finding("at the ceiling", text)]
    return []


def _of_quadrature(score: Score, sites: float) -> list[Finding]:
    """An integral by too few nodes."""
    if not score.quadrature_error > COARSE * sites:
        return []
    text = (
        f"the quadrature of ⟨log F⟩ is off by about {score.quadrature_error / sites:.1g} nats a site: take more nodes, "
        "as in inference.expected_log_mixture=rp.mixtures.GaussHermite(32), or a bound."
    )
    return [Finding("coarse quadrature", text)]


def _of_scaling(rpm: FittedRPM) -> list[Finding]:
    shares = {name: each.scaling.clipped / max(1, each.scaling.seen) for name, each in rpm.pattern.recognisers()}
    return [
        Finding("clipped", f"{share:.1%} of the training values of factor '{name}' were clipped: look for outliers.")
        for name, share in shares.items()
        if share > CLIPPED
    ]


def _of_temperature(rpm: FittedRPM) -> list[Finding]:
    if rpm.temperature >= COOL:
        return []
    text = (
        "halves of the channels of populations are further apart than they say, and are believed less (temperature "
        f"{rpm.temperature:.2f}): their tuning may be no function of one projection of the latents, or some of them "
        "share noise. Compare channels='together' and other numbers of latents by a reading of yours "
        "(evaluation.choose with y)."
    )
    return [Finding("halves disagree", text)]


def _of_draws(rpm: FittedRPM, observations: Observations) -> list[Finding]:
    """Statistics of the data that data drawn from the model do not have: the farthest of every kind."""
    checks = generative.predictive_checks(rpm, observations)
    odd = [each for each in checks if each.probability < BEYOND_CHANCE and each.share > FAR_OFF]
    kinds: dict[str, generative.Check] = {}
    for each in sorted(odd, key=lambda each: -each.share):
        kinds.setdefault(each.what.split()[1], each)
    return [
        Finding(
            "unlike its draws",
            f"{each.what} is {each.data:.3g} in these data and {each.draws:.3g} ± {each.sd:.2g} in data that the model "
            "draws, which is a difference beyond chance.",
        )
        for each in kinds.values()
    ]


def _of_latents(rpm: FittedRPM, batches: list[Inferred]) -> list[Finding]:
    """Latents that nothing informs, and latents far outside the prior."""
    family = rpm.prior.family
    if not isinstance(family, Gaussian):
        return []
    with torch.no_grad():
        rows = [_moments(rpm, family, each) for each in batches]
    mean, variance, before_mean, before = (torch.cat(each) for each in zip(*rows, strict=True))
    if not len(mean):
        return []
    ratio = (variance / before).mean(0)
    found = [
        Finding("dead latent", f"latent {k} keeps {share:.0%} of its prior variance: use fewer latents.")
        for k, share in enumerate(ratio.tolist())
        if share > DEAD
    ]
    second = ((mean - before_mean).square() / before).mean(0)
    found += [
        Finding(
            "far from the prior",
            f"the posterior means of latent {k} spread {times:.1f} times as much as the prior: "
            "these data are unlike those of the fit, or have outliers.",
        )
        for k, times in enumerate(second.tolist())
        if times > FAR
    ]
    return found


def _moments(rpm: FittedRPM, family: Gaussian, each: Inferred) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Means and variances a posteriori and a priori, one row for every site that exists."""
    exists = each.batch.sites.exists
    before = _mean_and_variance(family, rpm.prior.reference(each.batch.sites, rpm.pattern.atoms.shared))
    after = _mean_and_variance(family, each.posterior.eta)
    wide = (value.expand(*exists.shape, -1) for value in before)
    rows = [value[exists] for value in (*after, *wide)]
    return rows[0], rows[1], rows[2], rows[3]


def _mean_and_variance(family: Gaussian, eta: Tensor) -> tuple[Tensor, Tensor]:
    """Of every latent by itself."""
    return family.moments(eta)[0], family.covariance(eta).diagonal(dim1=-2, dim2=-1)


def _of_states(rpm: FittedRPM, batches: list[Inferred]) -> list[Finding]:
    family = rpm.prior.family
    if not isinstance(family, FiniteSupport):
        return []
    parts = [(family.log_probabilities(each.posterior.eta), each.batch.sites.exists) for each in batches]
    shares = torch.cat([each[exists].exp() for each, exists in parts])
    rare = (shares.mean(0) < RARE / family.n_states).nonzero()[:, 0].tolist()
    return (
        [Finding("empty states", f"states {rare} are hardly used: {family.n_states} may be too many.")] if rare else []
    )


def _of_factors(rpm: FittedRPM, batches: list[Inferred]) -> list[Finding]:
    """Factors that say nothing beyond their reference."""
    found = []
    for name, recogniser in rpm.pattern.recognisers():
        family = recogniser.family
        said = []
        for each in batches:
            reference = rpm.pattern.references(each.batch.sites)[name].detach()
            here = each.factors[name].present
            said.append(family.kl(reference + each.factors[name].g, reference).expand(here.shape)[here])
        told = torch.cat(said)
        if len(told) and float(told.mean()) < SILENT:
            text = (
                f"factor '{name}' says next to nothing ({float(told.mean()):.4f} nats): it shares nothing, or is noise."
            )
            found.append(Finding("silent factor", text))
    return found


def _of_mixtures(rpm: FittedRPM) -> list[Finding]:
    """F_j far from the prior: the model does not fit (in the model itself they are equal)."""
    known = [name for name in rpm.names if isinstance(rpm.recogniser(name).family, FiniteSupport | Gaussian)]
    found = []
    for name in known:
        if channels.is_population(rpm, name):
            whose, far = _of_channels(name, channels.distances(rpm, name))
        else:
            whose, far = f"factor '{name}'", mixture_distance(rpm, name)
        if far > ODD_MIXTURE:
            text = f"F of {whose} is {far:.2f} nats from the prior (see plots.mixture_against_prior)."
            found.append(Finding("misfit", text))
    return found


def _of_channels(name: str, far: Tensor) -> tuple[str, float]:
    """The channel that is farthest, and how many others are far."""
    others = int((far > ODD_MIXTURE).sum()) - 1
    more = f" (and of {others} more of {len(far)})" if others > 0 else ""
    return f"channel {int(far.argmax())} of factor '{name}'{more}", float(far.max())


def mixture_distance(rpm: FittedRPM, name: str) -> float:
    """KL(F_j‖p) averaged over sites; for continuous latents that of the normal with the moments of F_j."""
    atoms, family = rpm.atoms(name), rpm.recogniser(name).family
    eta = atoms.reference[:, None] + atoms.g
    weights = torch.softmax(atoms.log_count, -1)[..., None]
    if isinstance(family, FiniteSupport):
        share = (weights * family.log_probabilities(eta).exp()).sum(1)
        goal = family.log_probabilities(atoms.reference)
        return float((share * (share.clamp_min(1e-30).log() - goal)).sum(-1).mean())
    mean, variance = _mean_and_variance(cast(Gaussian, family), eta)
    centre, prior = _mean_and_variance(cast(Gaussian, family), atoms.reference)
    first = (weights * mean).sum(1)
    ratio = ((weights * (variance + mean.square())).sum(1) - first.square()).clamp_min(1e-12) / prior
    return float(0.5 * (ratio + (first - centre).square() / prior - 1.0 - ratio.log()).sum(-1).mean())
