"""Pictures of the arena: the paper's figure, missing sensors, a contact sheet, a film."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy.special import chdtri

from rpmodels.datasets import Arena
from rpmodels.paper.worlds.arena import CORNERS
from rpmodels.paper.worlds.arena_camera import projected
from rpmodels.persistence import write_atomically

COLOURS = np.array([[[0.84, 0.19, 0.15], [0.95, 0.70, 0.13]], [[0.17, 0.39, 0.80], [0.18, 0.63, 0.35]]])
"""Colours of the room's corners, by (x > 0, y > 0)."""
NAMES = ("south-west", "south-east", "north-east", "north-west")
"""Of the ranges, in their order."""
FRAMES = 6
RADIUS = float(np.sqrt(chdtri(2, 0.1)))
"""Standard deviations that the 90 % region of a Gaussian in the plane reaches."""
SCALE = 4
"""Of the film, times the size of a frame."""
EVERY = 2
"""Frames of the film."""


def contact_sheet(data: Arena, episodes: int = 5, moments: int = 20) -> Any:
    """A few episodes, every so many frames."""
    episodes = min(episodes, len(data.frames))
    times = np.linspace(0, data.frames.shape[1] - 1, moments).round().astype(int)
    rows = [np.concatenate(list(_pictures(data, n)[times]), 1) for n in range(episodes)]
    figure, axes = plt.subplots(figsize=(moments * 0.6, episodes * 0.6 + 0.3), layout="constrained")
    axes.imshow(np.concatenate(rows, 0), interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.set_title(f"{episodes} episodes, every {times[1] - times[0]}th frame", fontsize="small")
    return figure


def integration(shown: Arena, views: Mapping[str, Mapping[str, Any]]) -> Any:
    """Frames, ranges over time, and four paths coloured by corner: true, from both factors, from each alone."""
    figure = plt.figure(figsize=(11, 7.5), layout="constrained")
    parts: Any = figure.subfigures(3, 1, height_ratios=[1.0, 0.8, 1.5])
    top, middle, bottom = parts
    times = np.linspace(0, shown.frames.shape[1] - 1, FRAMES).round().astype(int)
    for axes, now in zip(top.subplots(1, FRAMES), times, strict=True):
        axes.imshow(_pictures(shown, 0)[now], interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        axes.set_title(f"t = {now}", fontsize="small")
    axes = middle.subplots()
    for number, name in enumerate(NAMES):
        axes.plot(shown.ranges[0, :, number], lw=0.9, color=_colour(CORNERS[number]), label=name)
    if shown.done[0, -1]:
        axes.axvline(int(shown.done[0].argmax()), color="0.3", ls=":", lw=1.2, label="all blocks have arrived")
    axes.set(xlabel="frame", ylabel="range", xlim=(0, shown.ranges.shape[1] - 1))
    axes.legend(frameon=False, fontsize="x-small", ncols=5, loc="lower right", bbox_to_anchor=(1.0, 1.0))
    titles = {"both": "posterior, both", "video": "video alone", "ranges": "ranges alone"}
    paths = {"true path": shown.z[0]} | {titles[name]: np.array(each["mean"]) for name, each in views.items()}
    for axes, (title, path) in zip(bottom.subplots(1, len(paths)), paths.items(), strict=True):
        _draw_path(axes, path, _colour(shown.z[0]))
        axes.set_title(title, fontsize="medium")
    return figure


def missing_sensors(shown: Arena, gaps: Mapping[str, Mapping[str, Any]]) -> Any:
    """Both coordinates through an episode whose middle half lacks sensors, with 90 % bands."""
    figure, grid = plt.subplots(2, len(gaps), figsize=(11, 4.6), sharex=True, sharey=True, layout="constrained")
    count = shown.ranges.shape[1]
    times = np.arange(count)
    for column, (name, each) in enumerate(gaps.items()):
        mean, covariance = np.array(each["mean"]), np.array(each["covariance"])
        for axis, label in enumerate("xy"):
            axes = grid[axis, column]
            band = 1.645 * np.sqrt(covariance[:, axis, axis])
            axes.axvspan(count // 4 - 0.5, 3 * count // 4 - 0.5, color="0.93", lw=0)
            axes.fill_between(times, mean[:, axis] - band, mean[:, axis] + band, color="C0", alpha=0.3, lw=0)
            axes.plot(times, mean[:, axis], "C0", lw=1.2, label="posterior, 90 % band")
            axes.plot(times, shown.z[0, :, axis], "k--", lw=0.9, label="truth")
            axes.set_ylabel(label if column == 0 else "")
        grid[0, column].set_title(f"{name} in the shaded half", fontsize="medium")
        grid[1, column].set_xlabel("frame")
    grid[0, 0].legend(frameon=False, fontsize="x-small", loc="lower left")
    return figure


def film(shown: Arena, view: Mapping[str, Any], path: Path) -> None:
    """An animated GIF: the frames, and on the floor of each the posterior's 90 % region."""
    mean, covariance = np.array(view["mean"]), np.array(view["covariance"])
    side = shown.frames.shape[-1]
    pictures = []
    for now in range(0, len(mean), EVERY):
        picture = Image.fromarray(_pictures(shown, 0)[now]).resize(
            (SCALE * side, SCALE * side), Image.Resampling.NEAREST
        )
        outline = projected(_ellipse(mean[now], covariance[now]), side)
        corners = [tuple(point) for point in SCALE * (outline + 0.5)]
        ImageDraw.Draw(picture).line(corners, fill=(255, 255, 255), width=2)
        pictures.append(picture.quantize(64))
    rest = pictures[1:]
    write_atomically(
        path, lambda to: pictures[0].save(to, "GIF", save_all=True, append_images=rest, duration=80, loop=0)
    )


def _pictures(data: Arena, episode: int) -> NDArray[np.uint8]:
    """(T, side, side, 3)."""
    return np.asarray(data.frames[episode].transpose(0, 2, 3, 1))


def _ellipse(mean: NDArray[Any], covariance: NDArray[Any]) -> NDArray[np.float64]:
    turn = np.linspace(0.0, 2.0 * np.pi, 40)
    circle = np.stack([np.cos(turn), np.sin(turn)], -1)
    values, axes = np.linalg.eigh(covariance)
    return np.asarray(mean + RADIUS * (circle * np.sqrt(values)) @ axes.T)


def _colour(places: NDArray[Any]) -> NDArray[np.float64]:
    """Blended from the corners' colours."""
    right, up = (np.clip(0.5 * (places[..., axis, None] + 1.0), 0.0, 1.0) for axis in (0, 1))
    south = (1.0 - right) * COLOURS[0, 0] + right * COLOURS[1, 0]
    north = (1.0 - right) * COLOURS[0, 1] + right * COLOURS[1, 1]
    return np.asarray((1.0 - up) * south + up * north)


def _draw_path(axes: Any, path: NDArray[Any], colours: NDArray[Any]) -> None:
    axes.plot(path[:, 0], path[:, 1], color="0.8", lw=0.7, zorder=1)
    axes.scatter(path[:, 0], path[:, 1], c=colours, s=9, zorder=2)
    axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1])
