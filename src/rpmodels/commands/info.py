"""`rpmodels info`: what a model file or a folder of results holds, without opening any data."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rpmodels import errors
from rpmodels.commands.fitting import count_plain, factor_plain, score_plain
from rpmodels.commands.folders import FILES, fit_record
from rpmodels.estimators import registered
from rpmodels.estimators.arguments import every_argument
from rpmodels.estimators.files import written_arguments
from rpmodels.free_energy import Score
from rpmodels.observations import FactorSpec
from rpmodels.persistence import from_plain, to_plain
from rpmodels.persistence.model_files import FORMAT
from rpmodels.persistence.schema import check
from rpmodels.persistence.sealed import as_written, open_sealed


def describe(path: Path) -> dict[str, Any]:
    """Plain values about a model file, the folder of a fit, or the folder of a run."""
    if not path.is_dir():
        return _of_model(path)
    record = fit_record(path)
    if record is not None:
        return _of_fit(path, record)
    settings = _json(path / "settings.json")
    if settings is None or not {"experiment", "preset", "settings"} <= set(settings):
        raise errors.nothing_to_tell(str(path))
    return _of_run(path, settings)


def as_text(about: Mapping[str, Any], indent: str = "") -> str:
    """`name: value` lines, what is nested below its name."""
    lines = []
    for key, value in about.items():
        name = key.replace("_", " ") if not indent else key
        if key == "score" and None not in value.values():
            lines.append(f"{indent}{name}: {Score(*value.values())!r}")
        elif isinstance(value, Mapping) and any(isinstance(each, Mapping) for each in value.values()):
            lines += [f"{indent}{name}:", as_text(value, indent + "    ")]
        elif isinstance(value, Mapping):
            lines.append(f"{indent}{name}: {_row(value)}")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            lines += [f"{indent}{name}:", *(f"{indent}    {_row(each)}" for each in value)]
        elif value not in (None, [], ""):
            lines.append(f"{indent}{name}: {_word(value)}")
    return "\n".join(lines)


def _row(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {_word(each)}" for key, each in values.items() if each not in (None, ""))


def _word(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_word, value))})"
    return str(value)


# ---- model files ----------------------------------------------------------------------------------


def _of_model(path: Path) -> dict[str, Any]:
    content, _ = open_sealed(path, FORMAT)
    if "recipe" not in content:
        raise errors.not_a_model_file(str(path), "it holds a checkpoint")
    with as_written(path):
        check(content, content["format"])
        return _described(path, content)


def _described(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    about, recipe = content["about"], content["recipe"]
    fitted = {name: _plain(each) for name, each in about["fitted"].items()}
    return {
        "model": about["class"],
        "non_default_parameters": _changed(about["class"], about["arguments"]),
        "factors": {each["name"]: factor_plain(_spec(each)) for each in recipe["factors"]},
        "observations": count_plain(recipe["n_observations"]),
        "score": score_plain(Score(*_plain(about["score"]))),
        "steps": fitted.get("n_iter_"),
        "stopped": fitted.get("stop_reason_"),
        "precision": recipe["dtype"],
        "versions": {"rpmodels": content["version"], "format": content["format"]},
        "bytes": path.stat().st_size,
    }


def _spec(factor: Mapping[str, Any]) -> FactorSpec:
    vocabulary = _plain(factor["vocabulary"])
    return FactorSpec(tuple(factor["event_shape"]), vocabulary if vocabulary is None else tuple(vocabulary))


def _changed(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that are not the default ones; all of them for a class that is not known here."""
    known = {each.__name__: each for each in registered().values()}
    if name not in known:
        return {argument: _shown(value) for argument, value in arguments.items()}
    defaults = {argument: to_plain(each.default) for argument, each in every_argument(known[name]).items()}
    written = written_arguments(known[name], arguments)
    return {argument: _shown(each) for argument, each in written.items() if each != defaults.get(argument)}


def _shown(value: Any) -> Any:
    """An argument as JSON can hold it; parts by their names, for nothing is built here."""
    if isinstance(value, Mapping):
        (tag, content), *_ = value.items()
        if tag == "$map":
            return {str(_shown(key)): _shown(each) for key, each in content}
        return content["is"] if tag == "$part" else str(content) if tag == "$custom" else _shown(content)
    return [_shown(each) for each in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    return from_plain(value, str)


# ---- folders --------------------------------------------------------------------------------------


def _of_fit(folder: Path, record: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("estimator", "score", "steps", "stopped", "observations", "factors", "seconds", "warnings")
    command = {name: each for name, each in record["command"].items() if each not in (None, [], {}, False)}
    files = {name: (folder / name).stat().st_size for name in FILES if (folder / name).exists()}
    return {
        "fit": str(folder), "command": command, **{name: record.get(name) for name in kept},
        "versions": record.get("versions", {}), "bytes": files,
    }  # fmt: skip


def _of_run(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    about = {"run": settings["experiment"], "preset": settings["preset"], "settings": settings["settings"]}
    metrics = _json(folder / "metrics.json")
    if metrics is None:
        done = len(list((folder / "seeds").glob("*.json")))
        return {**about, "finished": f"no: {done} row(s) and seed(s) are done; run it again to go on"}
    shown = ("model", "method", "condition", "metric", "median", "mean", "sd", "paper")
    rows = [{name: row.get(name) for name in shown} for row in metrics["rows"]]
    return {
        **about, "seeds": len(metrics["rows"][0]["values"]), "numbers": rows, "seconds": metrics["seconds"],
        "versions": metrics["versions"],
    }  # fmt: skip


def _json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
