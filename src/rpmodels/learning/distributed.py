"""torch.distributed, in one place: one fit by several processes, on one machine or many.

`torchrun … -m rpmodels …` starts the group by itself; from Python it is used as soon as
`torch.distributed.init_process_group` has been called. Gradients equal those of one process with the same batches.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from rpmodels import errors
from rpmodels.communicator import ALONE, Communicator

Value = TypeVar("Value")

TIMEOUT = 300.0
"""Seconds that a process waits for the others before it takes them for lost."""


def communicator() -> Communicator:
    """All processes of the group that this one belongs to, or itself alone."""
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return ALONE
    return Together()


@contextmanager
def process_group(timeout: float = TIMEOUT) -> Iterator[Communicator]:
    """The group that torchrun's environment describes: NCCL where every process has a GPU, else Gloo."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    on_gpus = torch.cuda.is_available() and torch.cuda.device_count() > int(os.environ.get("LOCAL_RANK", "0"))
    if on_gpus:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if on_gpus else "gloo", timeout=timedelta(seconds=timeout))
    try:
        yield communicator()
    finally:
        dist.destroy_process_group()


def silently(work: Callable[[], Value]) -> Value:
    """Do it without a word on the terminal, warnings apart: one process of a group speaks for all."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        return work()


class Together(Communicator):
    """The default process group."""

    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()

    def gathered(self, values: Tensor, dim: int = 0, alike: bool = False) -> Tensor:
        """Shares may differ in length along the axis (unless they are known to be `alike`), and in nothing else."""
        moved = values.movedim(dim, 0)
        counts = [len(moved)] * self.size if alike else self._counts(len(moved))
        anchor = torch.zeros((), requires_grad=torch.is_grad_enabled() and values.is_floating_point())
        everyones: Tensor = _Gather.apply(moved, anchor, self.rank, counts)  # type: ignore[no-untyped-call]
        return everyones.movedim(0, dim)

    def _counts(self, own: int) -> list[int]:
        """The numbers of all processes."""
        told = torch.zeros(self.size, dtype=torch.int64)
        told[self.rank] = own
        return [int(each) for each in self.summed(told.to(self._device)).tolist()]

    @property
    def _device(self) -> torch.device:
        """Where collectives take place."""
        return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")

    def summed(self, values: Tensor) -> Tensor:
        """One all-reduce."""
        total = values.detach().clone()
        with _lost_are_named(self.rank):
            dist.all_reduce(total)
        return total

    def sum_gradients(self, parameters: Sequence[Tensor], terms: Tensor) -> Tensor:
        """One all-reduce of all gradients side by side, each with the number of processes that have it."""
        learned = [each for each in parameters if each.requires_grad]
        like = terms
        have = like.new_tensor([float(each.grad is not None) for each in learned])
        flat = [torch.zeros_like(each) if each.grad is None else each.grad for each in learned]
        total = self.summed(torch.cat([terms, have, *(each.reshape(-1).to(like.dtype) for each in flat)]))
        lengths = [len(terms), len(learned), *(each.numel() for each in learned)]
        sums, counts, *gradients = torch.split(total, lengths)
        for each, count, gradient in zip(learned, counts.tolist(), gradients, strict=True):
            each.grad = gradient.reshape(each.shape).to(each.dtype) if count else None
        return sums

    def same(self, state: Mapping[str, Any]) -> None:
        """Broadcast tensor by tensor."""
        with torch.no_grad(), _lost_are_named(self.rank):
            for tensor in (each for each in state.values() if isinstance(each, Tensor)):
                whole = tensor.detach().contiguous()
                dist.broadcast(whole, 0)
                tensor.copy_(whole)

    def first_does(self, work: Callable[[], Value]) -> Value:
        """Results and failures travel as objects: processes of one job trust each other."""
        told: list[Any] = [None, None]
        if self.rank == 0:
            try:
                told[0] = work()
            except Exception as failure:
                told[1] = failure
        with _lost_are_named(self.rank):
            dist.broadcast_object_list(told, 0)
        if told[1] is not None:
            raise told[1]
        value: Value = told[0]
        return value


class _Gather(torch.autograd.Function):
    """Everybody's rows; in the backward pass everybody's gradients are added, and each takes those of its own rows.

    The anchor makes autograd call `backward` in every process, also in one whose rows have no gradient (a factor
    that is absent from its whole share): a collective that one process leaves out stops all the others.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, anchor: Tensor, rank: int, counts: list[int]) -> Tensor:  # noqa: ARG004
        padded = values.new_zeros(max(counts), *values.shape[1:])
        padded[: len(values)] = values
        parts = [torch.empty_like(padded) for _ in counts]
        with _lost_are_named(rank):
            dist.all_gather(parts, padded)
        ctx.rank, ctx.counts = rank, counts
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        total = grads[0].contiguous().clone()
        with _lost_are_named(ctx.rank):
            dist.all_reduce(total)
        start = sum(ctx.counts[: ctx.rank])
        return total[start : start + ctx.counts[ctx.rank]], total.new_zeros(()), None, None


@contextmanager
def _lost_are_named(rank: int) -> Iterator[None]:
    """A broken connection says what it means."""
    try:
        yield
    except RuntimeError as failure:
        raise errors.lost_process(rank, failure) from failure
