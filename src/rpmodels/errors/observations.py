"""What is wrong with the data that were handed in."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rpmodels.errors.kinds import InputError, RPModelsWarning


def no_factors(known: Sequence[str]) -> InputError:
    """An empty dict."""
    hint = f"at least one of {', '.join(known)}" if known else "a dict of named factors with at least one entry"
    return InputError(f"The data hold no factor: expected {hint}.")


def no_observations() -> InputError:
    """Zero rows."""
    return InputError("The data hold no observations: expected at least 1 along the first axis, got 0.")


def unknown_factor(name: str, known: Sequence[str]) -> InputError:
    """A name that the model or the data do not have."""
    return InputError(f"Unknown factor '{name}': expected one of {', '.join(known)}.")


def columns_of_a_dict() -> InputError:
    """factors= beside a dict."""
    return InputError(
        "factors= says which columns of one array belong to which factor, but the data are already a dict of "
        "factors. Drop factors=, or hand in one array."
    )


def bad_columns(name: str, columns: object, width: int) -> InputError:
    """Columns that do not exist."""
    return InputError(
        f"factors['{name}']: expected column numbers from 0 to {width - 1} (the data have {width} columns), "
        f"got {columns!r}."
    )


def ragged(name: str) -> InputError:
    """Rows of different shapes."""
    return InputError(
        f"Factor '{name}' is not one array: its rows have different shapes. Expected (N, *event); trials of unequal "
        "length go to a model of sequences, as a list of (T_n, *event) arrays; spike times are counted in bins first "
        "(rp.adapters.binned)."
    )


def bad_dtype(name: str, dtype: str) -> InputError:
    """Objects, complex numbers, dates, or strings where numbers belong."""
    return InputError(
        f"Factor '{name}': expected numbers (float, integer, boolean), or one label per row (string, integer); "
        f"got {dtype}. Convert it first, for example with .astype(float)."
    )


def sparse(name: str) -> InputError:
    """A sparse tensor, which would be as large as its shape."""
    return InputError(f"'{name}': expected a dense array, got a sparse tensor. Convert it with .to_dense().")


def too_large(name: str, limit: str, instead: str) -> InputError:
    """Numbers that cannot be computed with."""
    return InputError(f"Factor '{name}': expected numbers below {limit}, got larger ones. Use {instead}.")


def no_columns(name: str, shape: tuple[int, ...]) -> InputError:
    """Observations of nothing."""
    return InputError(
        f"Factor '{name}': expected observations of at least one number, got observations of shape {shape}. Leave the "
        "factor out."
    )


def different_counts(counts: Mapping[str, int]) -> InputError:
    """Factors of different N."""
    listed = ", ".join(f"'{name}' has {count}" for name, count in counts.items())
    return InputError(
        f"Factors must have the same number of observations: {listed}. Where a factor was not recorded, "
        "keep its row and fill it with NaN (or say so in presence=)."
    )


def unknown_column(factor: str, name: str, known: Sequence[str]) -> InputError:
    """A column of a data frame that is not there."""
    listed = ", ".join(map(str, known)) or "none: the data have no column names"
    return InputError(f"factors['{factor}']: expected names of columns ({listed}), got {name!r}.")


def event_shape(name: str, expected: tuple[int, ...], got: tuple[int, ...], label: bool) -> InputError:
    """New data unlike the training data."""
    what = "one label per row" if label else f"observations of shape {expected} (as in training)"
    return InputError(f"Factor '{name}': expected {what}, got observations of shape {got}.")


def infinite(name: str, n: int, t: int, count: int) -> InputError:
    """inf in the data."""
    return InputError(
        f"Factor '{name}' has infinite values in {count} row(s), first in observation {n}, site {t}. Expected finite "
        "numbers; a row that is missing should be all NaN."
    )


def partly_missing(name: str, n: int, t: int, missing: int, width: int, count: int) -> InputError:
    """NaN inside a row."""
    return InputError(
        f"Factor '{name}': {count} row(s) are partly NaN, first observation {n}, site {t} ({missing} of {width} "
        "values). A whole missing row is free (the factor is dropped exactly), part of one is not: the network needs "
        "an input. Fill the gaps, make the row all NaN, split the columns into several factors, or, for "
        "channels that are independent given the latents, choose channels='separate': each of them may be missing."
    )


def no_atoms(name: str) -> InputError:
    """A population is a mixture over the values of its channels."""
    return InputError(
        f"Factor '{name}' is a population, whose mixtures are over the values of its channels: it has no atoms. Its "
        f"curves are model.recogniser('{name}').curves(); channels='together' makes it a factor with atoms."
    )


def no_rows(name: str) -> InputError:
    """Rows that p₀ shall stand on, none of which is there."""
    return InputError(f"rows: expected observations of factor '{name}', got none that is present.")


def population_predicts(name: str) -> InputError:
    """A population is predicted channel by channel."""
    return InputError(
        f"Factor '{name}' is a population, which has no atoms: what its channels are expected to show is "
        f"model.rates(X, '{name}'), and how probable every value is model.channel_probabilities(X, '{name}')."
    )


def which_population(names: Sequence[str]) -> InputError:
    """More than one."""
    return InputError(f"factor: expected the name of one of the populations {', '.join(names)}, got None.")


def no_population(name: str, known: Sequence[str]) -> InputError:
    """Rates and tuning are those of channels that are recognised one by one."""
    some = f"Populations of this model: {', '.join(known)}." if known else "This model has none."
    return InputError(
        f"Factor '{name}' is recognised by one network: expected a population, whose channels are recognised one by "
        f"one. {some} Choose channels='separate' when the model is fitted."
    )


def own_collate() -> InputError:
    """Batches that somebody makes by himself."""
    return InputError(
        "DataLoader: expected one that puts items together as torch does, got a collate_fn of its own. Hand in its "
        "Dataset, with items as dicts or tuples of arrays."
    )


def unseen_label(name: str, label: object, vocabulary: Sequence[object]) -> InputError:
    """A label that training did not have."""
    shown = ", ".join(map(str, vocabulary[:10])) + (", …" if len(vocabulary) > 10 else "")
    return InputError(
        f"Factor '{name}': label {label!r} was not in the training data (labels there: {shown}). "
        "Mark it as missing with presence=."
    )


def other_specs(got: Mapping[str, Any], expected: Mapping[str, Any]) -> InputError:
    """Observations that were read without the model."""
    differing = [name for name in {**expected, **got} if got.get(name) != expected.get(name)]
    return InputError(
        f"These observations do not match the model in {', '.join(map(str, differing))}: expected factors, shapes and "
        "labels as in training. Read new data with rp.read(data, known=model.specs)."
    )


def all_missing(names: Sequence[str]) -> InputError:
    """Nothing there."""
    return InputError(
        f"Everything is missing: no row of {', '.join(names)} is present. Expected some that are not NaN."
    )


def nothing_to_learn(name: str, sites: int) -> InputError:
    """J = 1 with T = 1, or with sites that the prior holds independent."""
    where = "one site per observation" if sites == 1 else f"{sites} sites that the prior holds independent"
    return InputError(
        f"Only one factor ('{name}') with {where}: an RPM learns what makes several observations "
        "depend on each other, and here there is nothing to depend on (the maximum of the likelihood is the "
        "independent model). Hand in a dict of two or more factors, or split the columns with factors={name: columns}."
    )


def too_few_atoms(name: str, count: int) -> InputError:
    """Fewer than two present rows."""
    return InputError(
        f"Factor '{name}' is present in {count} row(s) of the training data: expected at least 2, because its mixture "
        "F_j is made of the training observations. Leave the factor out."
    )


def never_overlaps(name: str, others: Sequence[str]) -> InputError:
    """A factor that is always alone."""
    return InputError(
        f"Factor '{name}' is never present together with another observation of the same trial "
        f"({', '.join(others) or 'there is no other factor'}): nothing can be learnt about it. Expected some "
        "observations with two or more factors."
    )


def constant_channels(factor: str, channels: Iterable[Any]) -> RPModelsWarning:
    """Warning: no variance."""
    listed = [int(channel) for channel in channels]
    shown = ", ".join(map(str, listed[:10])) + (", …" if len(listed) > 10 else "")
    return RPModelsWarning(
        f"Factor '{factor}': {len(listed)} channel(s) are constant in the training data ({shown}); they carry nothing "
        "and are only centred."
    )
