"""Run the implementation of a command; and the options that many commands have."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec

import typer

if TYPE_CHECKING:
    from aggregator.cli.runtime.setup import DatabaseSettings

P = ParamSpec("P")

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="The configuration file. Default: your own, in the platform's config folder, else a trusted one here.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def run(command: Callable[P, int], *args: P.args, **kwargs: P.kwargs) -> None:
    """Run a command with its arguments; the number it returns becomes the exit code.

    Raises:
        OperatorError: an argument is not UTF-8 text, or the command raises this itself.
    """
    for given in (*args, *kwargs.values()):
        for text in given if isinstance(given, list) else [given]:
            if isinstance(text, str) and not _is_utf8(text):
                from aggregator.domain.errors import OperatorError

                raise OperatorError(f"{text!r:.60} is not UTF-8 text. Write it as UTF-8.")
    if not gc.isenabled():
        # The modules of the command are imported by now, and stay.
        gc.freeze()
        gc.enable()
    status = command(*args, **kwargs)
    if status:
        raise typer.Exit(status)


def database_settings(config: Path | None) -> "DatabaseSettings":
    """Return the settings of the database in the configuration; the default database without one.

    Raises:
        ConfigError: the file at `config` cannot be read, or the one of the working folder is not trusted.
    """
    from aggregator.cli.runtime.setup import configured_database

    return configured_database(config)


def _is_utf8(text: str) -> bool:
    """Return whether an argument was UTF-8: Python turns other bytes into lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
