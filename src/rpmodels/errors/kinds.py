"""The exceptions and the warning that the library raises."""


class RPModelsError(Exception):
    """Anything this library raises on purpose."""


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


class MissingPackageError(RPModelsError, ImportError):
    """An optional package is not installed."""
