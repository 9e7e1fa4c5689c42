"""p₀ as a kernel density: every observation with a normal around it, narrower the more observations there are."""

from collections.abc import Iterable, Iterator

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from rpmodels import checks, errors, linalg
from rpmodels.carriers import Batch
from rpmodels.mixtures.densities import quasi_random
from rpmodels.mixtures.densities.marginals import LARGEST, Density, Drawn, Marginal
from rpmodels.mixtures.densities.rows import Moments, moments, spread_out
from rpmodels.observations import FactorSpec, Observations

PILOT = 256
"""Rows of the pilot density, of which no more than the square root is wanted."""
MANY = 2**16
"""Rows that the mean of its logarithm is taken over."""
NUMBERS = 2**22
"""Of rows that are moved at once."""
PAIRS = 2**22
"""Pairs of rows whose distances are held at once."""
FLATTEST = 1e-6
"""Variance, over the largest, that directions have at least where distances are measured."""


class KernelDensity(Marginal):
    """Normals around the observations, N(x_n, (h λ_n)² S), S the covariance of all N of them, rows of d numbers.

    h = N^(−1/(d+4)) (Scott's rule, N the number that the weights amount to), so that p₀ tends to the true marginal as N
    grows. λ_n = (p̃(x_n)/G)^(−½) (Abramson's rule) with a pilot density p̃, a kernel density of fixed width over some of
    the rows, and G its geometric mean over all of them: wide where there is little, narrow where there is much. Both
    are those of all the data, in every batch. Outside of training an observation always has the same draw, by the Sobol
    point of its number.

    Args:
        bandwidth: h, in sds; default by N
        adaptive: whether λ is Abramson's, else 1
        draws: atoms for every observation

    """

    def __init__(self, bandwidth: float | None = None, *, adaptive: bool = True, draws: int = 1) -> None:
        self.bandwidth = None if bandwidth is None else checks.number("bandwidth", bandwidth, above=0.0)
        self.adaptive = adaptive
        self.draws = checks.integer("draws", draws, 1)

    def check(self, name: str, spec: FactorSpec, kind: str, population: bool) -> None:
        """Vectors of floating-point numbers, as many as Sobol points have."""
        super().check(name, spec, kind, population)
        if kind != "f" or spec.is_label:
            raise errors.needs_numbers(name)
        size = int(torch.Size(spec.event_shape).numel())
        if size > quasi_random.LARGEST:
            raise errors.density_too_large(name, size, quasi_random.LARGEST)

    def of(self, name: str, observations: Observations, per_site: bool) -> "KernelDensityOf":
        """By the covariance and the number of all rows."""
        found = moments(observations, name, per_site, LARGEST)
        width = found.count.clamp_min(1.0) ** (-1.0 / (found.mean.shape[1] + 4))
        if self.bandwidth is not None:
            width = torch.full_like(width, self.bandwidth)
        space = _Space(found)
        pilot = Pilot(space, *spread_out(observations, name, per_site, PILOT)) if self.adaptive else None
        if pilot is not None:
            pilot.settle(*spread_out(observations, name, per_site, MANY))
        return KernelDensityOf(name, space, width, pilot, self.draws, observations.n_sites)


class _Space:
    """Where rows have covariance I: there and back."""

    def __init__(self, found: Moments) -> None:
        self.sites, self.size = found.mean.shape
        self._mean = found.mean[:, None]
        self._whole = found.covariance.ndim == 3
        if self._whole:
            values, self._axes = linalg.spectrum(found.covariance)
        else:
            values = found.covariance
        self._sd = values.clamp_min(0.0).sqrt()
        tiny = torch.finfo(values.dtype).tiny
        self._measured = torch.maximum(values, FLATTEST * values.amax(1, keepdim=True)).clamp_min(tiny).sqrt()

    def white(self, rows: Float[Tensor, "S n D"]) -> Float[Tensor, "S n D"]:
        """Rows of data, in sds from their mean."""
        off = rows - self._mean
        turned = off @ self._axes if self._whole else off
        return turned / self._measured[:, None]

    def coloured(self, noise: Float[Tensor, "S n D"]) -> Float[Tensor, "S n D"]:
        """Draws from N(0, I) with the covariance of the data."""
        spread = noise * self._sd[:, None]
        return spread @ self._axes.mT if self._whole else spread


