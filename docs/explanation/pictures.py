"""Draws what-is-an-rpm.png: .venv/bin/python docs/explanation/pictures.py."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
GRID = np.linspace(-4.0, 4.0, 400)


def normal(mean: float, sd: float) -> np.ndarray:
    """A density on the grid."""
    return np.exp(-0.5 * ((GRID - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))


def node(axes: plt.Axes, place: tuple[float, float], text: str, seen: bool) -> None:
    """A circle with a letter in it, grey where it is observed."""
    axes.add_patch(plt.Circle(place, 0.32, fc="0.87" if seen else "white", ec="black", zorder=2))
    axes.text(*place, text, ha="center", va="center", fontsize=12, zorder=3)


def arrow(axes: plt.Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    """From one circle to another."""
    axes.annotate(
        "", end, start, arrowprops={"arrowstyle": "-|>", "lw": 1.5, "color": colour, "shrinkA": 17, "shrinkB": 17}
    )


def graph(axes: plt.Axes, title: str, upwards: bool) -> None:
    """One latent, two observations; arrows from or to the latent."""
    latent, observed = (1.5, 1.7), [(0.6, 0.4), (2.4, 0.4)]
    for number, place in enumerate(observed, 1):
        ends = (place, latent) if upwards else (latent, place)
        arrow(axes, *ends, "C0" if upwards else "C1")
        node(axes, place, f"$x_{number}$", seen=True)
        if upwards:
            middle = (0.5 * (place[0] + latent[0]) + (-0.62 if number == 1 else 0.62), 1.08)
            axes.text(*middle, f"$f_{number}(z|x_{number})$", ha="center", color="C0", fontsize=10)
    node(axes, latent, "$z$", seen=False)
    axes.set(xlim=(-0.5, 3.5), ylim=(-0.2, 2.3), aspect="equal", title=title)
    axes.axis("off")


def main() -> None:
    """Four panels."""
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.1), layout="constrained")
    graph(axes[0], "a decoder: the latent must\nmake every pixel", upwards=False)
    graph(axes[1], "an RPM: every observation\nspeaks of the latent", upwards=True)
    random = np.random.default_rng(0)
    centres = random.standard_normal(300) * np.sqrt(1 - 0.5**2)
    for centre in centres[:25]:
        axes[2].plot(GRID, normal(centre, 0.5), color="C0", lw=0.5, alpha=0.5)
    average = np.mean([normal(centre, 0.5) for centre in centres], 0)
    axes[2].plot(GRID, average, color="C0", lw=2.5, label="$F_1$: their average")
    axes[2].plot(GRID, normal(0.0, 1.0), "k--", lw=1.2, label="prior")
    axes[2].set_title("recognition factors\nof many observations", fontsize="medium")
    first, second, prior = normal(0.9, 0.6), normal(1.7, 0.7), normal(0.0, 1.0)
    posterior = first * second / prior
    posterior /= posterior.sum() * (GRID[1] - GRID[0])
    axes[3].plot(GRID, first, color="C0", label="$f_1(z|x_1)$")
    axes[3].plot(GRID, second, color="C2", label="$f_2(z|x_2)$")
    axes[3].plot(GRID, prior, "k--", lw=1.2, label="prior")
    axes[3].fill_between(GRID, posterior, color="C3", alpha=0.35, lw=0, label="posterior")
    axes[3].set_title("one observation: factors\nmultiply", fontsize="medium")
    for each in axes[2:]:
        each.set(yticks=[], xlabel="z", xlim=(-3.5, 3.8))
        each.set_ylim(0, None)
        each.legend(frameon=False, fontsize="x-small", loc="upper left")
    figure.savefig(HERE / "what-is-an-rpm.png", dpi=130)


if __name__ == "__main__":
    main()
