"""Batches as tensors, read when they are wanted, or ahead of time by other processes."""

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from rpmodels.carriers import Batch
from rpmodels.communicator import Communicator
from rpmodels.learning.batches import Minibatches, others
from rpmodels.observations import Observations


@dataclass(frozen=True)
class BatchReader:
    """What every step of a run reads.

    Args:
        observations: all there are
        communicator: each process reads its share of every batch
        beside: further observations to read for every batch, for their atoms
        workers: processes that read ahead; 0 for none

    """

    observations: Observations
    communicator: Communicator
    beside: int
    workers: int
    dtype: torch.dtype
    device: torch.device

    def batches(self, planned: Minibatches) -> Iterator[tuple[Batch, int]]:
        """Batch and seed of one step after the other; `planned` is always as far as the step that was given last."""
        if planned.per_epoch == 1:  # all the data are the same batch every time
            batch = self._read(self._request(copy.deepcopy(planned))).to(self.device)
            while True:
                planned.next()
                yield batch, planned.step_seed()
        # Those who read ahead follow a plan of their own, which is the same.
        read = map(self._read, self._requests(planned)) if self.workers == 0 else self._ahead(planned)
        for batch in read:
            planned.next()
            yield batch.to(self.device), planned.step_seed()

    def _requests(self, planned: Minibatches) -> Iterator["_Request"]:
        plan = copy.deepcopy(planned)
        while True:
            yield self._request(plan)

    def _request(self, plan: Minibatches) -> "_Request":
        index = plan.next()
        seed = plan.step_seed()
        mine = self.communicator.share(index)
        count = min(self.beside, len(self.observations) - len(mine))
        beside = others(len(self.observations), mine, count, seed + self.communicator.rank) if count > 0 else None
        whole = float(self.observations.weights[index].sum()) if self.communicator.size > 1 else None
        return _Request(mine, beside, self.observations.longest(index), whole)

    def _read(self, request: "_Request") -> Batch:
        def read(index: NDArray[np.int64]) -> Batch:
            return self.observations.batch(index, self.dtype, torch.device("cpu"), request.sites)

        beside = None if request.beside is None else read(request.beside)
        return replace(read(request.index), beside=beside, whole=request.whole)

    def _ahead(self, planned: Minibatches) -> Iterable[Batch]:
        loader: DataLoader[Batch] = DataLoader(
            _Reader(self),
            batch_size=None,
            sampler=_Endless(self, planned),
            num_workers=self.workers,
            collate_fn=_as_read,
            pin_memory=False,
        )
        return loader


@dataclass(frozen=True)
class _Request:
    """Which observations a step reads."""

    index: NDArray[np.int64]
    beside: NDArray[np.int64] | None
    sites: int
    whole: float | None


class _Reader(Dataset[Batch]):
    """Batches by request, for a DataLoader."""

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader

    def __getitem__(self, request: Any) -> Batch:
        return self._reader._read(request)


class _Endless:
    """Requests without end."""

    def __init__(self, reader: BatchReader, planned: Minibatches) -> None:
        self._reader = reader
        self._planned = planned

    def __iter__(self) -> Iterator[_Request]:
        return self._reader._requests(self._planned)


def _as_read(batch: Any) -> Any:
    return batch
