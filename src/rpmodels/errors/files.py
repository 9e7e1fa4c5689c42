"""Model files."""

from collections.abc import Sequence

from rpmodels.errors.kinds import FileError, RPModelsWarning


def no_such_file(path: str) -> str:
    """Nothing there."""
    return f"No such file: {path}."


def no_regular_file(path: str, kind: str) -> FileError:
    """A device, a FIFO, a folder."""
    return FileError(
        f"{path} is {kind}: expected a file, or a name that is not taken, because what is there is replaced as a "
        "whole. Nothing was written; choose another path."
    )


def cannot_be_written(path: str, why: object) -> FileError:
    """What the disk says."""
    return FileError(
        f"{path} could not be written ({why}): what was there before is as it was. Expected room, and a folder that "
        "can be written to; make some, or choose another path."
    )


def malformed(path: str, why: object) -> FileError:
    """Whole by its digest, and no file that this library wrote."""
    return FileError(
        f"{path} is whole, but not as `save` writes it ({why}): expected a file that was written by this library, and "
        "by nobody else since. Nothing was opened; copy it again from where it was saved."
    )


def asks_for_too_much(numbers: int, most: int) -> FileError:
    """A header whose sizes are not those of its tensors."""
    return FileError(
        f"The file speaks of a part with {numbers} numbers, and holds too few for it: expected at most {most}. Nothing "
        "was opened; copy the file again from where it was saved."
    )


def not_numbers_in_file(path: str, names: Sequence[str]) -> FileError:
    """NaN among the parameters."""
    return FileError(
        f"{path}: {len(names)} tensor(s) hold NaN ({', '.join(names[:5])}), which no fitted model has: expected "
        "numbers. Nothing was opened; fit the model again."
    )


def not_a_model_file(path: str, why: object) -> FileError:
    """Something else, or cut short."""
    return FileError(
        f"{path} is not a model file of this library, or it is cut short: expected what `save` writes ({why})."
    )


def damaged_file(path: str) -> FileError:
    """The digest differs."""
    return FileError(
        f"{path} is damaged: its contents differ from what was written (the digest does not match). Copy it again "
        "from where it was saved."
    )


def newer_format(path: str, got: int, known: int, version: str) -> FileError:
    """From the future."""
    return FileError(
        f"{path} has format {got}, written by rpmodels {version}: this version reads formats up to {known}. "
        "Install a newer rpmodels to open it."
    )


def other_class(path: str, expected: str, got: str) -> FileError:
    """A file of another estimator."""
    return FileError(f"{path} holds a fitted {got}: expected {expected}. Open it with rp.load, or with {got}.load.")


def unknown_class(path: str, got: str) -> FileError:
    """A class this version does not have."""
    return FileError(f"{path} holds a fitted {got}, which is not known here. Import the module that defines it first.")


def unknown_part(kind: str) -> FileError:
    """A recipe names a class this version does not have."""
    return FileError(
        f"The file speaks of an unknown part '{kind}': nothing was built. Install the rpmodels that wrote it."
    )


def needs_own_part(path: str, argument: str, kind: str) -> FileError:
    """A user's own module or object is not in the file."""
    return FileError(
        f"{path}: the {argument} is your own {kind}; a file holds its tensors but not its code. Pass one that is built "
        f"alike: rp.load(path, {argument.split(maxsplit=1)[0]}=…)."
    )


def parts_do_not_fit(path: str, names: Sequence[str]) -> FileError:
    """What was handed in is built otherwise."""
    return FileError(
        f"{path}: {len(names)} tensor(s) do not fit what they belong to ({', '.join(names[:5])}). If you passed parts "
        "of your own, build them as they were when the model was saved."
    )


def not_for_fitting(argument: str, kind: str) -> RPModelsWarning:
    """Warning: something that only fit needs was the user's own."""
    return RPModelsWarning(
        f"{argument} was your own {kind}, which is not in the file: it is None now. Pass {argument}= to fit again."
    )
