"""A fit that can be killed: a folder with a manifest and one file per start, each written whole or not at all.

All are sealed, and every file says to which fit and to which of its starts it belongs.

Restarts are a deterministic game, so what they decided need not be kept: a resumed fit plays it again from the
recorded free energies, and every run goes on from its last file to the same numbers, bit for bit on a CPU.
"""

import hashlib
import json
import logging
import re
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rpmodels import checks, errors
from rpmodels.learning.distributed import communicator
from rpmodels.learning.loop import State
from rpmodels.learning.run import Run
from rpmodels.persistence import as_written, load_state, save_state, write_json
from rpmodels.versions import __version__
from rpmodels.writing import sweep

logger = logging.getLogger("rpmodels")

MANIFEST = "manifest.json"
FORMAT = 2
SEAL = "sha256"
"""Under which the manifest has the digest of all else in it."""


@dataclass(frozen=True)
class Checkpoints:
    """Where the runs of one fit are kept. Plain data: it travels with a run to other processes."""

    folder: Path
    every: float
    """Seconds between two files of a run that is under way; every comparison is always written."""
    fit: str = ""
    """What tells the fit from all others; in every file."""

    def load(self, key: str) -> dict[str, Any] | None:
        """What was last saved under this key; None when nothing was."""
        return communicator().first_does(lambda: self._loaded(key) if self.path(key).exists() else None)

    def _loaded(self, key: str) -> dict[str, Any]:
        path = self.path(key)
        found = load_state(path)
        if not isinstance(found, dict) or (found.get("fit"), found.get("key")) != (self.fit, key):
            raise errors.stray_checkpoint(str(path))
        with as_written(path):
            return dict(found["state"])

    def save(self, key: str, state: Mapping[str, Any]) -> bool:
        """Write, or say aloud why not: a full disk ends no fit, and the last file stays whole."""
        path = self.path(key)
        if communicator().rank > 0:
            return True  # all processes have the same to save, and the first saves it
        try:
            save_state(path, {"fit": self.fit, "key": key, "state": dict(state)})
        except OSError as failure:
            warnings.warn(errors.no_checkpoint(str(path), failure.__cause__ or failure), stacklevel=2)
            return False
        logger.debug("checkpoint %s", path)
        return True

    def path(self, key: str) -> Path:
        """Of the file under this key."""
        return self.folder / f"{re.sub('[^0-9A-Za-z]+', '-', key)}.checkpoint"


class Saving:
    """Consumer that saves a run now and then, at steps that a rescue could go back to."""

    def __init__(self, checkpoints: Checkpoints, key: str, run: Run[Any], beside: Mapping[str, Any]) -> None:
        self._checkpoints = checkpoints
        self._key = key
        self._run = run
        self._beside = beside
        self._last = time.monotonic()

    def __call__(self, state: State) -> None:
        """Look at the clock."""
        # Of a run that is about to stop the reason is part, and is known only after the step.
        due = time.monotonic() - self._last >= self._checkpoints.every
        if due and self._run.restorable and state.stop_reason is None:
            self.now()

    def now(self) -> None:
        """Save."""
        self._checkpoints.save(self._key, {"run": self._run.state(), **self._beside})
        self._last = time.monotonic()


def open_checkpoints(
    folder: str | Path, every: float, about: Mapping[str, Any], seeds: list[int], known: bool
) -> tuple[Checkpoints, list[int]]:
    """A folder for this fit, new or begun earlier, and the seeds of the fit that it belongs to.

    `about` tells one fit from another: {what: plain value}; `known`: whether the seeds do so as well, because they
    follow from its arguments. A folder of another fit is refused.
    """
    checks.Path().check("checkpoint", folder)
    return communicator().first_does(lambda: _opened(folder, every, about, seeds, known))


def _opened(
    folder: str | Path, every: float, about: Mapping[str, Any], seeds: list[int], known: bool
) -> tuple[Checkpoints, list[int]]:
    every = checks.number("checkpoint_every", every, least=0.0)
    place = Path(folder)
    manifest = place / MANIFEST
    if place.exists() and not place.is_dir():
        raise errors.not_a_folder(str(folder))
    sweep(place)
    if not manifest.exists():
        versions = {"rpmodels": __version__, "torch": str(torch.__version__)}
        made = {"format": FORMAT, "versions": versions, "about": dict(about), "seeds": seeds}
        write_json(manifest, {**made, SEAL: _digest(made)})
        return Checkpoints(place, every, _digest({"about": dict(about), "seeds": seeds})), seeds
    found = _read(manifest)
    differing = sorted(what for what in found["about"].keys() | about if found["about"].get(what) != about.get(what))
    if known and not differing and found["seeds"] != seeds:
        differing = ["random_state"]
    if differing:
        raise errors.other_checkpoint(str(folder), differing)
    if found["versions"]["torch"] != str(torch.__version__):
        warnings.warn(errors.other_torch(str(folder), found["versions"]["torch"], torch.__version__), stacklevel=5)
    logger.info("resuming the fit in %s", folder)
    fit = _digest({"about": dict(about), "seeds": found["seeds"]})
    return Checkpoints(place, every, fit), [int(seed) for seed in found["seeds"]]


def _read(manifest: Path) -> dict[str, Any]:
    try:
        found = json.loads(manifest.read_text(encoding="utf-8"))
        complete = {"format", "about", "seeds", "versions"} <= set(found) and found["format"] <= FORMAT
        older = complete and found["format"] < FORMAT and SEAL not in found
        whole = complete and found.pop(SEAL, None) == _digest(found) and set(found["versions"]) == {"rpmodels", "torch"}
    except (ValueError, TypeError, OSError, RecursionError) as failure:
        raise errors.not_a_checkpoint(str(manifest)) from failure
    if not complete:
        raise errors.not_a_checkpoint(str(manifest))
    if older:
        raise errors.older_checkpoint(str(manifest), str(found["versions"]))
    if not whole:
        raise errors.damaged_file(str(manifest))
    return dict(found)


def _digest(values: Mapping[str, Any]) -> str:
    """Of plain values, in whatever order they stand."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
