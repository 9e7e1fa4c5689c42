"""Reproducible draws that leave the user's own random state alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from rpmodels.checks import Instance, Integer, Nothing

SEED = Nothing() | Integer(0, 2**64 - 1) | Instance(np.random.RandomState)
"""What may be given as random_state."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's global generators at this seed inside, as they were outside.

    Layers draw their first weights and their dropout from the global generators only, so these are the
    places where they are set. (`torch.manual_seed` is not used: without a GPU each call queues another for
    the day CUDA starts, stack trace and all, which costs more than a small step and is never freed.)
    """
    before = torch.random.get_rng_state()
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    torch.default_generator.manual_seed(seed)
    if on_gpus:
        torch.cuda.manual_seed_all(seed)
    try:
        yield
    finally:
        torch.random.set_rng_state(before)
        if on_gpus:
            torch.cuda.set_rng_state_all(on_gpus)


def spawn(random_state: Any, count: int) -> list[int]:
    """Independent seeds; the same for the same `random_state`."""
    SEED.check("random_state", random_state)
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31 - 1))
    return [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(random_state).spawn(count)]
