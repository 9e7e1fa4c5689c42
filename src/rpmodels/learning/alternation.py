"""E and M by turns: the per-trial parameters for some steps, everything else for as many (the paper's EM)."""

from typing import Any

from rpmodels.learning.loop import Objective, State


class Alternation:
    """Freezes the trials' own parameters and the rest of the model by turns, `every` steps each, E first."""

    def __init__(self, objective: Objective[Any], every: int, step: int) -> None:
        self._every = every
        self._local = [parameter for parameter in objective.local_parameters() if parameter.requires_grad]
        own = {id(parameter) for parameter in self._local}
        self._rest = [p for p in objective.parameters() if p.requires_grad and id(p) not in own]
        self._turn(step)

    def _turn(self, step: int) -> None:
        inferring = (step // self._every) % 2 == 0
        for parameters, active in ((self._local, inferring), (self._rest, not inferring)):
            for parameter in parameters:
                parameter.requires_grad_(active)

    def __call__(self, state: State) -> None:
        """Change sides when it is time."""
        if state.step % self._every == 0:
            self._turn(state.step)

    def end(self) -> None:
        """Everything learns again."""
        for parameter in (*self._local, *self._rest):
            parameter.requires_grad_(True)
