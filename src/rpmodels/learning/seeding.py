"""Reproducible draws that leave the user's own random state alone."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's global generators at this seed inside, as they were outside.

    Layers draw their first weights and their dropout from the global generators only, so these are the
    places where they are set.
    """
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def spawn(random_state: int | np.random.RandomState | None, count: int) -> list[int]:
    """Independent seeds; the same for the same `random_state`."""
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31 - 1))
    return [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(random_state).spawn(count)]
