"""What a comparison puts beside states, coordinates and topics, and which of it was asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from sklearn.decomposition import PCA, FactorAnalysis

from rpmodels import errors
from rpmodels.estimators import Circle, Coordinates, LatentKind, Proportions, SeveralStates, States
from rpmodels.evaluation.clusterings import (
    CanonicalClusters,
    Clusters,
    GaussianHMM,
    MixtureOfComponents,
    Shares,
    WeightedClusters,
    WordsAndTopics,
)
from rpmodels.evaluation.methods import (
    SMOOTHING,
    ByBins,
    Canonical,
    ContrastOverTime,
    LinearGPFA,
    Method,
    Smoothed,
)


@dataclass(frozen=True)
class Rivals:
    """What a kind of latents is compared with."""

    always: tuple[Method, ...]
    over_time: tuple[Method, ...] = ()
    """Where trials have several bins."""
    between_factors: tuple[Callable[[Sequence[int]], Method], ...] = ()
    """Where there are two factors or more, from the channels of each."""
    of_sites: bool = False
    """Whether latents are states of single sites, so that the label of a trial is that of all its sites."""

    def methods(self, widths: Sequence[int], longest: int, names: Sequence[str] | None = None) -> list[Method]:
        """From the channels of the factors and the length of the longest trial: those of these names, or all."""
        between = [make(widths) for make in self.between_factors] if len(widths) > 1 else []
        every = [each for each in (*self.always, *(self.over_time if longest > 1 else ()), *between) if _there(each)]
        if names is None:
            return every
        _check(names, [each.name for each in every])
        return [each for each in every if each.name in names]

    def check(self, names: Sequence[str]) -> None:
        """Before any work: names that some data could have."""
        known = [*self.always, *self.over_time, *(make((1, 1)) for make in self.between_factors)]
        _check(names, [each.name for each in known])
        for each in known:
            if each.name in names and not _there(each):
                raise errors.needs_package(each.name, str(each.package), f"pip install {each.package}")


LINEAR = Rivals(
    (ByBins("PCA", PCA), ByBins("FA", FactorAnalysis)),
    (Smoothed("PCA, smoothed", PCA), Smoothed("FA, smoothed", FactorAnalysis), LinearGPFA(), ContrastOverTime()),
    (Canonical,),
)
RIVALS: dict[type[LatentKind], Rivals] = {
    Coordinates: LINEAR,
    Circle: LINEAR,
    SeveralStates: LINEAR,
    States: Rivals(
        (Clusters("k-means"), MixtureOfComponents()),
        (Clusters("k-means, smoothed", SMOOTHING), GaussianHMM()),
        (WeightedClusters, CanonicalClusters),
        of_sites=True,
    ),
    Proportions: Rivals((Shares(), WordsAndTopics())),
}


def rivals_of(latent: LatentKind) -> Rivals:
    """Of this kind of latents."""
    if type(latent) not in RIVALS:
        raise errors.no_rivals(type(latent).__name__)
    return RIVALS[type(latent)]


def _there(method: Method) -> bool:
    return method.package is None or find_spec(method.package) is not None


def _check(names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise errors.bad_choice("methods", known, name)
