"""People's own data on the command line."""

from collections.abc import Sequence

from rpmodels.errors.kinds import InputError, RPModelsWarning, RunError


def no_data_file(path: str) -> InputError:
    """Nothing there."""
    return InputError(f"{path}: no such file. Expected a file of data that is there; look at the path.")


def unknown_suffix(path: str, known: Sequence[str]) -> InputError:
    """A file that nobody here reads or writes."""
    return InputError(f"{path}: expected a name that ends with one of {', '.join(known)}. Convert the file first.")


def unreadable(path: str, expected: str, why: object) -> InputError:
    """Damaged, or something else under this name."""
    return InputError(f"{path} cannot be read: expected {expected}, got: {str(why).strip()[:300]}.")


def holds_objects(path: str, name: str) -> InputError:
    """An array that only pickle could open."""
    return InputError(
        f"{path}: array '{name}' holds Python objects, which are never opened (they may hold code). Expected numbers, "
        "or strings of dtype 'U'. Save it with .astype(float) or .astype(str); trials of unequal length go into a "
        "long .csv with --trial."
    )


def factor_twice(name: str, where: str) -> InputError:
    """Two factors of one name."""
    return InputError(f"Factor '{name}' is there twice ({where}): expected a name of its own for every factor.")


def table_alone(paths: Sequence[str]) -> InputError:
    """A table beside other files."""
    return InputError(
        f"A table (.csv, .parquet) holds all factors by itself: expected one file, got {', '.join(paths)}. Join them "
        "into one table first."
    )


def bad_factor_text(text: str) -> InputError:
    """--factor that names no columns."""
    return InputError(f"--factor: expected NAME=column,column,…, each name once; got {text!r}.")


def factors_have_names(names: Sequence[str]) -> InputError:
    """--factor beside arrays that are factors already."""
    return InputError(
        f"--factor shares out the columns of one table or one array, and the data are {len(names)} factors already "
        f"({', '.join(names)}). Drop --factor, or give one file."
    )


def bad_column_numbers(factor: str, words: Sequence[str], width: int) -> InputError:
    """Columns of an array that do not exist."""
    return InputError(
        f"--factor {factor}: expected numbers of columns from 0 to {width - 1}, or a range such as 0:{width}; got "
        f"{','.join(words)}."
    )


def needs_factors(model: str, columns: Sequence[str]) -> InputError:
    """A table of which nobody said what belongs together."""
    return InputError(
        f"Which columns belong to which factor? {model} learns what several factors share: give --factor "
        f"NAME=column,column two times or more. The columns are {_several(columns)}."
    )


def no_such_column(option: str, name: str, known: Sequence[str]) -> InputError:
    """A column that the table does not have."""
    return InputError(f"{option}: expected a column of the table ({_several(known)}), got {name!r}.")


def not_numbers(factor: str, column: str, example: object) -> InputError:
    """Words among numbers."""
    return InputError(
        f"Factor '{factor}', column '{column}': expected numbers, got {str(example)[:80]!r}. Correct the file (an "
        "empty cell is missing), or leave the column out; a column of labels is a factor by itself (--factor "
        "NAME=COLUMN, and --label NAME if its labels look like numbers)."
    )


def label_columns(factor: str, columns: Sequence[str]) -> InputError:
    """--label for several columns, or for no factor at all."""
    got = f"{len(columns)} columns ({_several(columns)})" if columns else "no --factor of this name"
    return InputError(f"--label {factor}: expected a factor of one column, got {got}.")


def option_not_for(option: str, model: str, why: str) -> InputError:
    """An option that means nothing to this model, or to these data."""
    return InputError(f"{option} is not for {model}: {why}.")


def needs_trial(model: str, columns: Sequence[str]) -> InputError:
    """A long table of which nobody said what belongs together."""
    return InputError(
        f"{model} takes observations of several parts each: expected --trial COLUMN, which says to which one every row "
        f"belongs. The columns are {_several(columns)}."
    )


def no_trial_of_row(column: str, count: int, first: int) -> InputError:
    """Gaps in the column of trials."""
    return InputError(
        f"--trial {column}: expected a trial for every row, got none in {count} row(s), first row {first}. Fill them, "
        "or remove the rows."
    )


def bad_time_column(column: str, got: str) -> InputError:
    """Times that do not order the rows."""
    return InputError(
        f"--time {column}: expected a number in every row, no two alike within a trial; got {got}. Correct the column, "
        "or leave --time out to count rows."
    )


def times_run_on(column: str, first: float, second: float) -> InputError:
    """The clock of a session."""
    return InputError(
        f"--time {column}: the times run on from trial to trial (one ends at {first:g}, the next begins at "
        f"{second:g}), so no two trials would share any. Expected times within trials: add --align to count every "
        "trial from its first row."
    )


