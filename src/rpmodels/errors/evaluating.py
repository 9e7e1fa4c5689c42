"""What cannot be asked of a model, or of these data."""

from collections.abc import Sequence

from rpmodels.errors.kinds import BuildError, InputError


def name_taken(name: str, one: str, other: str) -> BuildError:
    """Two estimators of one name."""
    return BuildError(
        f"{one} and {other} are both called '{name}' on the command line: expected a name of its own in every "
        "description. Rename one of them."
    )


def not_taken(option: str, model: str, known: Sequence[str]) -> InputError:
    """An option that the estimator has no use for."""
    return InputError(
        f"{option}: {model} takes none. Expected nothing beside the data but {', '.join(known)}; leave {option} out."
    )


def one_recording(model: str) -> InputError:
    """Rows that are no observations."""
    return InputError(
        f"X: expected several trials to divide, got one long recording, which is one observation to {model}. Cut it "
        "into trials first: a list of (T_n, D), or an array (N, T, D)."
    )


def group_on_both_sides(group: object) -> InputError:
    """Folds that divide a group."""
    return InputError(
        f"cv: expected folds that keep groups together, and group {group} is in training and held out. Pass a number "
        "of folds, or a splitter that heeds groups."
    )


def needs_variances(what: str, model: str) -> InputError:
    """Error bars of latents that have none."""
    return InputError(
        f"{what}: expected latents with a mean and a variance, and {model} gives none: its latents are no coordinates. "
        "Look at their probabilities instead (`latents(X)`)."
    )


def needs_times(what: str) -> InputError:
    """Paths of what does not move."""
    return InputError(
        f"{what}: expected latents along time, got those of a model without time. Use latents_2d, or pass times=."
    )


def not_drawn(what: str, kind: str) -> InputError:
    """A plot that knows no such latents."""
    return InputError(f"{what}: expected states, topics or coordinates, got a latent of kind {kind}: see `latents(X)`.")


def without_channels(verb: str, model: str) -> InputError:
    """A plot of populations, which models of continuous latents have."""
    return InputError(
        f"{verb}: expected a model of continuous latents, whose factors may be populations of channels, got {model}."
    )


def no_rivals(kind: str) -> InputError:
    """Latents that no baseline has."""
    return InputError(
        f"estimator: expected latents that other methods find too, got some of kind {kind}. Compare what can be read "
        "from them by `decode`."
    )


def not_its_training_data(model: str, factor: str, expected: int, got: int) -> InputError:
    """A gap of other data than those of the fit."""
    return InputError(
        f"X: expected the data that this {model} was fitted to, with the same sample_weight ({expected} of factor "
        f"'{factor}'), got others ({got}). Pass those of the fit, or an estimator that is not fitted."
    )


def no_counts(factor: str, trial: int) -> InputError:
    """Bits per spike of what are no spikes."""
    return InputError(
        f"Factor '{factor}', trial {trial}: expected counts, whole numbers ≥ 0 of shape (T, C), NaN where one is "
        "missing. Bits per spike are of counts: bin spikes first (rp.adapters.binned), and give them unscaled."
    )


def which_counts(names: Sequence[str]) -> InputError:
    """None, or more than one, of several factors."""
    return InputError(f"factor: expected the name of the factor that was counted, one of {', '.join(names)}, got None.")


def predicts_no_channels(model: str) -> InputError:
    """Channels that are recognised by one network, or by a model that knows none."""
    return InputError(
        f"{model}: expected a model whose channels are recognised one by one, so that any of them can be predicted "
        "from the others: RPFA, RPGPFA or RPLDS, with channels='separate' where counts do not suffice for it. For any "
        "other there is few_shot_co_smoothing, by regressions from its latents."
    )


def no_ends(what: str, model: str) -> InputError:
    """The end of what has no time."""
    return InputError(f"{what}: expected a model over time, as trials have an end there; {model} has none.")


def needs_bins(model: str) -> InputError:
    """Bins of what has no time."""
    return InputError(
        f"choose_bins: expected a model over time, whose bins can be merged, got {model}, which has none."
    )


def nothing_to_choose_by(by: str) -> InputError:
    """Decoding of nothing."""
    return InputError(f"by='{by}': expected y, the behaviour that is to be read from the latents, got None. Pass y=….")


def no_benchmark(name: str, found: str) -> InputError:
    """A file of another form."""
    return InputError(
        f"{name}: expected spikes of a data set of the Neural Latents Benchmark, (trials, bins, units) arrays "
        f"train_spikes_heldin, train_spikes_heldout and eval_spikes_heldin of one group, got {found}."
    )
