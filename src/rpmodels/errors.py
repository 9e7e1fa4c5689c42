"""Every failure text of the library, in one place: what was expected, what came, what to do.

Functions return an exception for the caller to raise, or a warning text.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sklearn.exceptions import NotFittedError as _NotFitted


class RPModelsError(Exception):
    """Anything this library raises on purpose."""


class InputError(RPModelsError, ValueError):
    """What was handed in cannot be used."""


class BuildError(RPModelsError, ValueError):
    """Parts that do not go together."""


class NotFittedError(RPModelsError, _NotFitted):  # type: ignore[misc]
    """A fitted model is needed."""


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


# ---- values ------------------------------------------------------------------------------------


def bad_value(what: str, expected: str, got: object) -> InputError:
    """A value out of range."""
    return InputError(f"{what}: expected {expected}, got {got}.")


def bad_choice(what: str, choices: Iterable[str], got: object) -> InputError:
    """Not one of the names on offer."""
    return InputError(f"{what}: expected one of {', '.join(choices)}; got {got!r}.")


# ---- observations ------------------------------------------------------------------------------


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
        "length go to a model of sequences, as a list of (T_n, *event) arrays."
    )


def bad_dtype(name: str, dtype: str) -> InputError:
    """Objects, complex numbers, dates, or strings where numbers belong."""
    return InputError(
        f"Factor '{name}': expected numbers (float, integer, boolean), or one label per row (string, integer); "
        f"got {dtype}. Convert it first, for example with .astype(float)."
    )


def trials_disagree(name: str, shapes: Sequence[object]) -> InputError:
    """Trials with different events."""
    return InputError(
        f"Factor '{name}': expected a non-empty list of trials (T_n, *event) with one event shape, got event "
        f"shapes {', '.join(map(str, shapes)) or 'none'}."
    )


def different_counts(counts: Mapping[str, int]) -> InputError:
    """Factors of different N."""
    listed = ", ".join(f"'{name}' has {count}" for name, count in counts.items())
    return InputError(
        f"Factors must have the same number of observations: {listed}. Where a factor was not recorded, "
        "keep its row and fill it with NaN (or say so in presence=)."
    )


def different_lengths(first: str, second: str, trial: int, one: int, other: int) -> InputError:
    """Factors of different T in a trial."""
    return InputError(
        f"Trial {trial} has {one} time points in factor '{first}' and {other} in factor '{second}': expected the same "
        "number. Fill what was not recorded with NaN rows, or pass times={factor: …} if the factors have clocks of "
        "their own."
    )


def trial_without_length(trial: int) -> InputError:
    """None in every factor."""
    return InputError(
        f"Trial {trial} is None in every factor: how long it was is not known. Leave it out, or give one factor as "
        "rows of NaN."
    )


def unknown_column(factor: str, name: str, known: Sequence[str]) -> InputError:
    """A column of a data frame that is not there."""
    listed = ", ".join(map(str, known)) or "none: the data have no column names"
    return InputError(f"factors['{factor}']: expected names of columns ({listed}), got {name!r}.")


def no_times_of(name: str, given: Sequence[str]) -> InputError:
    """Times per factor, one forgotten."""
    return InputError(
        f"times is a dict, but has none of factor '{name}' (got {', '.join(given) or 'none'}): expected the times of "
        "every factor."
    )


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
        "an input. Fill the gaps, make the row all NaN, or split the columns into several factors."
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


def one_step_only(trials: int, longest: int) -> InputError:
    """Series without a second time."""
    return InputError(
        f"Series: expected trials of two times or more, to learn from how the latents move; got {trials} of at most "
        f"{longest}. Time is the first axis of a trial: a list of (T_n, D), or an array (N, T, D). For observations "
        "without time use RPCategorical or RPFA."
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


def untied_sessions(groups: Sequence[Sequence[str]]) -> RPModelsWarning:
    """Warning: sessions without a factor in common."""
    listed = " | ".join(", ".join(group) for group in groups)
    return RPModelsWarning(
        f"No trial connects these groups of factors: {listed}. Each finds latents of its own: between groups order, "
        "sign and rotation are free (of states: the order). Add a factor that all sessions share, such as behaviour, "
        "stimulus or labels."
    )


def irregular_per_time(trial: int, time: object) -> InputError:
    """Per-time atoms without a common grid."""
    return InputError(
        f"One mixture per time (atoms='per_time') needs trials on one grid of times, and trial {trial} has its own "
        f"(first at {time}). Use atoms='pooled', or bin the trials on a common grid."
    )


def unseen_times(count: int, first: object) -> InputError:
    """Per-time atoms at times that training never saw."""
    return InputError(
        f"One mixture per time (atoms='per_time') knows the times of the training trials only: {count} time(s) of "
        f"these data were never seen, first {first}. Fit with atoms='pooled' to use any times."
    )


def too_many_inducing(wanted: int, available: int) -> RPModelsWarning:
    """Warning: M > number of times."""
    return RPModelsWarning(
        f"n_inducing = {wanted} is more than the {available} distinct times there are: {available} are used, which "
        "makes the Gaussian process exact."
    )


def lonely_sites(count: int, first: object) -> RPModelsWarning:
    """Warning: times with one trial only."""
    return RPModelsWarning(
        f"{count} time point(s), the first at {first}, have one trial only: with one mixture per time f/F = 1 there, "
        "and they teach nothing. Use atoms='pooled'."
    )


def other_clock(new: float, old: float) -> RPModelsWarning:
    """Warning: seconds here, milliseconds there."""
    return RPModelsWarning(
        f"These data have a time step of {new:g}, those of the fit one of {old:g}. Length scales are in the units of "
        "the fit: hand in times in the same units (seconds, milliseconds, bins)."
    )


def other_step(new: float, old: float) -> RPModelsWarning:
    """Warning: rows that are further apart than those of the fit."""
    return RPModelsWarning(
        f"These data have a time step of {new:g}, those of the fit one of {old:g}, and this model takes every row for "
        "one step. Put rows of NaN where a time is missing, so that steps are those of the fit."
    )


def looks_smoothed(name: str, ratio: float) -> RPModelsWarning:
    """Warning: neighbouring bins share their noise."""
    return RPModelsWarning(
        f"Factor '{name}' looks smoothed: its second differences are {ratio:.2f} of its first (unsmoothed noise: about "
        "3, in squares). Neighbouring bins then share their noise, which the latents will explain. Hand in counts or "
        "unsmoothed, non-overlapping bins if you have them."
    )


def constant_channels(factor: str, channels: Iterable[Any]) -> RPModelsWarning:
    """Warning: no variance."""
    listed = [int(channel) for channel in channels]
    shown = ", ".join(map(str, listed[:10])) + (", …" if len(listed) > 10 else "")
    return RPModelsWarning(
        f"Factor '{factor}': {len(listed)} channel(s) are constant in the training data ({shown}); they carry nothing "
        "and are only centred."
    )


# ---- networks ----------------------------------------------------------------------------------


def network_needs_images(event: tuple[int, ...], minimum: int) -> BuildError:
    """A convolution on something else."""
    return BuildError(
        f"The convolutional network takes images (H, W) or (C, H, W) of at least {minimum}×{minimum}, got events of "
        f"shape {event}. Use network='mlp'."
    )


def network_needs_labels(name: str) -> BuildError:
    """A lookup table on numbers."""
    return BuildError(
        f"Factor '{name}': a lookup table takes one label (string or integer) per row, got numbers. Use network='mlp', "
        "or hand in labels of shape (N,)."
    )


def network_failed(name: str, event: tuple[int, ...], failure: Exception) -> BuildError:
    """The user's module raised."""
    return BuildError(
        f"The network of factor '{name}' failed on a batch of shape (2, {', '.join(map(str, event))}): {failure}. "
        "Expected a module that maps (n, *event) to (n, raw_size)."
    )


