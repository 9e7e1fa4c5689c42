"""Where data sets are: RPMODELS_DATA, else the user's cache folder, else a download with a checksum."""

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pooch
from numpy.typing import NDArray

from rpmodels import errors

logger = logging.getLogger("rpmodels")


def homes() -> list[Path]:
    """The folders in which data sets are looked for, in this order; downloads go to the last."""
    return [Path(home) for home in (os.environ.get("RPMODELS_DATA"), pooch.os_cache("rpmodels")) if home]


def _found(folder: str, names: Sequence[str]) -> Path | None:
    """The first of these files that is in one of the homes."""
    places = (home / folder / name for home in homes() for name in names)
    return next((path for path in places if path.exists()), None)


@dataclass(frozen=True)
class RemoteFile:
    """One file of a data set: its name, its MD5 sum, and the folders (URLs) that mirror it."""

    folder: str
    name: str
    md5: str
    mirrors: Sequence[str]

    def there(self, also: Sequence[str] = ()) -> Path | None:
        """Where the file is on this machine, unchecked; None if it is not. `also` are other names it may have."""
        return _found(self.folder, (self.name, *also))

    def local(self, also: Sequence[str] = ()) -> Path:
        """The file on disk, downloaded if need be. `also` are other names under which it may be there."""
        path = self.there(also)
        if path is None:
            return self._download(homes()[-1] / self.folder)
        if path.name == self.name:
            self._check(path)
        return path

    def _check(self, path: Path) -> None:
        found = hashlib.md5(path.read_bytes()).hexdigest()
        if found != self.md5:
            raise errors.data_corrupt(str(path), f"MD5 {self.md5}", found)

    def _download(self, folder: Path) -> Path:
        if not self.mirrors:
            raise errors.data_not_shared(self.name, str(folder))
        for mirror in self.mirrors:
            try:
                got = pooch.retrieve(f"{mirror}/{self.name}", f"md5:{self.md5}", self.name, folder)
                return Path(got)
            except (OSError, ValueError) as failure:  # no network, no such file, wrong checksum: try the next
                logger.info("%s from %s: %s", self.name, mirror, failure)
        raise errors.data_missing(
            self.name, str(folder), f"python -c 'import rpmodels; rpmodels.datasets.load_{self.folder}()'"
        )


@dataclass(frozen=True)
class LocalFile:
    """One .npz file that people bring themselves: its name, and the public source that it was made from."""

    folder: str
    name: str
    source: str

    def there(self, also: Sequence[str] = ()) -> Path | None:
        """Where the file is on this machine; None if it is not."""
        return _found(self.folder, (self.name, *also))

    def arrays(self, axes: Mapping[str, int]) -> dict[str, NDArray[Any]]:
        """Arrays of these names, each with so many axes."""
        path = self.there()
        if path is None:
            raise errors.data_to_bring(self.name, [str(home / self.folder) for home in homes()], self.source)
        expected = "an .npz file with " + ", ".join(f"`{name}` of {count} axes" for name, count in axes.items())
        try:
            with np.load(path, allow_pickle=False) as file:
                found = {name: np.asarray(file[name]) for name in axes}
        except Exception as failure:  # zipfile, zlib, KeyError, ValueError: a damaged file has many faces
            raise errors.data_corrupt(str(path), expected, str(failure)) from failure
        if any(found[name].ndim != count for name, count in axes.items()):
            raise errors.data_corrupt(str(path), expected, str({name: each.shape for name, each in found.items()}))
        return found
