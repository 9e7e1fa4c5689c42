"""Callbacks: anything that takes the loop's `State` after every step of the final run, and may ask it to stop.

A callback is a callable `(state: State) -> None`, given to an estimator as `training=rp.Training(callbacks=[…])`, or to
`rp.train` as `callbacks=[…]`. The state
has

* `step`: 1, 2, 3, …; larger at the first call when other starts were judged before, or a fit is resumed
* `terms`: {"free_energy": …, "prior": …, "recognition": …, "mixture": …, "parameters": …} of the step's batch, in nats
  per observation; `free_energy` is what is maximised
* `finite`: False when the free energy or a gradient was not, and so no step was taken
* `learning_rate`: of the step
* `stop_reason`: None; a text here stops the run after this step, and becomes the estimator's `stop_reason_`
* `model`: the module that is trained (an `RPM`), in training mode; whoever calls its `eval()` to look at it must call
  `train()` again

What a callback does else is its own affair: it gets no gradients, and changes nothing of the fit but its end.

    def enough(state):
        if state.terms["free_energy"] > 2.0:
            state.stop_reason = f"good enough after {state.step} steps"

    callbacks = [enough, rp.TimeLimit(60), rp.callbacks.TensorBoard("logs/first")]
    rp.RPFA(2, training=rp.Training(callbacks=callbacks)).fit(X)

scikit-learn copies the arguments of an estimator (`clone`), and other processes get them pickled, so a callback that
holds files or threads should open them at its first call, as `TensorBoard` does.
"""

import weakref
from pathlib import Path
from types import TracebackType
from typing import Any

from rpmodels import errors
from rpmodels.learning import State, TimeLimit
from rpmodels.learning.loop import Consumer as Callback

__all__ = ["Callback", "State", "TensorBoard", "TimeLimit"]


class TensorBoard:
    """Writes every named term and the learning rate for TensorBoard (`pip install tensorboard`).

    One fit, one folder: a later fit into the same folder replaces the curves from its first step on, so that a fit
    which was killed and resumed has whole ones. What was written is on disk after `close`, at the end of the process,
    or after `flush_seconds`; as a context manager it closes itself.

    Args:
        log_dir: the folder; `tensorboard --logdir` shows it, or all folders in its parent
        every: steps between two rows
        flush_seconds: how often rows go to disk

    """

    def __init__(self, log_dir: str | Path, *, every: int = 1, flush_seconds: int = 10) -> None:
        self.log_dir = log_dir
        self.every = every
        self.flush_seconds = flush_seconds
        self._writer: Any = None
        self._end: Any = None
        self._step = -1

    def __call__(self, state: State) -> None:
        """Write a row."""
        if state.step <= self._step:  # another run has begun
            self.close()
        self._step = state.step
        if self._writer is None:
            self._open(state.step)
        if state.step % self.every == 0 or state.stop_reason is not None:
            for name, value in {**state.terms, "learning_rate": state.learning_rate}.items():
                self._writer.add_scalar(name, value, state.step)

    def _open(self, step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415
        except ImportError as failure:
            raise errors.needs_package("TensorBoard", "tensorboard", "pip install tensorboard") from failure
        self._writer = SummaryWriter(str(self.log_dir), purge_step=step, flush_secs=self.flush_seconds)
        # Rows wait in a thread that dies with the process: the last of them would be lost.
        self._end = weakref.finalize(self, self._writer.close)

    def close(self) -> None:
        """Write what is left. The next step, if there is one, goes on in a new file."""
        if self._writer is not None:
            self._end()
        self._writer = self._end = None
        self._step = -1

    def __enter__(self) -> "TensorBoard":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """A copy opens its own file."""
        return {**vars(self), "_writer": None, "_end": None, "_step": -1}
