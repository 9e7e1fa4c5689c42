"""Data sets, experiments, packages that are missing."""

from collections.abc import Sequence

from rpmodels.errors.kinds import DataSetError, InputError, MissingPackageError, RPModelsWarning, RunError


def data_missing(file: str, folder: str, command: str) -> DataSetError:
    """Nowhere to be found."""
    return DataSetError(
        f"{file} was not found in {folder} and could not be downloaded. Put the file there, or set RPMODELS_DATA to "
        f"the folder that has it, or, with a network, run: {command}"
    )


def data_not_shared(file: str, folder: str) -> DataSetError:
    """May not be passed on, so nobody can download it."""
    return DataSetError(
        f"{file} was not found in {folder}. It may not be redistributed: put your own copy there, set RPMODELS_DATA to "
        "the folder that has it, or pass path=, a file or folder of the originals."
    )


def data_to_bring(file: str, folders: Sequence[str], source: str) -> DataSetError:
    """Never downloaded: people bring it."""
    return DataSetError(
        f"{file} was not found: expected it in {' or '.join(folders)}. Put the file there (RPMODELS_DATA names the "
        f"folder above); it comes from {source}, and is never downloaded."
    )


def data_corrupt(path: str, expected: str, got: str) -> DataSetError:
    """Wrong bytes."""
    return DataSetError(f"{path} is damaged: expected {expected}, got {got}. Delete it and fetch it again.")


def too_few_images(label: object, needed: int, have: int) -> InputError:
    """Not enough of one class."""
    return InputError(f"Class {label}: expected at least {needed} images for the groups asked for, got {have}.")


def unknown_experiment(name: str, known: Sequence[str]) -> RunError:
    """No such script."""
    return RunError(f"Unknown experiment '{name}': expected one of {', '.join(known)}.")


def unknown_method(names: Sequence[str], known: Sequence[str]) -> RunError:
    """--method keeps nothing."""
    return RunError(f"--method {' '.join(names)} names no row of this experiment: expected some of {', '.join(known)}.")


def other_settings(folder: str, differing: Sequence[str]) -> RunError:
    """Results of other settings stand there."""
    return RunError(
        f"{folder} holds results of other settings ({', '.join(differing)} differ). Choose another --out, or --force "
        "to replace them."
    )


def foreign_folder(folder: str) -> RunError:
    """Somebody else's files."""
    return RunError(
        f"{folder} is not empty and was not made by `rpmodels run` (no readable settings.json): nothing there was "
        "touched. Choose another --out."
    )


def not_a_folder(path: str) -> RunError:
    """--out names a file."""
    return RunError(f"{path} is a file: expected a folder, or a name that is not taken. Choose another.")


def no_run(folder: str) -> RunError:
    """No metrics.json."""
    return RunError(f"{folder} holds no finished run: expected a metrics.json, as `rpmodels run` writes it.")


def would_overwrite(path: str) -> RunError:
    """A file is there already."""
    return RunError(f"{path} is there already. Choose another --out, or --force to replace it.")


def needs_package(what: str, package: str, command: str) -> MissingPackageError:
    """A part that needs more than the library itself does."""
    return MissingPackageError(f"{what} needs the package {package}, which is not installed: {command}.")


def package_too_old(what: str, package: str, wanted: str, found: str, command: str) -> MissingPackageError:
    """An extra that is there, but not the version it must be."""
    return MissingPackageError(f"{what} needs {package} ≥ {wanted}, and {found} is installed: {command}.")


def do_not_belong(said: Sequence[str]) -> str:
    """What `on_drift` says, as a warning or an error."""
    return (
        f"These data are not like those of the fit: {' '.join(said)} Look at them (rp.evaluation.diagnose, `rpmodels "
        "report`), mend or leave out what does not belong, or fit again."
    )


def drifted(said: Sequence[str]) -> InputError:
    """on_drift="raise"."""
    return InputError(do_not_belong(said))


def drifting(said: Sequence[str]) -> RPModelsWarning:
    """on_drift="warn"."""
    return RPModelsWarning(do_not_belong(said))


def no_profile() -> InputError:
    """A file of an earlier version."""
    return InputError(
        "on_drift: expected a model that knows what the data of its fit were like, got one without such a profile (an "
        "older file, or a model that was put together by hand). Leave on_drift out, or fit again."
    )