def network_shape(name: str, event: tuple[int, ...], expected: object, got: object) -> BuildError:
    """The user's module has another output."""
    return BuildError(
        f"The network of factor '{name}' maps a batch of shape (2, {', '.join(map(str, event))}) to {got}: expected "
        f"{expected}, the raw numbers of the latent's family."
    )


# ---- building ----------------------------------------------------------------------------------


def too_few_states(got: int) -> InputError:
    """K < 2."""
    return InputError(f"n_states: expected at least 2 (one state can explain no dependence), got {got}.")


def needs_finite_support(what: str, family: str) -> BuildError:
    """Exact with a continuous latent."""
    return BuildError(
        f"{what[0].upper()}{what[1:]} sums over the values of the latent, and {family} has infinitely many. Choose an "
        "E-step and an expected_log_mixture for continuous latents, or a prior over discrete ones."
    )


def needs_continuous(what: str, family: str) -> BuildError:
    """A continuous approximation with a discrete latent."""
    return BuildError(
        f"{what[0].upper()}{what[1:]} is for continuous latents, and {family} is not one. For discrete latents choose "
        "expected_log_mixture=Exact()."
    )


def needs_statistic_covariance(what: str, family: str) -> BuildError:
    """V_q is wanted and not there."""
    return BuildError(
        f"{what[0].upper()}{what[1:]} needs the covariance of the family's statistic, and {family} does not have it. "
        "Choose another expected_log_mixture."
    )


