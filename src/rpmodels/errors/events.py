"""What is wrong with events, such as spike times."""

from collections.abc import Sequence

from rpmodels.errors.kinds import InputError

BINNED = "rp.adapters.binned(spikes, bin_width)"


def no_events(got: object) -> InputError:
    """Something else, or nothing."""
    return InputError(
        "spikes: expected spike times (a list of times by unit, or of such lists by trial; a dict {unit: times}; a "
        "DataFrame with columns unit, time and trial), a TsGroup or Ts with spikes, spike trains, Segments or a Block "
        f"that have some, an NWB session or file, or a folder of a spike sorter; got {got}."
    )


def raw_events() -> InputError:
    """Spike times where counts belong."""
    return InputError(
        "These look like spike times: lists of unequal length of times that rise. Estimators take counts in bins: "
        f"{BINNED} makes them, with epochs= or trials in a list (docs/howto/spikes.md). Numbers that happen to rise: "
        "hand them in as (T_n, 1) arrays."
    )


def raw_event_table(unit: str, time: str, trial: str | None) -> InputError:
    """A long table of events where samples belong."""
    named = f", trial={trial!r}" if trial else ""
    return InputError(
        f"This table looks like events (a row for every event: '{unit}' names its unit, '{time}' tells when), and "
        f"names of units are no numbers to fit. Count them in bins: rp.adapters.binned(frame, bin_width, "
        f"unit={unit!r}, time={time!r}{named}). If it holds samples, hand in its columns as arrays."
    )


def unknown_unit(unit: object, known: Sequence[object]) -> InputError:
    """A unit that has no events."""
    listed = ", ".join(map(str, known[:12])) + (f", … ({len(known)} in all)" if len(known) > 12 else "")
    return InputError(f"units: expected some of {listed}; got {unit!r}.")


def other_units(trial: int, got: int, expected: int) -> InputError:
    """Trials of different populations."""
    return InputError(
        f"spikes: trial {trial} has {got} units and the first one {expected}: expected the same units in all. A "
        "unit without spikes is an empty list; where names tell which is which, hand in a dict {unit: times} for every "
        "trial."
    )


def whole_times(last: float) -> InputError:
    """Samples or milliseconds, most likely."""
    return InputError(
        f"Event times are whole numbers (up to {last:g}): expected seconds, or to know what they are. Pass time_unit: "
        "'ms', 'us', the seconds of one sample (1/30000), or 's' if they are seconds."
    )


def events_run_on(end: float, begin: float) -> InputError:
    """The clock of a session."""
    return InputError(
        f"Event times run on from trial to trial (one ends at {end:g}, the next begins at {begin:g}), so when trials "
        "began is not known. Expected epochs, the beginning and end of every trial; or align=True (--align), to count "
        "every trial from its first event."
    )


def no_event_in_trial(trial: int) -> InputError:
    """Nothing, for as long as nobody knows."""
    return InputError(
        f"Trial {trial} has no event, and how long it was is not known: expected epochs, beginning and end of every "
        "trial, or one pair for all of them."
    )


def no_event_column(what: str, asked: object, known: Sequence[str]) -> InputError:
    """A column of a table of events."""
    got = f"{asked!r}" if asked is not None else "no such name"
    return InputError(f"{what}: expected the column that tells the {what} of an event ({', '.join(known)}), got {got}.")


def no_sorted_spikes(folder: str, name: str) -> InputError:
    """A folder of something else."""
    return InputError(
        f"{folder}: expected the folder of a spike sorter (Kilosort, phy) with spike_times.npy and spike_clusters.npy; "
        f"{name} is not there."
    )


def no_sample_rate(folder: str, name: str) -> InputError:
    """Samples of unknown length."""
    return InputError(
        f"{folder}: expected a line 'sample_rate = 30000' in {name}, to make seconds of samples; there is none. Pass "
        "time_unit=1/30000, the seconds of one sample."
    )


def no_label_near(what: str, time: float, first: float, last: float) -> InputError:
    """Bins that nobody labelled."""
    return InputError(
        f"{what}: expected a label near every bin, and there is none near {time:g} (they are from {first:g} to "
        f"{last:g}). Labels have no missing value: cut the trials to what is labelled, or hand in one for every bin."
    )


def clocks_apart(bins: tuple[float, float], behaviour: tuple[float, float]) -> InputError:
    """The clock of a session, and that of trials."""
    return InputError(
        f"at: expected behaviour near the bins, and there is none near any of them (bins of the first trial are from "
        f"{bins[0]:g} to {bins[1]:g}, its behaviour from {behaviour[0]:g} to {behaviour[1]:g}). Count both from one "
        "beginning, in the same unit; for behaviour on the clock of a session there is rp.adapters.binned(…).beside."
    )


def bins_without_times(what: str) -> InputError:
    """Behaviour at its own times, and bins at none."""
    return InputError(
        f"{what}: expected to know when the bins are, to interpolate behaviour that has times of its own (at=). Pass "
        "times=, or data that know their times (rp.adapters.binned)."
    )
