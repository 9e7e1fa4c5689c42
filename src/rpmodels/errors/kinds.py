"""The exceptions and the warning that the library raises."""

LONGEST = 2000
"""Characters of a text: what people hand in is repeated in it, and may have any size."""


def cut(text: str) -> str:
    """A text of a sane length: its beginning, and its end, which says what to do."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST * 3 // 4]} … {text[-LONGEST // 4 :]}"


class RPModelsError(Exception):
    """Anything this library raises on purpose."""

    def __init__(self, text: str = "") -> None:
        super().__init__(cut(text))


class InputError(RPModelsError, ValueError):
    """What was handed in cannot be used."""


class ArgumentError(RPModelsError, TypeError):
    """A function or class has no such argument."""


class BuildError(RPModelsError, ValueError):
    """Parts that do not go together."""


class NumericalError(RPModelsError, ArithmeticError):
    """A computation lost its footing."""


class DataSetError(RPModelsError, OSError):
    """A data set is missing or damaged."""


class FileError(RPModelsError, OSError):
    """A model file cannot be used."""


class RunError(RPModelsError, RuntimeError):
    """An experiment cannot run as asked."""


class RPModelsWarning(UserWarning):
    """Something worth knowing that does not stop the work."""

    def __init__(self, text: str = "") -> None:
        super().__init__(cut(text))


class MissingPackageError(RPModelsError, ImportError):
    """An optional package is not installed."""