def needs_reparametrisation(what: str, family: str) -> BuildError:
    """Draws that can be differentiated are wanted."""
    return BuildError(
        f"{what} needs draws that are differentiable in the natural parameters, and {family} has none. Choose another "
        "expected_log_mixture."
    )


def too_many_latents(what: str, most: int, got: int) -> BuildError:
    """A grid in too many dimensions."""
    return BuildError(
        f"{what} takes at most {most} latent dimension(s) per factor, got {got}. Choose 'interior', 'second_order' or "
        "'monte_carlo'."
    )


def grid_too_fine(points: int, most: int) -> RPModelsWarning:
    """Warning: quadrature capped."""
    return RPModelsWarning(
        f"The shared grid would need {points} points to resolve the sharpest posterior; {most} are used, and ⟨log F⟩ "
        "is less exact. Try expected_log_mixture='interior', or Gauss–Hermite nodes."
    )


def wrong_batch_shape(what: str, latents: int, got: tuple[int, ...]) -> BuildError:
    """A kernel or mean function for another number of latents."""
    return BuildError(
        f"The {what} has batch shape {got}: expected () (the same for all latents) or ({latents},), one for each of "
        f"the {latents} latent(s). In GPyTorch: batch_shape=torch.Size([{latents}])."
    )


def absolute_factors(what: str) -> BuildError:
    """What an absolute factor adds to the prior may be negative."""
    return BuildError(
        f"{what[0].upper()}{what[1:]} adds what every factor knows beyond the prior, and absolute factors may know "
        "less than it. Choose head='relative', or e_step='natural_gradient' or 'free'."
    )


def needs_inducing(prior: str) -> BuildError:
    """q(U) without U."""
    return BuildError(
        f"A free q(U) needs a prior with inducing points, and {prior} has none. Choose a Gaussian-process prior, or "
        "e_step='free' with free potentials."
    )


def no_start_for_refinement() -> NumericalError:
    """The amortised start has no positive precision."""
    return NumericalError(
        "The natural-gradient E-step found no posterior to start from: the potentials of the recognition factors leave "
        "the prior no positive precision. Try dtype='float64', or a smaller learning_rate."
    )


def not_a_precision(factor: str, trial: int, site: int, count: int) -> NumericalError:
    """A recognition factor that is no distribution."""
    return NumericalError(
        f"The precision of recognition factor '{factor}' is not positive definite at {count} site(s), first trial "
        f"{trial}, site {site}: expected finite network outputs. Look at the inputs there, try a smaller "
        "learning_rate, input scaling, or dtype='float64'."
    )


def needs_numbers(name: str) -> BuildError:
    """A density over labels or integers."""
    return BuildError(
        f"Factor '{name}' holds labels or integers: a kernel density or Gaussian p₀ needs floating-point numbers. "
        "Convert it with .astype(float), or use the empirical p₀."
    )


