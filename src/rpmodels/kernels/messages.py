"""Both messages of chains of discrete states, as probabilities; one chain after the other."""

from typing import Any

import numpy as np

from rpmodels.kernels.arithmetic import exp, log, plain


@plain
def pass_both(initial: Any, transition: Any, said: Any, there: Any, past: Any, future: Any, after: Any, log_w: Any) -> None:  # noqa: E501  # fmt: skip
    """Potentials `said`, [N, T, K], of sites that are `there`: into past, future and after, and log W, [N]."""
    count, times, states = said.shape
    turned = np.ascontiguousarray(transition.T)
    state, arriving = np.empty(states, said.dtype), np.empty(states, said.dtype)
    for n in range(count):
        arriving[:] = initial
        for t in range(times):
            weights, highest = future[n, t], said[n, t, 0]
            for k in range(1, states):
                highest = max(highest, said[n, t, k])
            for k in range(states):
                weights[k] = exp(said[n, t, k] - highest)
            total = _normalised(state, arriving, weights, there[n, t])
            past[n, t] = state
            if there[n, t]:
                log_w[n] += log(total) + highest
            _moved(arriving, state, transition)
        arriving[:] = 1
        after[n, times - 1] = 1
        for t in range(times - 1, -1, -1):
            _normalised(state, arriving, future[n, t], there[n, t])
            future[n, t] = state
            _moved(arriving, state, turned)
            if t:
                after[n, t - 1] = 1
                if there[n, t]:
                    after[n, t - 1] = arriving


@plain
def _normalised(state: Any, arriving: Any, weights: Any, there: bool) -> Any:
    """What arrives times what is said; beyond the end nothing is, whatever came before. Returns what it summed to."""
    total = state.dtype.type(0.0)
    for k in range(len(state)):
        state[k] = arriving[k] * weights[k] if there else 1.0 / len(state)
        total += state[k]
    for k in range(len(state)):
        state[k] /= total
    return total


@plain
def _moved(arriving: Any, state: Any, transition: Any) -> None:
    arriving[:] = 0
    for i in range(len(state)):
        for j in range(len(state)):
            arriving[j] += state[i] * transition[i, j]
