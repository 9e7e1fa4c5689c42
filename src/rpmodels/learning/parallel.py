"""joblib, in one place: restarts and searches over processes, or over whatever back end the user configured."""

import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeVar

import torch
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from tqdm.auto import tqdm

from rpmodels.learning.distributed import communicator

Item = TypeVar("Item")
Result = TypeVar("Result")


def parallel_map(
    function: Callable[..., Result], items: Iterable[Item], n_jobs: int | None, *shared: Any
) -> Iterator[Result]:
    """function(item, *shared) of every item in its order, in up to n_jobs processes of one thread each.

    Large numpy arrays in `shared` are memory-mapped, not copied. Two threads that share a core with another
    process are many times slower than one, hence one thread each; alone, a process keeps its threads.
    """
    # Threads would share torch's global generators, and so their random numbers.
    # The processes of a group must do everything together, so none of them has workers of its own.
    threads = getattr(get_active_backend()[0], "uses_threads", False)
    if effective_n_jobs(n_jobs) == 1 or threads or communicator().size > 1:
        yield from (function(item, *shared) for item in items)
        return
    yield from Parallel(n_jobs=n_jobs)(delayed(_in_worker)(function, item, *shared) for item in items)


def parallel_each(
    function: Callable[..., Result], items: Iterable[Item], n_jobs: int | None, *shared: Any
) -> Iterator[Result]:
    """The same results as they come, in any order: for long jobs on one machine that should be seen to progress."""
    if effective_n_jobs(n_jobs) == 1 or communicator().size > 1:
        yield from (function(item, *shared) for item in items)
        return
    jobs = (delayed(_in_worker)(function, item, *shared) for item in items)
    yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)(jobs)


def parallel_list(
    function: Callable[..., Result], items: Iterable[Item], n_jobs: int | None, *shared: Any, label: str, verbose: int
) -> list[Result]:
    """function(item, *shared) of every item in its order, when all are done; `verbose`: a bar moves with each."""
    tasks = list(enumerate(items))
    # Results as they come move the bar; without one, any back end that joblib was told of will do.
    each_task = parallel_each if verbose else parallel_map
    results = each_task(_numbered, tasks, n_jobs, function, *shared)
    found = dict(tqdm(results, total=len(tasks), desc=label, disable=not verbose, leave=False))
    return [found[number] for number, _ in tasks]


def _numbered(task: tuple[int, Item], function: Callable[..., Result], *shared: Any) -> tuple[int, Result]:
    return task[0], function(task[1], *shared)


def _in_worker(function: Callable[..., Result], item: Item, *shared: Any) -> Result:
    torch.set_num_threads(1)
    # A scheduler that came here by pickle does not find its mark on the optimiser, and complains of nothing.
    warnings.filterwarnings("ignore", message="Seems like `optimizer.step")
    _end_with_parent()
    return function(item, *shared)


@cache
def _end_with_parent() -> None:
    """Once in every worker: a thread that ends the process when the one that started it is gone."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return  # not a worker of its own: threads, or a back end that keeps house itself

    def watch() -> None:
        # Not compared with what getppid says first: the parent may be gone before the worker's first job.
        while os.getppid() == parent.pid:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
