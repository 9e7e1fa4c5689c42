"""What is wrong with trials over time."""

from collections.abc import Sequence

from rpmodels.errors.kinds import InputError, RPModelsWarning


def trials_disagree(name: str, shapes: Sequence[object]) -> InputError:
    """Trials with different events."""
    return InputError(
        f"Factor '{name}': expected a non-empty list of trials (T_n, *event) with one event shape, got event "
        f"shapes {', '.join(map(str, shapes)) or 'none'}."
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


def no_times_of(name: str, given: Sequence[str]) -> InputError:
    """Times per factor, one forgotten."""
    return InputError(
        f"times is a dict, but has none of factor '{name}' (got {', '.join(given) or 'none'}): expected the times of "
        "every factor."
    )


def one_step_only(trials: int, longest: int) -> InputError:
    """Series without a second time."""
    return InputError(
        f"Series: expected trials of two times or more, to learn from how the latents move; got {trials} of at most "
        f"{longest}. Time is the first axis of a trial: a list of (T_n, D), or an array (N, T, D). For observations "
        "without time use RPCategorical or RPFA."
    )


def untied_sessions(groups: Sequence[Sequence[str]]) -> RPModelsWarning:
    """Warning: sessions without a factor in common."""
    listed = " | ".join(", ".join(group) for group in groups)
    return RPModelsWarning(
        f"No trial connects these groups of factors: {listed}. Each finds latents of its own, up to what the prior "
        "leaves free (order, sign and rotation; of states the order): the fitted model's symmetry_, and "
        "evaluation.diagnose, say how much that is. Add a factor that all sessions share, such as behaviour, stimulus "
        "or labels."
    )


def irregular_per_time(trial: int, time: object) -> InputError:
    """Per-time atoms without a common grid."""
    return InputError(
        f"One mixture per time (inference.atoms='per_time') needs trials on one grid of times, and trial {trial} has "
        f"its own (first at {time}). Use inference.atoms='pooled', or bin the trials on a common grid."
    )


def unseen_times(count: int, first: object) -> InputError:
    """Per-time atoms at times that training never saw."""
    return InputError(
        f"One mixture per time (inference.atoms='per_time') knows the times of the training trials only: {count} "
        f"time(s) of these data were never seen, first {first}. Fit with inference.atoms='pooled' to use any times."
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
        "and they teach nothing. Use inference.atoms='pooled'."
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


def smooth_behaviour(name: str, ratio: float) -> RPModelsWarning:
    """Warning: neighbouring bins of behaviour say the same."""
    return RPModelsWarning(
        f"Factor '{name}', a few numbers beside counts, is smooth as behaviour is: its second differences are "
        f"{ratio:.2f} of its first (white noise: about 3, in squares). Neighbouring bins then say the same, which the "
        "latents will explain beside what it shares with the counts. Show it more rarely "
        f"(presence={{'{name}': every tenth bin}}), give it latents of its own "
        f"(recognition=rp.Recognition(private={{'{name}': 2}})), or leave it out of X and read it from the latents "
        "afterwards (rp.evaluation.choose(…, y=…), decode)."
    )
