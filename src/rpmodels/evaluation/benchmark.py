"""Files of the Neural Latents Benchmark (Pei et al. 2021): its spikes read, and rates of a fitted model written.

A file has a group for every data set (mc_maze_small, mc_maze_small_20, …), or the arrays of one at its root. All are
(trials, bins, units); "heldin" units are seen in evaluation, "heldout" ones are not, "forward" bins follow the others.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.estimators import RPMEstimator
from rpmodels.metrics import bits_per_spike
from rpmodels.writing import write_atomically

Array = NDArray[np.float64]
TRAIN, EVAL = "train", "eval"
UNITS = ("heldin", "heldout")
NEEDED = ("train_spikes_heldin", "train_spikes_heldout", "eval_spikes_heldin")


@dataclass(frozen=True)
class LatentsBenchmark:
    """The spikes of one data set.

    Args:
        name: of its group
        arrays: train_spikes_heldin, train_spikes_heldout and eval_spikes_heldin; train_spikes_heldin_forward and
            train_spikes_heldout_forward where the end of trials is predicted, too; and the same of "eval" where they
            are known, as in files that submissions are judged by

    """

    name: str
    arrays: Mapping[str, NDArray[Any]]

    def __post_init__(self) -> None:
        for key in NEEDED:
            if key not in self.arrays:
                raise errors.no_benchmark(self.name, f"no {key}")
        sizes = {key: each.shape for key, each in self.arrays.items() if "_spikes_" in key}
        for key, shape in sizes.items():
            # Trials are those of the held-in units, bins too (forward ones have a length of their own); units are
            # those of training.
            trials, bins, units = (
                sizes.get(each, shape)
                for each in (
                    key.removesuffix("_forward").replace("heldout", "heldin"),
                    key.replace("heldout", "heldin"),
                    key.removesuffix("_forward").replace(EVAL, TRAIN),
                )
            )
            if len(shape) != 3 or shape != (trials[0], bins[1], units[2]):
                raise errors.no_benchmark(self.name, f"{key} of shape {shape}, as no other is")

    @staticmethod
    def read(path: str | Path, name: str | None = None) -> "LatentsBenchmark":
        """From a file: the group of this name, the only one, or what is at the root. Needs the package h5py."""
        with _hdf5("Reading a benchmark").File(path, "r") as file:
            groups = [each for each in file if hasattr(file[each], "keys")]
            if name is None and NEEDED[0] not in file and len(groups) == 1:
                name = groups[0]
            if name is not None and name not in groups:
                raise errors.no_benchmark(str(path), f"groups {', '.join(groups) or 'none'}, none called {name}")
            group = file if name is None else file[name]
            found = {key: np.asarray(each[()], np.float64) for key, each in group.items() if "_spikes_" in key}
        return LatentsBenchmark(name or Path(path).stem, found)

    def write(self, path: str | Path) -> None:
        """Into the group of its name; other groups that are there already stay. Needs the package h5py."""
        write_group(path, self.name, self.arrays)

    # ---- what a model is fitted to, and asked ---------------------------------------------------

    @property
    def training(self) -> Array:
        """(N, T, C) to fit a model to: all units, held-in first, with their forward bins."""
        return self._joined(TRAIN)

    @property
    def evaluation(self) -> Array:
        """The same of new trials; NaN where nothing is known: held-out units, forward bins."""
        return self._seen(EVAL)

    def rates(self, model: RPMEstimator, *, factor: str | None = None, e_step: Any = None) -> dict[str, Array]:
        """What a submission holds, from a model with a population that was fitted to `training`.

        Rates of training trials are from held-in units as well, so that a decoder of behaviour finds in evaluation what
        it was fitted to. `factor`, `e_step`: as in the model's own `rates`.
        """
        if not hasattr(model, "rates"):
            raise errors.predicts_no_channels(type(model).__name__)
        found = {}
        for part in (TRAIN, EVAL):
            rates = np.asarray(model.rates(self._seen(part), factor, e_step=e_step), np.float64)
            for units, columns in zip(UNITS, np.split(rates, [self._n_seen], -1), strict=True):
                found[f"{part}_rates_{units}"] = columns[:, : self._n_bins]
                if columns.shape[1] > self._n_bins:
                    found[f"{part}_rates_{units}_forward"] = columns[:, self._n_bins :]
        return found

    def submit(self, model: RPMEstimator, path: str | Path, **options: Any) -> None:
        """Write these rates, into the group of this data set; `options` as in `rates`. Needs the package h5py."""
        write_group(path, self.name, self.rates(model, **options))

    def scores(self, rates: Mapping[str, NDArray[Any]]) -> dict[str, float]:
        """Bits per spike of a submission where the truth is known, named as in the benchmark: co-bps, and fp-bps.

        Relative to the mean rates of the same trials, as in the benchmark.
        """
        if "eval_spikes_heldout" not in self.arrays:
            raise errors.no_benchmark(self.name, "no eval_spikes_heldout")
        found = {"co-bps": bits_per_spike(rates["eval_rates_heldout"], self.arrays["eval_spikes_heldout"])}
        ends = [f"{units}_forward" for units in UNITS]
        if all(f"eval_spikes_{each}" in self.arrays and f"eval_rates_{each}" in rates for each in ends):
            predicted, seen = (
                np.concatenate([source[f"eval_{what}_{each}"] for each in ends], -1)
                for source, what in ((rates, "rates"), (self.arrays, "spikes"))
            )
            found["fp-bps"] = bits_per_spike(predicted, seen)
        return found

    # ---- inside ---------------------------------------------------------------------------------

    @property
    def _n_seen(self) -> int:
        return int(self.arrays["train_spikes_heldin"].shape[2])

    @property
    def _n_bins(self) -> int:
        return int(self.arrays["train_spikes_heldin"].shape[1])

    def _joined(self, part: str) -> Array:
        whole = np.concatenate([self.arrays[f"{part}_spikes_{units}"] for units in UNITS], -1).astype(np.float64)
        keys = [f"{part}_spikes_{units}_forward" for units in UNITS]
        if not all(key in self.arrays for key in keys):
            return whole
        return np.concatenate([whole, np.concatenate([self.arrays[key] for key in keys], -1)], 1)

    def _seen(self, part: str) -> Array:
        """Trials of which held-in units are known, up to their forward bins."""
        seen = self.arrays[f"{part}_spikes_heldin"]
        whole = np.full((len(seen), *self.training.shape[1:]), np.nan)
        whole[:, : self._n_bins, : self._n_seen] = seen
        return whole


def write_group(path: str | Path, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Arrays as one group of a file, in the place of one of the same name; others stay."""
    hdf5, target = _hdf5("Writing a benchmark"), Path(path)

    def write(temporary: Path) -> None:
        if target.exists():
            shutil.copyfile(target, temporary)
        with hdf5.File(temporary, "a" if target.exists() else "w") as file:
            if name in file:
                del file[name]
            group = file.create_group(name)
            for key, each in arrays.items():
                group.create_dataset(key, data=each)

    write_atomically(target, write)


def _hdf5(what: str) -> Any:
    try:
        return import_module("h5py")
    except ImportError as failure:
        raise errors.needs_package(what, "h5py", "pip install 'rpmodels[hdf5]'") from failure