class Pilot:
    """p̃ up to a constant: normals of one width around some rows, and in every place one of its own beside them.

    The own one is a floor: far from all other rows a width is large, and not without bound. Distances in sds, of which
    no more than the square root of a sum of exponentials is wanted, do in single precision.
    """

    def __init__(self, space: _Space, rows: Float[Tensor, "S P D"], weights: Float[Tensor, "S P"]) -> None:
        self._space = space
        share = weights / weights.sum(1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
        self._share = share[..., None].float()
        effective = 1.0 / share.square().sum(1).clamp_min(1.0 / max(1, weights.shape[1]))
        self._width = effective[:, None, None] ** (-1.0 / (space.size + 4))
        self._floor = (1.0 / effective)[:, None].float()
        self._places = (space.white(rows) / self._width).float()
        self._log_mean = torch.zeros(len(rows), 1)

    def log_density(self, rows: Float[Tensor, "S n D"]) -> Float[Tensor, "S n"]:
        """log p̃ + a constant."""
        size = max(1, PAIRS // self._places[..., 0].numel())
        return torch.cat([self._log_density(each) for each in torch.split(rows, size, 1)], 1)

    def _log_density(self, rows: Float[Tensor, "S n D"]) -> Float[Tensor, "S n"]:
        distances = torch.cdist((self._space.white(rows) / self._width).float(), self._places)
        near = distances.square_().mul_(-0.5).exp_() @ self._share
        return (near[..., 0] + self._floor).log()

    def settle(self, rows: Float[Tensor, "S n D"], weights: Float[Tensor, "S n"]) -> None:
        """log G, the mean of log p̃ over these rows."""
        total = weights.sum(1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
        self._log_mean = (weights * self.log_density(rows)).sum(1, keepdim=True) / total

    def widths(self, rows: Float[Tensor, "S n D"]) -> Float[Tensor, "S n"]:
        """λ of every row."""
        return (-0.5 * (self.log_density(rows) - self._log_mean)).exp()


class KernelDensityOf(Density):
    """The kernel density of a factor's data."""

    def __init__(
        self, name: str, space: _Space, width: Float[Tensor, "S"], pilot: Pilot | None, draws: int, longest: int
    ) -> None:
        self._name, self._space, self._width, self._pilot = name, space, width, pilot
        self._draws, self._longest = draws, longest

    def widths(self, rows: Float[Tensor, "S n D"]) -> Float[Tensor, "S n"]:
        """h λ of every row, in sds of all the data."""
        width = self._width[:, None].expand(rows.shape[:2])
        return width if self._pilot is None else width * self._pilot.widths(rows)

    def draws(self, batches: Iterable[Batch], sites: int, fresh: bool, device: torch.device) -> Iterator[Drawn]:
        """The observations of every batch, each moved by its kernel."""
        for batch in batches:
            size = max(1, NUMBERS // max(1, batch.inputs[self._name][0].numel()))
            for index in torch.split(torch.arange(batch.size), size):
                yield from self._around(batch, index.to(batch.index.device), fresh)

    def _around(self, batch: Batch, which: Int[Tensor, "n"], fresh: bool) -> Iterator[Drawn]:
        values, present = batch.inputs[self._name][which], batch.present[self._name][which]
        weights = batch.weights[which][:, None].expand(present.shape)
        rows = self._arranged(values)
        scale = self.widths(rows)[..., None]
        there = present.reshape(*present.shape, *[1] * (values.ndim - 2))
        for draw in range(self._draws):
            numbers = self._numbers(batch.index[which].cpu(), present.shape[1], draw)
            noise = quasi_random.normals(numbers.flatten(), rows.shape[-1], fresh)
            added = scale * self._space.coloured(self._arranged(noise.reshape(*numbers.shape, -1)))
            yield Drawn(torch.where(there, self._as_they_were(rows + added, values), values), present, weights)

    def _numbers(self, index: Int[Tensor, "N"], sites: int, draw: int) -> Int[Tensor, "N T"]:
        """Of their Sobol points, in every mixture from the first on."""
        each = index[:, None].expand(-1, sites)
        if self._space.sites == 1:
            each = each * self._longest + torch.arange(sites)
        return each * self._draws + draw

    def _arranged(self, values: Shaped[Tensor, "N T *event"]) -> Float[Tensor, "S n D"]:
        """Rows in double precision, sites apart where every site has its own density."""
        rows = values.cpu().double().reshape(*values.shape[:2], -1)
        if self._space.sites == 1:
            return rows.flatten(0, 1)[None]
        return nn.functional.pad(rows, (0, 0, 0, self._space.sites - rows.shape[1])).transpose(0, 1)

    def _as_they_were(self, rows: Float[Tensor, "S n D"], like: Shaped[Tensor, "N T *event"]) -> Tensor:
        if self._space.sites > 1:
            rows = rows.transpose(0, 1)[:, : like.shape[1]]
        return rows.reshape(like.shape).to(like)
