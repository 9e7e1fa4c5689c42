"""The page of `make demo`: four fits made while you wait, each with its picture, its number and its code."""

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from rpmodels import metrics, plots
from rpmodels.errors import MissingPackageError
from rpmodels.report import examples, html, widgets
from rpmodels.report.page import check_free
from rpmodels.versions import versions
from rpmodels.writing import write_text


@dataclass(frozen=True)
class Example:
    """One section: what it is about, its code, and how its result is shown."""

    title: str
    story: str
    run: Callable[[], Any]
    show: Callable[..., tuple[dict[str, object], list[str]]]
    """Result → numbers, and HTML."""


def build_demo(out: Path, force: bool = False, say: Callable[[str], None] = print) -> Path:
    """Run all examples and write the page; never replaces a file unless told to."""
    check_free(out, force)
    sections = []
    for example in EXAMPLES:
        say(f"{example.title} …")
        sections.append(_section(example))
    lead = html.paragraph(
        "Recognition-parametrised models learn what makes several observations depend on each other. Every picture and "
        "number on this page was made a moment ago, on this machine, by the code beside it."
    )
    found = ", ".join(f"{name} {version}" for name, version in versions().items())
    write_text(
        out, html.document("rpmodels: the demo", lead, *sections, html.section("Versions", html.paragraph(found)))
    )
    return out


def _section(example: Example) -> str:
    begun = time.perf_counter()
    try:
        result = example.run()
    except MissingPackageError as missing:
        return html.section(example.title, html.paragraph(example.story), html.paragraph(str(missing)))
    seconds = time.perf_counter() - begun
    numbers, parts = example.show(*result)
    shown = html.facts({**numbers, "time": f"{seconds:.0f} s"})
    code = html.code(examples.source(example.run), "The code that made this")
    return html.section(example.title, html.paragraph(example.story), shown, *parts, code)


def _digits(images: Any, pairs: Any, model: Any, states: NDArray[Any]) -> tuple[dict[str, object], list[str]]:
    matching = metrics.match_states(images.train_labels, model.predict({"x1": images.train_images}), 10)
    accuracy = float((matching[states] == images.test_labels).mean())
    confusion = metrics.confusion(images.test_labels, matching[states], 10)
    parts = [
        html.picture(
            _pairs(pairs), "Six pairs of small images of hand-written digits", "What the model saw: pairs, no labels."
        ),
        html.picture(
            plots.confusion_matrix(confusion),
            "Confusion matrix: nearly all test images of a digit are in one state",
            "Test images, one at a time: states of the latent against the digits nobody told it.",
        ),
        html.picture(
            plots.learning_curve(model.history_, model.score_.ceiling), "Free energy and its terms against the step"
        ),
    ]
    score = f"{float(model.score_):.2f} of {model.score_.ceiling:.2f} nats"
    return {"accuracy, test": f"{accuracy:.3f}", "the paper (MNIST)": "0.87 ± 0.09", "score, ceiling": score}, parts


def _pairs(pairs: Any) -> Any:
    _, grid = plt.subplots(2, 6, figsize=(5.4, 1.9), layout="constrained")
    for column, axes in enumerate(grid.T):
        for cell, name in zip(axes, ("x1", "x2"), strict=True):
            cell.imshow(pairs[name][100 * column], cmap="gray_r")
            cell.set(xticks=[], yticks=[])
    return grid[0, 0]


def _ball(data: Any, model: Any, known: NDArray[Any], posterior: Any) -> tuple[dict[str, object], list[str]]:
    truth = data.z[40:]
    line = metrics.linear_map(known, data.z[:40])
    mean, variance = metrics.aligned(posterior.mean, posterior.covariance, *line)
    covered = metrics.coverage(mean, variance, truth)
    alone, spread = metrics.aligned(*_recognised(model, data.x[40:41], "x"), *line)
    strip = widgets.Strip("the ten pixels now: the ball is in their texture, not in their mean or variance", data.x[40])
    shown = widgets.scrub(
        "The ball's path in a new trial, with the posterior's band",
        truth[0, :, 0],
        [strip],
        [widgets.Path("posterior", mean[0, :, 0], np.sqrt(variance[0, :, 0]))],
        [widgets.Path("x", alone[0, :, 0], np.sqrt(spread[0, :, 0]))],
    )
    error = metrics.nmse(posterior.mean, truth, known, data.z[:40])
    numbers: dict[str, object] = {"nMSE, new trials": f"{error:.4f}", "the paper": "0.05 (interior bound)"}
    return {**numbers, "90 % bands hold": f"{100 * covered:.0f} %"}, [shown]


