"""The command line, as typed, in this process."""

from typing import Any

from typer.testing import CliRunner

import rpmodels as rp
from rpmodels import cli


def command(*words: Any) -> Any:
    """What typer says of it: exit code, output, exception."""
    return CliRunner().invoke(cli.app, [str(word) for word in words])


def done(*words: Any) -> str:
    """What it prints when all goes well."""
    result = command(*words)
    assert result.exit_code == 0, (result.output, result.exception)
    return str(result.output)


def refused(*words: Any) -> str:
    """The sentence of an error of ours."""
    result = command(*words)
    assert isinstance(result.exception, rp.RPModelsError), (result.output, result.exception)
    return str(result.exception)
