"""RP-LDA: textures of mosaics, where the truth is known, and of natural photographs (the paper's figures)."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from rpmodels import RPLDA, datasets, metrics
from rpmodels.observations import cut_patches
from rpmodels.paper.experiments.experiment import Experiment, Outcome, Row
from rpmodels.paper.experiments.figures import save

PATCH = 28
SHOWN = 5


@dataclass(frozen=True)
class Settings:
    """Mosaics or photographs, K, α, and how long to learn."""

    mosaics: bool = False
    n_images: int = 100
    n_topics: int = 10
    alpha: float = 0.1
    max_iter: int = 4000
    n_init: int = 4
    atoms: tuple[str, ...] = ("pooled", "per_position")


class TextureTopics(Experiment):
    """RP-LDA with atoms pooled over positions, and with a mixture at every position."""

    name = "lda"
    summary = "textures of image patches"
    presets: Mapping[str, Any] = {
        "quick": Settings(True, 100, 3, 0.5, 800, 2, ("pooled",)),
        "mosaics": Settings(True, 100, 3, 0.5, 800, 4),
        "paper": Settings(),
    }
    default_seeds: Mapping[str, int] = {"quick": 1, "mosaics": 3, "paper": 2}

    def rows(self, settings: Any) -> Sequence[Row]:
        """One for every kind of atoms."""
        return [Row("RP-LDA", condition=f"atoms={each}") for each in settings.atoms]

    def paper(self, settings: Any) -> Mapping[tuple[str, str], str]:
        """Pictures only."""
        return {}

    def run(self, row: Row, settings: Any, seed: int) -> Outcome:
        """One fit; photographs are the same for every seed, so seeds are restarts that should agree."""
        begun = time.perf_counter()
        model = RPLDA(
            settings.n_topics,
            alpha=settings.alpha,
            patch_size=PATCH,
            atoms=row.condition.removeprefix("atoms="),
            max_iter=settings.max_iter,
            n_init=settings.n_init,
            random_state=seed,
        )
        mosaics = datasets.texture_mosaics(n_images=settings.n_images, random_state=seed) if settings.mosaics else None
        images = datasets.load_van_hateren()[: settings.n_images] if mosaics is None else mosaics.images
        model.fit(images)
        seconds = time.perf_counter() - begun
        topics, proportions = model.predict(images), model.transform(images)
        numbers = {
            "smallest_topic": float(proportions.mean(0).min()),
            "score_nats": float(model.score_),
            "seconds": seconds,
        }
        if mosaics is not None:
            match = metrics.match_states(mosaics.labels.ravel(), topics.ravel(), settings.n_topics)
            ordered = np.empty_like(proportions)
            ordered[:, match] = proportions
            numbers |= {
                "accuracy": float((match[topics] == mosaics.labels).mean()),
                "omega_mae": float(np.abs(ordered - mosaics.proportions).mean()),
            }
        return Outcome(numbers, _shown(model, images, topics, proportions))

    def figures(self, outcomes: Mapping[Row, Sequence[Outcome]], settings: Any, folder: Path) -> None:
        """The paper's: an image in patches, representative patches, typical images, a mixed image."""
        row, first = next((row, each[0].extras) for row, each in outcomes.items())
        _representatives(first, folder / "representative-patches")
        _typical(first, folder / "typical-images")
        _mixed(first, folder / "one-image")
        agreement = [
            adjusted_rand_score(np.ravel(a.extras["topics"]), np.ravel(b.extras["topics"]))
            for number, a in enumerate(outcomes[row])
            for b in outcomes[row][:number]
        ]
        if agreement and not settings.mosaics:
            (folder / "agreement.txt").write_text(f"adjusted Rand index of restarts: {agreement}\n")


def _shown(model: RPLDA, images: Any, topics: NDArray[Any], proportions: NDArray[Any]) -> dict[str, Any]:
    """Small pictures, in bytes."""
    best = model.representative_patches(images, SHOWN)
    patches = np.stack([cut_patches(image, PATCH) for image in images])
    chosen = patches[best.image, best.patch]
    entropy = -(proportions * np.log(np.maximum(proportions, 1e-12))).sum(1)
    typical = [np.argsort(-proportions[:, k], kind="stable")[:3].tolist() for k in range(model.n_topics)]
    mixed = int(np.argsort(-entropy)[len(entropy) // 10])
    small = {number: _bytes(images[number][::2, ::2]) for number in {mixed, *np.ravel(typical[:5]).tolist()}}
    return {
        "topics": topics.tolist(),
        "patches": _bytes(chosen),
        "typical": typical,
        "images": {str(number): each for number, each in small.items()},
        "mixed": mixed,
        "mixed_proportions": proportions[mixed].round(4).tolist(),
    }


def _bytes(pixels: NDArray[Any]) -> list[Any]:
    low, high = np.percentile(pixels, [1, 99])
    scaled: list[Any] = np.clip(255 * (pixels - low) / max(high - low, 1e-9), 0, 255).astype(np.uint8).tolist()
    return scaled


def _representatives(shown: Mapping[str, Any], stem: Path) -> None:
    patches = np.array(shown["patches"])
    topics, count = patches.shape[:2]
    size = (0.9 * count, 0.9 * topics + 0.3)
    figure, axes = plt.subplots(topics, count, figsize=size, squeeze=False, layout="constrained")
    for ax, patch in zip(axes.flat, patches.reshape(-1, PATCH, PATCH), strict=True):
        ax.imshow(patch, cmap="gray", vmin=0, vmax=255)
        ax.set_xticks([])
        ax.set_yticks([])
    for k, ax in enumerate(axes[:, 0]):
        ax.set_ylabel(str(k), rotation=0, ha="right", va="center")
    figure.suptitle("five most representative patches of every texture", fontsize="small")
    save(figure, stem)


def _typical(shown: Mapping[str, Any], stem: Path) -> None:
    typical = shown["typical"][:5]
    figure, axes = plt.subplots(len(typical), 3, figsize=(4.6, 1.5 * len(typical)), squeeze=False, layout="constrained")
    for k, images in enumerate(typical):
        for ax, number in zip(axes[k], images, strict=True):
            ax.imshow(np.array(shown["images"][str(number)]), cmap="gray")
            ax.set_xticks([])
            ax.set_yticks([])
        axes[k, 0].set_ylabel(f"texture {k}", fontsize="small")
    save(figure, stem)


def _mixed(shown: Mapping[str, Any], stem: Path) -> None:
    picture = np.array(shown["images"][str(shown["mixed"])])
    topics = np.array(shown["topics"][shown["mixed"]])
    side = round(len(topics) ** 0.5)
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 3), layout="constrained")
    axes[0].imshow(picture, cmap="gray")
    for each in np.arange(1, side) * picture.shape[0] / side - 0.5:
        axes[0].axhline(each, color="w", lw=0.4)
        axes[0].axvline(each, color="w", lw=0.4)
    axes[1].imshow(topics.reshape(side, side), cmap="tab10", vmin=0, vmax=9)
    colours = [plt.get_cmap("tab10")(k % 10) for k in range(len(shown["mixed_proportions"]))]
    axes[2].bar(range(len(colours)), shown["mixed_proportions"], color=colours)
    axes[2].set_xticks(range(len(shown["mixed_proportions"])))
    for ax, title in zip(
        axes, ("an image in patches", "texture of every patch", "its texture distribution"), strict=True
    ):
        ax.set_title(title, fontsize="medium")
    for ax in axes[:2]:
        ax.set_xticks([])
        ax.set_yticks([])
    save(figure, stem)


EXPERIMENT = TextureTopics()
