"""Scene-15: photographs of fifteen kinds of places, each seen as three sets of features, of which some may lack."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import checks
from rpmodels.datasets.fetch import LocalFile

SCENE_15 = LocalFile("multiview", "multiview_Scene-15.npz", "the repository XLearning-SCU/2021-CVPR-Completer")
VIEWS = ("v0", "v1", "v2")


@dataclass(frozen=True)
class Scenes:
    """Rows that are photographs."""

    views: dict[str, NDArray[np.float32]]
    """{view: (N, width)}; NaN in the rows that lack it. As estimators take it."""
    category: NDArray[np.int64]
    """(N,) 0 to 14."""

    def __len__(self) -> int:
        return len(self.category)


def load_scene15(missing: float = 0.0, random_state: int | None = 0) -> Scenes:
    """Scene-15: 4 485 photographs of fifteen categories in three views of 20, 59 and 40 features.

    From multiview/multiview_Scene-15.npz in RPMODELS_DATA.

    Args:
        missing: share of the rows that lack views, below 1: any of them but not all, each choice equally likely
        random_state: which rows and which views

    """
    share = checks.number("missing", missing, least=0.0, below=1.0)
    given = SCENE_15.arrays({**dict.fromkeys(VIEWS, 2), "y": 1})
    lacking = _lacking(len(given["y"]), share, np.random.default_rng(random_state))
    views = {
        name: np.where(lacking[:, j, None], np.float32(np.nan), given[name]).astype(np.float32)
        for j, name in enumerate(VIEWS)
    }
    return Scenes(views, np.unique(given["y"], return_inverse=True)[1].astype(np.int64))


def _lacking(count: int, share: float, random: np.random.Generator) -> NDArray[Any]:
    """(N, views), true where a row lacks one."""
    lacking = np.zeros((count, len(VIEWS)), bool)
    rows = random.permutation(count)[: round(share * count)]
    # The binary digits of 1 to 2^J − 2 are all choices but none and all.
    choices = random.integers(1, 2 ** len(VIEWS) - 1, len(rows))
    lacking[rows] = choices[:, None] >> np.arange(len(VIEWS)) & 1
    return lacking