def uneven_steps(model: str, column: str) -> RPModelsWarning:
    """Warning: time stamps that the model does not see."""
    return RPModelsWarning(
        f"The times in column '{column}' are not evenly spaced, and {model} counts rows: the column only orders them. "
        "Put rows with empty cells where bins are missing, or use gpfa."
    )


def one_factor_only(model: str, names: Sequence[str]) -> InputError:
    """Several factors where one is expected."""
    listed = ", ".join(map(str, names))
    return InputError(f"{model} takes one factor: expected one array, one list, or one --factor; got {listed}.")


def other_size(model: str, expected: str, got: str) -> InputError:
    """--latents for states, or the reverse."""
    return InputError(f"{got} is not for {model}: expected {expected} K.")


def no_size(model: str, got: str) -> InputError:
    """--latents for a model that always has one."""
    return InputError(f"{got} is not for {model}: it always has one latent. Leave it out.")


def bad_setting_text(text: str) -> InputError:
    """--set without a value."""
    return InputError(f"--set: expected ARGUMENT=VALUE, each argument once; got {text!r}.")


def unknown_setting(model: str, name: str, known: Sequence[str]) -> InputError:
    """An argument that the estimator does not have."""
    inside = [each for each in known if each.rpartition(".")[2] == name]
    return InputError(f"--set {name}: {model} has no such argument. Expected one of {', '.join(inside or known)}.")


def not_by_set(name: str, instead: str) -> InputError:
    """An argument that has an option of its own, or none."""
    return InputError(f"--set {name} is not possible here: {instead}.")


def fit_is_there(folder: str) -> RunError:
    """An earlier fit."""
    return RunError(f"{folder} holds a fit already. Choose another --out, or --force to replace it.")


def not_a_fit(folder: str) -> RunError:
    """Somebody else's files."""
    return RunError(
        f"{folder} is not empty and was not made by `rpmodels fit` (no readable fit.json): nothing there was touched. "
        "Choose another --out."
    )


def cannot_write(folder: str, why: object) -> RunError:
    """No place for results."""
    return RunError(f"{folder}: expected a folder that can be written to ({why}). Choose another --out.")


def is_an_input(path: str) -> RunError:
    """Results where the data are."""
    return RunError(f"{path} is among the data: it would be replaced by what is made of it. Choose another --out.")


def nothing_to_tell(path: str) -> RunError:
    """Neither model nor folder of results."""
    return RunError(
        f"{path}: expected a model file, or a folder that `rpmodels run` or `rpmodels fit` made (with a readable "
        "settings.json or fit.json)."
    )


def _several(names: Sequence[str], most: int = 12) -> str:
    """The first of them."""
    return ", ".join(map(str, names[:most])) + (f", … ({len(names)} in all)" if len(names) > most else "")


def report_needs_data(path: str) -> RunError:
    """A model file alone."""
    return RunError(f"A page of {path} shows the model on data, and none were given: rpmodels report {path} DATA.")


def table_of_events(path: str, model: str, unit: str, time: str, trial: str | None, width: float) -> InputError:
    """Names of units among numbers."""
    named = f" --trial {trial}" if trial else ""
    return InputError(
        f"{path} looks like a table of events (a row for every event: '{unit}' names its unit, '{time}' tells when), "
        f"and names of units are no numbers to fit. Count them in bins: rpmodels fit {path} --model {model} --events "
        f"{unit} --time {time}{named} --bin {width:g} --out FOLDER. If it holds samples, name the columns to fit "
        "(--factor x=COLUMN), none of which is called like a unit; a column of labels is one with --label."
    )


def no_trials_to_decode(folder: str) -> RunError:
    """Latents without trials or times."""
    return RunError(
        f"{folder}: expected the fit of a table with --trial and --time by a model that knows when its latents are, "
        "and found none. Decode in Python: rp.evaluation.decode(latents, behaviour)."
    )


def new_units(names: Sequence[str]) -> RPModelsWarning:
    """Warning: units that the fit had no events of."""
    return RPModelsWarning(
        f"{len(names)} unit(s) had no events in the data of the fit, and are left out: {_several(names)}."
    )


def one_trial(option: str, column: str, rows: int) -> RPModelsWarning:
    """Warning: a table of one trial."""
    return RPModelsWarning(
        f"{option} {column} names one trial only, of {rows} rows: nothing can be held out, and its latents may be "
        f"learnt by heart. Hand in several trials, or leave {option} out: a long recording is then cut into windows."
    )
