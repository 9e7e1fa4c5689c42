"""What cannot be asked of a model, or of these data."""

from collections.abc import Sequence

from rpmodels.errors.kinds import BuildError, InputError


def name_taken(name: str, one: str, other: str) -> BuildError:
    """Two estimators of one name."""
    return BuildError(
        f"{one} and {other} are both called '{name}' on the command line: expected a name of its own in every "
        "description. Rename one of them."
    )


def not_taken(option: str, model: str, known: Sequence[str]) -> InputError:
    """An option that the estimator has no use for."""
    return InputError(
        f"{option}: {model} takes none. Expected nothing beside the data but {', '.join(known)}; leave {option} out."
    )


def one_recording(model: str) -> InputError:
    """Rows that are no observations."""
    return InputError(
        f"X: expected several trials to divide, got one long recording, which is one observation to {model}. Cut it "
        "into trials first: a list of (T_n, D), or an array (N, T, D)."
    )


def needs_variances(what: str, model: str) -> InputError:
    """Error bars of latents that have none."""
    return InputError(
        f"{what}: expected latents with a mean and a variance, and {model} gives none: its latents are no coordinates. "
        "Look at their probabilities instead (`latents(X)`)."
    )


def needs_times(what: str) -> InputError:
    """Paths of what does not move."""
    return InputError(
        f"{what}: expected latents along time, got those of a model without time. Use latents_2d, or pass times=."
    )


def not_drawn(what: str, kind: str) -> InputError:
    """A plot that knows no such latents."""
    return InputError(f"{what}: expected states, topics or coordinates, got a latent of kind {kind}: see `latents(X)`.")


def without_channels(verb: str, model: str) -> InputError:
    """A plot of populations, which models of continuous latents have."""
    return InputError(
        f"{verb}: expected a model of continuous latents, whose factors may be populations of channels, got {model}."
    )


def no_rivals(kind: str) -> InputError:
    """Latents that no baseline has."""
    return InputError(
        f"estimator: expected latents that other methods find too, got some of kind {kind}. Compare what can be read "
        "from them by `decode`."
    )


def not_its_training_data(model: str, factor: str, expected: int, got: int) -> InputError:
    """A gap of other data than those of the fit."""
    return InputError(
        f"X: expected the data that this {model} was fitted to, with the same sample_weight ({expected} of factor "
        f"'{factor}'), got others ({got}). Pass those of the fit, or an estimator that is not fitted."
    )
