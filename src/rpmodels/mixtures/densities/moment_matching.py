"""A distribution of torch from mean and variance: its parameters by Levenberg–Marquardt, all numbers at once."""

import inspect
from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Distribution, constraints, transform_to

from rpmodels import errors

Residuals = Callable[[Tensor], Tensor]

STEPS = 200
SMALLEST, LARGEST = 1e-12, 1e12
"""Damping."""
ENOUGH = 1e-8
"""Of the difference of moments, in sds and in logarithms of the variance."""


def parameters_of(family: type[Distribution]) -> dict[str, constraints.Constraint]:
    """Those that make one member, as its constructor calls them; of probabilities and their logits the first."""
    known = family.arg_constraints
    if not isinstance(known, Mapping):
        raise errors.not_matched_by_moments(family.__name__, "says nothing of its parameters (arg_constraints)")
    names = [name for name in inspect.signature(family).parameters if name in known]
    if "probs" in names and "logits" in names:
        names.remove("logits")
    if not 1 <= len(names) <= 2:
        raise errors.not_matched_by_moments(family.__name__, f"has the parameters {', '.join(names) or 'none'}")
    return {name: known[name] for name in names}


def matched(
    family: type[Distribution], mean: Float[Tensor, "S D"], variance: Float[Tensor, "S D"], factor: str
) -> Distribution:
    """The member with this mean, and where it has two parameters this variance."""
    known = parameters_of(family)
    count = len(known)
    shape = mean.shape
    mean, variance = mean.flatten(), variance.flatten()

    def member(raw: Tensor) -> Distribution:
        values = {name: transform_to(each)(raw[:, p]) for p, (name, each) in enumerate(known.items())}
        return family(**values, validate_args=False)

    # Of one parameter the variance is no matter: it is a unit, and may not be zero.
    variance = variance if count > 1 else torch.where(variance > 0, variance, 1.0)

    def off(raw: Tensor) -> Tensor:
        of = member(raw)
        apart = (of.mean - mean) / variance.sqrt()
        return torch.stack([apart, (of.variance / variance).log()], -1)[:, :count]

    raw, left = _solved(off, _start(known, mean, variance))
    # Where a place is that of a logarithm.
    again, other = _solved(off, _start(known, mean.abs().clamp_min(SMALLEST).log(), torch.ones_like(variance)))
    better = ~(left <= other)
    raw, left = torch.where(better[:, None], again, raw), torch.where(better, other, left)
    if not bool((left < ENOUGH).all()):
        worst = int(torch.nan_to_num(left, nan=torch.inf).argmax())
        told = f"has no member with the mean {float(mean[worst]):.4g} and the variance {float(variance[worst]):.4g}"
        raise errors.not_matched_by_moments(family.__name__, f"{told} (factor '{factor}')")
    values = {name: transform_to(each)(raw[:, p]).reshape(shape) for p, (name, each) in enumerate(known.items())}
    return family(**values, validate_args=False)


def _start(
    known: Mapping[str, constraints.Constraint], place: Float[Tensor, "n"], square: Float[Tensor, "n"]
) -> Float[Tensor, "n p"]:
    """Where the search begins: a location here, a positive number at this root, anything else in the middle."""
    parts = []
    for each in known.values():
        if each is constraints.real:
            parts.append(place)
        elif each in (constraints.positive, constraints.nonnegative):
            parts.append(0.5 * square.log())
        else:
            parts.append(torch.zeros_like(place))
    return torch.stack(parts, -1)


def _solved(off: Residuals, raw: Float[Tensor, "n p"]) -> tuple[Float[Tensor, "n p"], Float[Tensor, "n"]]:
    """Every row by itself: where the differences vanish, or are least; and how large they are there."""
    damping = torch.full((len(raw),), 1e-2, dtype=raw.dtype)
    value, slope = _with_slope(off, raw)
    for _ in range(STEPS):
        cost = value.square().sum(-1)
        if bool((cost.sqrt() < 0.01 * ENOUGH).all()):
            break
        candidate = raw - _step(slope.mT @ slope, (slope.mT @ value[..., None])[..., 0], damping)
        there, slope_there = _with_slope(off, candidate)
        better = there.square().sum(-1) < cost  # false where it is not a number
        raw = torch.where(better[:, None], candidate, raw)
        value = torch.where(better[:, None], there, value)
        slope = torch.where(better[:, None, None], slope_there, slope)
        damping = torch.where(better, 0.3 * damping, 5.0 * damping).clamp(SMALLEST, LARGEST)
    return raw, value.square().sum(-1).sqrt()


def _step(
    curvature: Float[Tensor, "n p p"], slope: Float[Tensor, "n p"], damping: Float[Tensor, "n"]
) -> Float[Tensor, "n p"]:
    """(C + damping diag C)⁻¹ slope, for one parameter or two."""
    diagonal = (1.0 + damping[:, None]) * curvature.diagonal(dim1=-2, dim2=-1).clamp_min(SMALLEST)
    if diagonal.shape[1] == 1:
        return slope / diagonal
    (a, b), c = diagonal.unbind(-1), curvature[:, 0, 1]
    by_a, by_b = b * slope[:, 0] - c * slope[:, 1], a * slope[:, 1] - c * slope[:, 0]
    return torch.stack([by_a, by_b], -1) / (a * b - c.square()).clamp_min(SMALLEST * a * b)[:, None]


def _with_slope(off: Residuals, raw: Float[Tensor, "n p"]) -> tuple[Float[Tensor, "n p"], Float[Tensor, "n p p"]]:
    with torch.enable_grad():
        leaf = raw.detach().requires_grad_()
        value = off(leaf)
        rows = [torch.autograd.grad(value[:, r].sum(), leaf, retain_graph=True)[0] for r in range(value.shape[1])]
    return value.detach(), torch.nan_to_num(torch.stack(rows, 1), nan=0.0, posinf=0.0, neginf=0.0)
