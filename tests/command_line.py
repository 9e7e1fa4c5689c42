"""The command line, as typed, in this process."""

from typing import Any

from typer.testing import CliRunner

from rpmodels import cli


def command(*words: Any) -> Any:
    """What typer says of it: exit code, output, exception."""
    return CliRunner().invoke(cli.app, [str(word) for word in words])
