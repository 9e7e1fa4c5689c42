"""What is installed, for bug reports and for the results we publish."""

import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

__version__ = "0.1.0"

_PACKAGES = (
    "torch",
    "numpy",
    "scipy",
    "scikit-learn",
    "safetensors",
    "joblib",
    "matplotlib",
    "gpytorch",
    "numba",
    "mujoco",
)


def versions() -> dict[str, str]:
    """Versions of this library, Python and what it stands on."""
    found = {"rpmodels": __version__, "python": platform.python_version(), "platform": platform.system()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def inner_loops() -> str:
    """Whether they are compiled (`rpmodels.kernels`); torch is imported to know."""
    told: str = import_module("rpmodels.kernels").status()
    return told


def show_versions() -> None:
    """Print `versions()` and how inner loops are computed, to paste into a bug report."""
    for name, number in {**versions(), "inner loops": inner_loops()}.items():
        print(f"{name:>14}: {number}")
