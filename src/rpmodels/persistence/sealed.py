"""Tensors and a JSON header in one safetensors file, sealed with a digest over both.

Nothing in such a file is ever executed, and a damaged one is told from a whole one.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file as write_tensors
from torch import Tensor

from rpmodels import checks, errors
from rpmodels.versions import __version__
from rpmodels.writing import write_atomically

HEADER, DIGEST = "rpmodels", "sha256"


def write_sealed(path: str | Path, form: int, content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a file of exactly this name, whole or not at all; `form` is the version of its format."""
    # Copies: tied networks share their memory, which the format refuses.
    copies = {name: each.detach().cpu().clone(memory_format=torch.contiguous_format) for name, each in tensors.items()}
    header = json.dumps({"format": form, "version": __version__, **content}, allow_nan=False, ensure_ascii=False)
    metadata = {HEADER: header, DIGEST: _digest(header, copies)}

    def write(temporary: Path) -> None:
        try:
            write_tensors(copies, str(temporary), metadata)
        except SafetensorError as failure:  # what the disk said, as the kind of error that it is
            raise OSError(str(failure)) from failure

    write_atomically(Path(path), write)


def open_sealed(path: str | Path, newest: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a file that is one of ours, whole, and of a format we know."""
    place = Path(path)
    try:
        if not place.exists():
            raise FileNotFoundError(errors.no_such_file(str(path)))
        if not place.is_file():
            raise errors.not_a_model_file(str(path), "it is no regular file")
        with safe_open(str(place), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = metadata[HEADER]
        whole = _digest(header, tensors) == metadata[DIGEST]
    except (FileNotFoundError, errors.FileError):
        raise
    except (SafetensorError, KeyError, ValueError, OSError, RuntimeError) as failure:
        raise errors.not_a_model_file(str(path), failure) from failure
    if not whole:
        raise errors.damaged_file(str(path))
    with as_written(path):
        content = json.loads(header)
        form = content["format"]
        checks.Integer(1).check("its format", form)
    if form > newest:
        raise errors.newer_format(str(path), form, newest, str(content.get("version", "?")))
    return content, tensors


@contextmanager
def as_written(path: str | Path) -> Iterator[None]:
    """Inside, a file is taken at its word; whatever goes wrong then is the file's fault, and is told as one sentence.

    The digest tells damage from whole files. It is no signature: whoever makes a file can seal it.
    """
    try:
        yield
    except errors.RPModelsError as failure:
        if isinstance(failure, errors.FileError | errors.ArgumentError):
            raise
        raise errors.malformed(str(path), failure) from failure
    except (Exception, RecursionError) as failure:
        raise errors.malformed(str(path), f"{type(failure).__name__}: {str(failure)[:200]}") from failure


def _digest(header: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        each = tensors[name]
        digest.update(f"{name} {each.dtype} {tuple(each.shape)}".encode())
        digest.update(each.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
