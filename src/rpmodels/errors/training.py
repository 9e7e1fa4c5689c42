"""Numerics, training, and its checkpoints."""

from collections.abc import Sequence

from rpmodels.errors.kinds import BuildError, FileError, InputError, NumericalError, RPModelsWarning, RunError


def not_positive_definite(what: str, failed: int, of: int, added: float) -> NumericalError:
    """Cholesky failed for good."""
    return NumericalError(
        f"{what} is not positive definite ({failed} of {of} matrices, even with a relative jitter of {added:.0e}). "
        "Try engine.dtype='float64', a smaller learning rate, or input scaling."
    )


def does_not_fit(
    points: int, trials: int, sites: int, need: str, available: str, fitting: int, chain: bool
) -> InputError:
    """Inducing points for which no memory is enough, before any is asked for."""
    instead = "n_inducing=None needs none" if chain else "trials can be cut (window), or a step has fewer (batch_size)"
    return InputError(
        f"n_inducing: {points} inducing points for {trials} trials of {sites} times in a step need about {need} of "
        f"memory, and {available} may be used. n_inducing={fitting} fits; {instead}."
    )


def diverged(step: int, rescues: int) -> NumericalError:
    """Not even rescue helps."""
    return NumericalError(
        f"Training gave non-finite numbers at step {step} and {rescues} rescues (back to the last good state, half the "
        "step) did not help. Try a smaller learning_rate, scaling of the inputs, or engine.dtype='float64'; the last "
        "good state was restored."
    )


def never_finite(step: int) -> NumericalError:
    """No state since the start is worth going back to."""
    return NumericalError(
        f"Training gave non-finite parameters by step {step}, and there is no good state after its start to go back "
        "to: nothing was kept. Try a smaller learning_rate, scaling of the inputs, or engine.dtype='float64'."
    )


def not_recognised(name: str) -> NumericalError:
    """A network gave NaN or infinities."""
    return NumericalError(
        f"The network of factor '{name}' gave numbers that are not finite: expected observations of the size of those "
        "of the fit, or a model whose parameters are finite. Check the units of the data, scale them "
        "(recognition.scaling), or use engine.dtype='float64'."
    )


def score_not_finite(score: float) -> NumericalError:
    """The closing score of a fit is no number."""
    return NumericalError(
        f"The fit ended with a score of {score} nats: it was not kept, and the estimator is as it was before. Try a "
        "smaller learning_rate, scaling of the inputs, or engine.dtype='float64'."
    )


def rescued(step: int, back_to: int, rate: float) -> RPModelsWarning:
    """Warning: rolled back."""
    return RPModelsWarning(
        f"Non-finite free energy, gradient or parameters at step {step}: went back to step {back_to} and lowered the "
        f"learning rate to {rate:.2g}."
    )


def at_the_ceiling(score: float, ceiling: float) -> RPModelsWarning:
    """Warning: partition not identified."""
    return RPModelsWarning(
        f"The score ({score:.3f} nats) is at its ceiling ({ceiling:.3f}): every partition that the factors agree on "
        "reaches it, so the states are not identified by the data alone. Use more states, or check that the factors "
        "share nothing but what you are after."
    )


def learnt_nothing(free_energy: float) -> RPModelsWarning:
    """Warning: collapsed."""
    return RPModelsWarning(
        f"The fit found no dependence between the factors (free energy {free_energy:.4f} nats above independence at "
        "its end). Check that rows of different factors belong together; try more starts (n_init) or another "
        "learning_rate."
    )


def not_converged(steps: int, rise: tuple[float, int] | None) -> RPModelsWarning:
    """Warning: the number of steps ended the fit, not its free energy."""
    seen = "too few to tell" if rise is None else f"up by {rise[0]:.0%} over the last {rise[1]} steps at full rate"
    return RPModelsWarning(
        f"The fit ended at max_iter = {steps} steps before its free energy stood still ({seen}). Train longer "
        f"(max_iter={2 * steps}), or go on from here with training.warm_start=True; evaluation.gap tells what is left."
    )


def other_networks() -> RPModelsWarning:
    """Warning: a warm start cannot change what it goes on with."""
    return RPModelsWarning(
        "training.warm_start goes on with the networks of the last fit: the arguments now ask for others, which are "
        "not used. Set training.warm_start=False to begin with them."
    )


def trying_again(free_energy: float, attempt: int, of: int) -> RPModelsWarning:
    """Warning: collapsed, and starting over."""
    return RPModelsWarning(
        f"The fit collapsed (free energy {free_energy:.4f} nats above independence): trying again from other starts "
        f"({attempt} of at most {of})."
    )


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


def stray_checkpoint(path: str) -> FileError:
    """A file of another fit, or of another start of this one."""
    return FileError(
        f"{path} is not of this fit, or not of the start that it is named after: expected files as this fit wrote "
        "them. Nothing was changed. Put back the folder as it was, or give `checkpoint` another one."
    )


def older_checkpoint(path: str, versions: str) -> FileError:
    """Begun by a version whose files do not say to which fit they belong."""
    return FileError(
        f"{path} is of a fit that an earlier version has begun ({versions}), whose files do not say to which fit they "
        "belong: expected one of this version. Nothing was changed. Finish it with that version, or give `checkpoint` "
        "another folder."
    )


def other_weights(folder: str) -> RPModelsWarning:
    """Warning: networks of one's own that were made anew."""
    return RPModelsWarning(
        f"The networks that were handed in have other weights than those that the fit in {folder} was begun with: it "
        "goes on from the latter. To begin with the new ones, give `checkpoint` another folder."
    )


def other_checkpoint(folder: str, differing: Sequence[str]) -> FileError:
    """The folder belongs to another fit."""
    return FileError(
        f"{folder} holds another fit: expected the same data and arguments, got other {', '.join(differing)}. "
        "Nothing was changed. Give `checkpoint` another folder (or delete this one); to train a fitted model further, "
        "use training.warm_start=True."
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
        f"Interrupted at step {step} of {longest}: the best state so far is kept. Call fit again with "
        "training.warm_start=True, or with the same checkpoint folder, to go on."
    )


def lost_process(rank: int, why: object) -> RunError:
    """Another process of the group is gone, or silent."""
    return RunError(
        f"Process {rank} lost the others of its group ({why}). The last checkpoint is whole: start the job again with "
        "the same checkpoint folder, with as many processes as there are now, and it goes on from there."
    )


def failed_together(rank: int, why: object) -> RunError:
    """A numerical failure in one process of several."""
    return RunError(
        f"The computation failed in process {rank} of a group ({why}) and all processes must stop with it. The last "
        "checkpoint is whole. Use a smaller learning_rate or engine.dtype='float64', or train with one process."
    )


def factory_failed(what: str, why: object) -> BuildError:
    """The user's function that makes an optimiser or a scheduler raised."""
    return BuildError(f"Your {what} could not be made: expected a function that returns one, and it failed ({why}).")