def one_site_only(sites: int) -> InputError:
    """Quadrature over a whole series."""
    return InputError(
        f"log W by quadrature integrates over one site per observation, and these have up to {sites}. Use "
        "method='importance'."
    )


def needs_a_table(got: str) -> BuildError:
    """Exact E-step with an approximation that keeps atoms."""
    return BuildError(
        f"The exact E-step reads F_j as a table of its states, and this expected_log_mixture keeps {got}. Choose "
        "expected_log_mixture=Exact(), or another E-step."
    )


def not_fitted(what: str) -> NotFittedError:
    """Used before fit."""
    return NotFittedError(f"{what} is not fitted yet: call fit(X) (or rp.train) first.")


# ---- numerics and training ---------------------------------------------------------------------


def not_positive_definite(what: str, failed: int, of: int, added: float) -> NumericalError:
    """Cholesky failed for good."""
    return NumericalError(
        f"{what} is not positive definite ({failed} of {of} matrices, even with a relative jitter of {added:.0e}). "
        "Try dtype='float64', a smaller learning rate, or input scaling."
    )


def diverged(step: int, rescues: int) -> NumericalError:
    """Not even rescue helps."""
    return NumericalError(
        f"Training gave non-finite numbers at step {step} and {rescues} rescues (back to the last good state, half the "
        "step) did not help. Try a smaller learning_rate, scaling of the inputs, or dtype='float64'; the last good "
        "state was restored."
    )


def rescued(step: int, back_to: int, rate: float) -> RPModelsWarning:
    """Warning: rolled back."""
    return RPModelsWarning(
        f"Non-finite free energy or gradient at step {step}: went back to step {back_to} and lowered the learning rate "
        f"to {rate:.2g}."
    )


def at_the_ceiling(score: float, ceiling: float) -> RPModelsWarning:
    """Warning: partition not identified."""
    return RPModelsWarning(
        f"The score ({score:.3f} nats) is at its ceiling ({ceiling:.3f}): every partition that the factors agree on "
        "reaches it, so the states are not identified by the data alone. Use more states, or check that the factors "
        "share nothing but what you are after."
    )


def learnt_nothing(score: float) -> RPModelsWarning:
    """Warning: collapsed."""
    return RPModelsWarning(
        f"The fit found no dependence between the factors (score {score:.4f} nats above independence). Check that rows "
        "of different factors belong together; try more starts (n_init) or another learning_rate."
    )


def trying_again(score: float, attempt: int, of: int) -> RPModelsWarning:
    """Warning: collapsed, and starting over."""
    return RPModelsWarning(
        f"The fit collapsed (score {score:.4f} nats above independence): trying again from other starts "
        f"({attempt} of at most {of})."
    )


# ---- data sets and experiments -----------------------------------------------------------------


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
    return RunError(f"{path} is a file: expected a folder for --out.")


def no_run(folder: str) -> RunError:
    """No metrics.json."""
    return RunError(f"{folder} holds no finished run: expected a metrics.json, as `rpmodels run` writes it.")


def would_overwrite(path: str) -> RunError:
    """A file is there already."""
    return RunError(f"{path} is there already. Choose another --out, or --force to replace it.")


# ---- model files -------------------------------------------------------------------------------


def no_such_file(path: str) -> str:
    """Nothing there."""
    return f"No such file: {path}."


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


# ---- checkpoints ----------------------------------------------------------------------------


def cannot_be_kept(kind: str) -> TypeError:
    """Something in the state of a run that no file can hold."""
    return TypeError(
        f"The state of your optimiser or scheduler holds a {kind}: a checkpoint can hold numbers, text, arrays and "
        "tensors. Fit without `checkpoint`, or with the default optimiser and scheduler."
    )


def not_a_checkpoint(path: str) -> FileError:
    """Another program's manifest, or a newer one."""
    return FileError(
        f"{path} is not the manifest of a fit that this version can resume: nothing was changed. Give `checkpoint` "
        "another folder."
    )


