"""Labels that say p(label | state), and models that are brought to other data."""

from rpmodels.errors.kinds import BuildError


def no_labels(name: str, kind: str) -> BuildError:
    """p(label | state) of numbers."""
    return BuildError(
        f"Factor '{name}': rp.{kind} is for one label (string or integer) per row, got numbers. Hand in labels of "
        "shape (N,), or leave the factor to be recognised."
    )


def labels_need_states(name: str, kind: str, latents: str) -> BuildError:
    """p(label | state) where there are no states."""
    return BuildError(
        f"Factor '{name}': rp.{kind} says p(label | state), and the latents of this model are {latents}. Use "
        "RPCategorical, RPHMM or RPGraph, or leave the labels to be recognised."
    )


def too_few_states_to_pin(name: str, states: int, labels: int) -> BuildError:
    """More labels than states."""
    return BuildError(
        f"Factor '{name}': {labels} labels cannot be pinned to {states} states. Give as many states as labels or more "
        "(then several share a label), or a table p(label | state)."
    )


def nothing_to_adapt(prior: str) -> BuildError:
    """A prior in which nothing can change while what factors are relative to stays."""
    return BuildError(
        f"adapt_prior: {prior} has nothing that can change while the factors stay as they are: expected probabilities "
        "of states, transitions, tables, length scales, or dynamics without inputs. A prior whose mean or scale has "
        "changed asks for another fit (training.warm_start=True goes on from this one)."
    )
