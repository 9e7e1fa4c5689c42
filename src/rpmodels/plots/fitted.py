"""Numbers that plots need of a fitted estimator, as numpy: marginals of its prior, its mixtures and its factors.

Everything is asked of the estimator that was handed in; nothing of the models is imported here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors

BLOCK = 10_000
"""Atoms whose densities are summed at once."""
FINEST = 5_000
"""Points of a grid, at most."""
POINTS = 720
"""Of a grid over a bounded space: two for every degree of a circle."""


@dataclass(frozen=True)
class Normals:
    """A mixture of normals in one dimension."""

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    weight: NDArray[np.float64]

    def density(self, grid: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_m w_m N(grid; mean_m, sd_m²)."""
        total = np.zeros(len(grid))
        for start in range(0, len(self.mean), BLOCK):
            m, s, w = (each[start : start + BLOCK] for each in (self.mean, self.sd, self.weight))
            total += np.exp(-0.5 * ((grid[:, None] - m) / s) ** 2) @ (w / (s * np.sqrt(2 * np.pi)))
        return total


@dataclass(frozen=True)
class Bounded:
    """A mixture of members (m, D) of a family whose latent lies in a bounded space: a circle."""

    family: Any
    eta: Any
    weight: NDArray[np.float64]

    def density(self, grid: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_m w_m p(grid; η_m)."""
        statistic = self.family.statistic(self.eta.new_tensor(grid))
        total = np.zeros(len(grid))
        for start in range(0, len(self.eta), BLOCK):
            members = self.eta[start : start + BLOCK, None]
            densities = _numpy(self.family.log_density(members, statistic).exp())
            total += self.weight[start : start + BLOCK] @ densities
        return total


def grid_over(*mixtures: Any) -> NDArray[np.float64]:
    """Points that leave out next to nothing of any mixture, and nothing between them of the narrowest normal."""
    if isinstance(mixtures[0], Bounded):
        return _numpy(mixtures[0].family.grid(POINTS)[0])
    low = min(float((each.mean - 5 * each.sd).min()) for each in mixtures)
    high = max(float((each.mean + 5 * each.sd).max()) for each in mixtures)
    narrowest = min(float(each.sd.min()) for each in mixtures)
    return np.linspace(low, high, int(np.clip(2 * (high - low) / narrowest, 400, FINEST)))


def is_discrete(model: Any, what: str) -> bool:
    """Whether latents have states, not coordinates or angles; `what` is drawn of no others."""
    latent = model.description.latent
    if not is_drawable(model):
        raise errors.not_drawn(what, type(latent).__name__)
    return bool(latent.finite)


def is_drawable(model: Any) -> bool:
    """Whether `is_discrete` has an answer."""
    latent = model.description.latent
    return bool(latent.finite or latent.linear or _is_bounded(model.model_.prior.family))


# ---- F_j and the prior -------------------------------------------------------------------------


def mixture_density(model: Any, factor: str, latent: int, site: int | None) -> Normals | Bounded:
    """F_j marginalised to one latent, at one site or averaged over all."""
    eta, weight = _atoms(model, factor, site)
    family = model.model_.atoms(factor).family
    return marginal(family, eta, weight, position(model, factor, latent))


@dataclass(frozen=True)
class AlongChannel:
    """F_c and the prior, along the projection of one channel of a population."""

    channel: int
    mixture: Normals
    prior: Normals


def populations(model: Any) -> list[str]:
    """Factors whose channels are recognised one by one."""
    return [name for name in model.model_.names if model.model_.recogniser(name).curves() is not None]


def along_channel(model: Any, factor: str, channel: int | None, site: int | None) -> AlongChannel | None:
    """Of this channel, else of the one that is farthest from the prior; None where a factor is no population."""
    fitted = model.model_
    if fitted.recogniser(factor).curves() is None:
        if channel is not None:
            raise errors.bad_value("channel", f"None, as factor '{factor}' is no population", channel)
        return None
    if site is not None:
        _check_site(model, site)
    population = fitted.summary(factor)
    far = _numpy(population.distances())
    chosen = int(far.argmax()) if channel is None else channel
    if not 0 <= chosen < len(far):
        raise errors.bad_value("channel", f"None, or one from 0 to {len(far) - 1}", channel)
    mean, variance, share = (_numpy(each) for each in population.members())
    centre, spread = (_numpy(each)[:, chosen] for each in population.before())
    rows = slice(None) if site is None or len(mean) == 1 else slice(site, site + 1)
    m, v = mean[rows, chosen], variance[rows, chosen]
    weight = np.broadcast_to(share[chosen] / len(m), m.shape)
    have = weight > 0
    prior = Normals(centre[rows], np.sqrt(spread[rows]), np.full(len(m), 1 / len(m)))
    return AlongChannel(chosen, Normals(m[have], np.sqrt(v[have]), weight[have]), prior)


def mixture_of_states(model: Any, factor: str, site: int | None) -> NDArray[np.float64]:
    """F_j(k)."""
    eta, weight = _atoms(model, factor, site)
    return np.asarray(weight @ _numpy(model.model_.atoms(factor).family.mean(eta)))


def prior_density(model: Any, latent: int, site: int | None) -> Normals | Bounded:
    """The prior's marginal of one latent, at one site or averaged over those of the longest training trial."""
    fitted = model.model_
    eta = fitted.prior.reference(_sites(model), False)
    eta = eta if site is None or len(eta) == 1 else eta[site : site + 1]
    return marginal(fitted.prior.family, eta, np.full(len(eta), 1 / len(eta)), latent)


def prior_states(model: Any) -> NDArray[np.float64]:
    """π: as the estimator tells it, else by conditioning the prior on nothing, averaged over sites."""
    if hasattr(model, "prior_"):
        return np.asarray(model.prior_, np.float64)
    prior, sites = model.model_.prior, _sites(model)
    nothing = 0.0 * prior.reference(sites, False).expand(1, sites.exists.shape[1], -1)
    return np.asarray(_numpy(prior.family.mean(prior.condition(nothing, sites).eta))[0].mean(0))


def position(model: Any, factor: str, latent: int) -> int:
    """Where a latent stands among those that a factor speaks of."""
    targets = model.model_.pattern.targets.get(factor, tuple(range(getattr(model.model_.prior.family, "latents", 1))))
    if latent not in targets:
        raise errors.bad_value("latent", f"one of those that factor '{factor}' speaks of, {tuple(targets)}", latent)
    return int(targets.index(latent))


def _atoms(model: Any, factor: str, site: int | None) -> tuple[Any, NDArray[np.float64]]:
    """Natural parameters of the atoms that have any weight, and weights that sum to one."""
    atoms = model.model_.atoms(factor)
    log_count = _numpy(atoms.log_count)  # (S, A), S = 1 when one mixture serves all sites
    if site is not None:
        _check_site(model, site)
    rows = [0 if len(log_count) == 1 else site] if site is not None else list(range(len(log_count)))
    count = np.exp(log_count[rows])
    have = count.sum(1) > 0
    if not have.any():
        raise errors.bad_value("site", f"one where training saw factor '{factor}'", site)
    weight = count[have] / count[have].sum(1, keepdims=True) / have.sum()
    eta = (atoms.reference[:, None] + atoms.g)[np.array(rows)[have].tolist()]
    return eta[weight > 0], weight[weight > 0]


def _check_site(model: Any, site: int) -> None:
    sites = len(model.model_.times)
    if not 0 <= site < sites:
        raise errors.bad_value("site", f"None, or one from 0 to {sites - 1}", site)


def _sites(model: Any) -> Any:
    """The sites of the longest training trial, by way of an observation that is read only for where it is."""
    fitted, description = model.model_, model.description
    times = fitted.times[None]
    name, spec = next(iter(fitted.specs.items()))
    blank: Any = 0.0 if spec.vocabulary is None else spec.vocabulary[0]
    trial = np.full((times.shape[1], *spec.event_shape), blank)
    values = [trial] if description.in_trials else trial
    beside = {"times": list(times)} if description.takes_times else {}
    return model.read(values if description.one_factor else {name: values}, **beside).sites(fitted.device)


# ---- one observation ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What every factor says of one observation, and what they say together: (T, D) natural parameters each."""

    times: NDArray[np.float64]
    factors: dict[str, Any]
    """Only those that are present somewhere."""
    present: dict[str, NDArray[np.bool_]]
    posterior: Any


def one_observation(model: Any, X: Any, observation: int, options: dict[str, Any]) -> Seen:
    """Read the data, and infer one of them."""
    fitted = model.model_
    every = model.read(X, **options)
    if not 0 <= observation < len(every):
        raise errors.bad_value("observation", f"one from 0 to {len(every) - 1}", observation)
    one = every.subset(np.array([observation]))
    (inferred,) = fitted.posterior(one)
    references = fitted.pattern.references(inferred.batch.sites)
    exists = inferred.batch.sites.exists[0]
    present = {name: each.present[0][exists].cpu().numpy() for name, each in inferred.factors.items()}
    present = {name: have for name, have in present.items() if have.any()}
    factors = {name: (references[name] + inferred.factors[name].g[0])[exists] for name in present}
    times = _numpy(inferred.batch.sites.times[0][exists])
    return Seen(times, factors, present, _without_age(model, inferred.posterior.eta[0][exists]))


def _without_age(model: Any, eta: Any) -> Any:
    """Of a state that has an age: it is the state that the user is told of."""
    family = model.model_.prior.family
    several = model.description.latent.finite and hasattr(family, "targets")
    return family.targets([0])[1].natural(eta) if several else eta


def moments(family: Any, eta: Any, latent: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and sd of one latent."""
    mean = _numpy(family.moments(eta)[0])[..., latent]
    covariance = _numpy(family.covariance(eta))
    return mean, np.sqrt(covariance[..., latent, latent])


def marginal(family: Any, eta: Any, weight: NDArray[np.float64], latent: int) -> Normals | Bounded:
    """A mixture of these members, of one latent."""
    if _is_bounded(family):
        return Bounded(family, eta, weight)
    mean, sd = moments(family, eta, latent)
    return Normals(mean, sd, weight)


def _is_bounded(family: Any) -> bool:
    """Whether a grid covers all that a latent can be (`HasGrid`)."""
    return hasattr(family, "grid")


def _numpy(tensor: Any) -> NDArray[np.float64]:
    return np.asarray(tensor.detach().double().cpu().numpy())