def other_checkpoint(folder: str, differing: Sequence[str]) -> FileError:
    """The folder belongs to another fit."""
    return FileError(
        f"{folder} holds another fit: expected the same data and arguments, got other {', '.join(differing)}. "
        "Nothing was changed. Give `checkpoint` another folder (or delete this one); to train a fitted model further, "
        "use warm_start=True."
    )


def other_torch(folder: str, then: str, now: object) -> RPModelsWarning:
    """Warning: the numbers may differ in their last digits."""
    return RPModelsWarning(
        f"The fit in {folder} was begun with PyTorch {then}, this is {now}: it goes on, but its numbers need not be "
        "those of a fit that was never interrupted."
    )


def no_checkpoint(path: str, why: object) -> RPModelsWarning:
    """Warning: a checkpoint could not be written."""
    return RPModelsWarning(
        f"The checkpoint {path} could not be written ({why}): the fit goes on, the last checkpoint is kept. Make room, "
        "or stop and resume elsewhere."
    )


def interrupted(step: int, longest: int) -> RPModelsWarning:
    """Warning: Ctrl-C."""
    return RPModelsWarning(
        f"Interrupted at step {step} of {longest}: the best state so far is kept. Call fit again with warm_start=True, "
        "or with the same checkpoint folder, to go on."
    )


# ---- people's own data on the command line ------------------------------------------------------


def no_data_file(path: str) -> InputError:
    """Nothing there."""
    return InputError(f"{path}: no such file. Expected a file of data that is there; look at the path.")


def unknown_suffix(path: str, known: Sequence[str]) -> InputError:
    """A file that nobody here reads or writes."""
    return InputError(f"{path}: expected a name that ends with one of {', '.join(known)}. Convert the file first.")


def unreadable(path: str, expected: str, why: object) -> InputError:
    """Damaged, or something else under this name."""
    return InputError(f"{path} cannot be read: expected {expected}, got: {str(why).strip()}")


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
        f"Factor '{factor}', column '{column}': expected numbers, got {example!r}. Correct the file (an empty cell is "
        "missing), or leave the column out; a column of labels is a factor by itself (--factor NAME=COLUMN, and "
        "--label NAME if its labels look like numbers)."
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
    return InputError(f"{model} takes one factor: expected one array, or one --factor; got {', '.join(names)}.")


def other_size(model: str, expected: str, got: str) -> InputError:
    """--latents for states, or the reverse."""
    return InputError(f"{got} is not for {model}: expected {expected} K.")


def bad_setting_text(text: str) -> InputError:
    """--set without a value."""
    return InputError(f"--set: expected ARGUMENT=VALUE, each argument once; got {text!r}.")


def unknown_setting(model: str, name: str, known: Sequence[str]) -> InputError:
    """An argument that the estimator does not have."""
    return InputError(f"--set {name}: {model} has no such argument. Expected one of {', '.join(known)}.")


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


class MissingPackageError(RPModelsError, ImportError):
    """An optional package is not installed."""


def needs_package(what: str, package: str, command: str) -> MissingPackageError:
    """A part that needs more than the library itself does."""
    return MissingPackageError(f"{what} needs the package {package}, which is not installed: {command}.")


def package_too_old(what: str, package: str, wanted: str, found: str, command: str) -> MissingPackageError:
    """An extra that is there, but not the version it must be."""
    return MissingPackageError(f"{what} needs {package} ≥ {wanted}, and {found} is installed: {command}.")


def report_needs_data(path: str) -> RunError:
    """A model file alone."""
    return RunError(f"A page of {path} shows the model on data, and none were given: rpmodels report {path} DATA.")


def one_trial(option: str, column: str, rows: int) -> RPModelsWarning:
    """Warning: a table of one trial."""
    return RPModelsWarning(
        f"{option} {column} names one trial only, of {rows} rows: nothing can be held out, and its latents may be "
        f"learnt by heart. Hand in several trials, or leave {option} out: a long recording is then cut into windows."
    )
