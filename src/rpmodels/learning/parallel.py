"""joblib, in one place: restarts and searches over processes, or over whatever back end the user configured."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

Item = TypeVar("Item")
Result = TypeVar("Result")


def parallel_map(
    function: Callable[..., Result], items: Iterable[Item], n_jobs: int | None, *shared: Any
) -> list[Result]:
    """[function(item, *shared) for item in items], in up to n_jobs processes of one thread each.

    Large numpy arrays in `shared` are memory-mapped, not copied. Two threads that share a core with another
    process are many times slower than one, hence one thread each; alone, a process keeps its threads.
    """
    # Threads would share torch's global generators, and so their random numbers.
    if effective_n_jobs(n_jobs) == 1 or getattr(get_active_backend()[0], "uses_threads", False):
        return [function(item, *shared) for item in items]
    results = Parallel(n_jobs=n_jobs)(delayed(_one_thread)(function, item, *shared) for item in items)
    return list(results)


def parallel_each(
    function: Callable[..., Result], items: Iterable[Item], n_jobs: int | None, *shared: Any
) -> Iterator[Result]:
    """The same results as they come, in any order: for long jobs on one machine that should be seen to progress."""
    if effective_n_jobs(n_jobs) == 1:
        yield from (function(item, *shared) for item in items)
        return
    jobs = (delayed(_one_thread)(function, item, *shared) for item in items)
    yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)(jobs)


def _one_thread(function: Callable[..., Result], item: Item, *shared: Any) -> Result:
    torch.set_num_threads(1)
    return function(item, *shared)