def _textures(mosaics: Any, patches: Any, mixtures: Any) -> tuple[dict[str, object], list[str]]:
    truth = mosaics.labels
    matching = metrics.match_states(truth.ravel(), patches.argmax(-1).ravel(), 3)
    order = np.argsort(matching)
    accuracy = float((matching[patches.argmax(-1)] == truth).mean())
    error = float(np.abs(mixtures[:, order] - mosaics.proportions).mean())
    # The most mixed image is the one worth looking at.
    one = int(np.argmin(mosaics.proportions.max(1)))
    buffer = io.BytesIO()
    plt.imsave(buffer, mosaics.images[one], cmap="gray", format="png")
    grid = mosaics.images.shape[1] // 28
    shown = widgets.mosaic(
        "A mosaic of patches of brick, grass and gravel", buffer.getvalue(), (grid, grid),
        patches[one][:, order], truth[one], examples.TEXTURES,
    )  # fmt: skip
    return {"patches right": f"{accuracy:.3f}", "error of ω̄": f"{error:.3f}", "the paper": "pictures only"}, [shown]


def _sensors(
    z: NDArray[Any], camera: NDArray[Any], sound: NDArray[Any], model: Any
) -> tuple[dict[str, object], list[str]]:
    whole = {"camera": camera, "sound": sound}
    known = model.transform(whole)
    line = metrics.linear_map(known[20:], z[20:, :, None])
    trial = {"camera": camera[30:31], "sound": sound[30:31]}
    middle = np.r_[np.ones(20, bool), np.zeros(20, bool), np.ones(20, bool)][None]
    views = [
        ("both sensors", ()),
        ("no sound in the shaded part", ("sound",)),
        ("no camera there", ("camera",)),
        ("neither there", ("camera", "sound")),
    ]
    paths = []
    for name, cut in views:
        posterior = model.posterior(trial, presence=dict.fromkeys(cut, middle))
        mean, variance = metrics.aligned(posterior.mean, posterior.covariance, *line)
        without = tuple(number for number, each in enumerate(trial) if each in cut)
        paths.append(widgets.Path(name, mean[0, :, 0], np.sqrt(variance[0, :, 0]), (20, 40) if cut else None, without))
    factors = []
    for name, values in trial.items():
        mean, variance = metrics.aligned(*_recognised(model, values, name), *line)
        factors.append(widgets.Path(name, mean[0, :, 0], np.sqrt(variance[0, :, 0])))
    strips = [widgets.Strip("camera now", camera[30]), widgets.Strip("microphone now", sound[30])]
    shown = widgets.scrub(
        "The latent behind two sensors, and what is known of it when one is off",
        z[30],
        strips,
        paths,
        factors,
        "sensors",
    )
    error = metrics.nmse(known, z[..., None])
    half = metrics.nmse(model.transform({"camera": camera}), z[..., None], known, z[..., None])
    return {"nMSE, all that is there": f"{error:.3f}", "nMSE, camera alone": f"{half:.3f}"}, [shown]


def _recognised(model: Any, values: NDArray[Any], factor: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """One factor alone: mean and covariance."""
    mean, covariance = model.recognise(values, factor)
    return mean, covariance


EXAMPLES = (
    Example(
        "Peer supervision: digits without labels",
        "Pairs of images of the same digit, and a latent with ten states. What two images of a pair share is which "
        "digit it is, so that is what the states become.",
        examples.digits,
        _digits,
    ),
    Example(
        "A ball that no mean and no variance shows",
        "Ten pixels over time. The ball changes the shape of the distribution of the pixels it covers, nothing else. A "
        "smooth latent that makes the frames independent of each other must be its position. Move the slider.",
        examples.ball,
        _ball,
    ),
    Example(
        "Textures of patches",
        "Images are mosaics of patches; every image has its own mixture of three textures. Nobody says which patch is "
        "what. Point at a patch to see what the model thinks it is.",
        examples.textures,
        _textures,
    ),
    Example(
        "A sensor fails",
        "A camera and a microphone follow the same thing; the microphone failed half-way through a third of the "
        "training trials. Switch sensors off and see the posterior's band grow and shrink.",
        examples.sensors,
        _sensors,
    ),
)
