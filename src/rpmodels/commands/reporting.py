"""`rpmodels report`: the page of a run, of a fit, or of a saved model with data."""

from collections.abc import Sequence
from pathlib import Path

from rpmodels import errors
from rpmodels.commands.fitting import noted
from rpmodels.commands.folders import PAGE, fit_record
from rpmodels.commands.reading import Reading
from rpmodels.commands.transforming import opened
from rpmodels.report import build_page, check_free, model_page
from rpmodels.writing import write_text


def report(path: Path, data: Sequence[Path], reading: Reading, out: Path | None, force: bool = False) -> Path:
    """Write the page; without `data` a fit is shown with the files it was made from."""
    if not path.exists():
        raise errors.nothing_to_tell(str(path))
    record = fit_record(path) if path.is_dir() else None
    if path.is_dir() and record is None:
        return build_page(path, out or path / PAGE, force)
    model = path / "model.rpm" if path.is_dir() else path
    shown = list(data) or [Path(each) for each in (record or {}).get("command", {}).get("data", [])]
    if not shown:
        raise errors.report_needs_data(str(path))
    target = out or (path / PAGE if path.is_dir() else Path(f"{path}.html"))
    check_free(target, force)
    with noted():
        estimator, read = opened(model, shown, reading)
        title = f"rpmodels: {path.resolve().name}"
        about = estimator.description
        page = model_page(estimator, read.for_model(about), title, **read.options(about))
    write_text(target, page)
    return target
