"""What is wrong with streams."""

from collections.abc import Sequence

from rpmodels.errors.kinds import BuildError, FileError, InputError


def no_filter(prior: str) -> BuildError:
    """A prior without a state of constant size."""
    return BuildError(
        f"A stream needs a prior whose past is a state of constant size, which {prior} has not: with inducing points, "
        "every time looks at all others. Fit with kernel='matern52' (or 'matern32', 'matern12'), n_inducing=None and "
        "without a mean function, which is exact and has such a state; or use `filter` on all that has arrived."
    )


def no_clock() -> InputError:
    """Times where steps are counted."""
    return InputError(
        "time: this model counts steps and has no clock. Call update() without any factor for every step in which "
        "nothing arrived."
    )


def back_in_time(now: float, last: float) -> InputError:
    """An update from the past."""
    return InputError(
        f"time: expected {last:g}, the time of the last update, or later; got {now:g}. What arrives late cannot be "
        "heard by a stream: sort by time, or use `filter` on all of it."
    )


def other_state(what: str, expected: object, got: object) -> InputError:
    """A state that does not fit."""
    return InputError(
        f"{what} of the state: expected {expected}, got {got}. A state belongs to the model and the number of series "
        "of the stream that it was taken from."
    )


def state_of_another_model(path: str) -> FileError:
    """Saved by the stream of another fit."""
    return FileError(
        f"{path} holds the state of a stream of another model: expected one that was saved by a stream of this very "
        "fit, in the same precision. Load the model that it was saved with."
    )


def not_a_stream_file(path: str) -> FileError:
    """A sealed file of another kind."""
    return FileError(f"{path} holds no state of a stream: expected what `stream.save` writes.")


def needs_onnx(missing: str) -> ImportError:
    """Packages that are not there."""
    return ImportError(
        f"Writing .onnx files needs the package '{missing}': pip install 'rpmodels[onnx]'. Files of PyTorch (.pt2) "
        "need nothing else."
    )


def unknown_form(path: str, known: Sequence[str]) -> InputError:
    """A suffix that says nothing."""
    return InputError(f"path: expected a file name that ends in {' or '.join(known)}, got {path}.")
