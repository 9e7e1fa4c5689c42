"""How wide bins should be: held-out scores per second of the same trials in bins of several widths."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rpmodels import checks, errors
from rpmodels.estimators import RPMEstimator
from rpmodels.evaluation.clocks import clocks_of, lengths_of, with_own_clock
from rpmodels.evaluation.counts import check_named
from rpmodels.evaluation.cross_validation import Choice, CrossValidation, check_measure, cross_validate
from rpmodels.evaluation.folds import Fold, divisible, folds_of, subset
from rpmodels.observations import adapters
from rpmodels.observations.merging import merged

PER_SECOND = "second"


def choose_bins(
    estimator: RPMEstimator,
    X: Any,
    values: Sequence[int],
    *,
    bin_width: float | None = None,
    y: Any = None,
    at: Any = None,
    how: str = "auto",
    by: str = "score",
    cv: int | Any = 5,
    groups: Any = None,
    times: Any = None,
    inputs: Any = None,
    **options: Any,
) -> Choice:
    """`cross_validate` of the same trials in bins of several widths, on the same folds: held-out score per second.

    Bins are merged by `rp.adapters.merged`: counts are summed, other numbers averaged. Take the width that was chosen
    by `merged(X, choice.best)`, or bin the spikes anew.

    Scores are nats above a model in which all bins are independent, and that model is another one for every width:
    what fine bins within a wide one share is no longer dependence once they are one number. Merging can only lose, so
    no width has more to be found than the finest; what is compared is what this model finds in so many data. A wide bin
    that scores as high per second says that finer ones bring nothing that this model can use. A fine one that scores
    higher may do so by what is quick (bursts, refractory periods) and of no interest. For a variable that you care
    about, look at `y`: R² of wide bins is of behaviour averaged over them, which is smoother, so it is comparable only
    where behaviour changes little within a bin.

    Args:
        estimator: a model over time, not fitted, and left so
        X: trials in the finest bins, as for `cross_validate`, or what `rp.adapters.binned` made of events; what is
            missing is NaN
        values: how many bins are merged into one, from simple to rich: [8, 4, 2, 1]
        bin_width: seconds of a bin of X, if X does not know it
        y: behaviour, averaged within bins as well
        at: when `y` was taken, where it was not in the finest bins, as for `cross_validate`
        how: as for `cross_validate`
        by: what chooses, as for `choose`
        cv: as for `cross_validate`
        groups: as for `cross_validate`
        times: as for `fit`, of the finest bins; merged ones are at the means of theirs (default 0, 1, 2, … of X)
        inputs: as for `fit`; averaged
        options: sample_weight and n_jobs, as for `cross_validate`

    """
    if not estimator.description.in_time:
        raise errors.needs_bins(type(estimator).__name__)
    if options.get("presence") is not None:
        raise errors.bad_value("presence", "None (what is missing is NaN, also in part of a merged bin)", "presence")
    checks.Listed(checks.Integer(1)).check("values", values)
    if not len(values):
        raise errors.bad_value("values", "at least one", "none")
    width = checks.number("bin_width", getattr(X, "bin_width", None) if bin_width is None else bin_width, above=0.0)
    check_measure(by, y)
    check_named(estimator, X)
    own, counted = adapters.to_trials(X, times)[1], estimator.description.takes_times
    if isinstance(own, Mapping):
        raise errors.bad_value("times", "one clock for all factors", f"those of {', '.join(map(str, own))}")
    if at is None and own is not None:
        y, at = with_own_clock(y, None)
    given = divisible(estimator, X, times=times if counted or at is None else None, inputs=inputs)
    lengths = lengths_of(given.X)
    clock = clocks_of(own, lengths) if counted or at is not None else None
    folds = folds_of(cv, given.X, groups)
    tried = {}
    for n in values:
        beside = {"inputs": given.beside.get("inputs"), "times": clock}
        wide: dict[str, Any] = {
            name: None if each is None else merged(each, n, counts=False) for name, each in beside.items()
        }
        seen = y if y is None or at is not None else merged(y, n, counts=False)
        found = cross_validate(estimator, merged(given.X, n), y=seen, at=at, how=how, cv=folds, **wide, **options)
        tried[int(n)] = _per_second(found, folds, lengths // n * n * width)
    return Choice("bins merged", tried, by)


def _per_second(found: CrossValidation, folds: Sequence[Fold], seconds: Any) -> CrossValidation:
    """Scores of mean trials, over how long the trials of each fold are on average."""
    training, held_out = ([float(subset(seconds, fold[side]).mean()) for fold in folds] for side in (0, 1))
    return replace(
        found,
        held_out=tuple(float(score) / each for score, each in zip(found.held_out, held_out, strict=True)),
        training=tuple(float(score) / each for score, each in zip(found.training, training, strict=True)),
        per=PER_SECOND,
    )
