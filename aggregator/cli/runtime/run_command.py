"""How a command is run: its own module is loaded only then. And the options that many commands have."""

from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

import typer

from aggregator.domain.errors import OperatorError

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


def run(what: str, *arguments: Any, **options: Any) -> None:
    """Run the command `module:function`; what it returns is the exit code.

    Raises:
        OperatorError: an argument is no text, or whatever the command raises.
    """
    for given in (*arguments, *options.values()):
        for text in given if isinstance(given, list) else [given]:
            if isinstance(text, str) and not _is_text(text):
                raise OperatorError(f"{text!r:.60} is not UTF-8 text. Write it as UTF-8.")
    command: Callable[..., int] = resolve_name(what)
    status = command(*arguments, **options)
    if status:
        raise typer.Exit(status)


def run_stored(what: str, config: Path | None, *arguments: Any, **options: Any) -> None:
    """Run a command on the database that the configuration names; without one, on the default database."""
    storage, _, _ = _configured(config)
    run(what, storage, *arguments, **options)


def run_keyed(what: str, config: Path | None, *arguments: Any) -> None:
    """Run a command on the database that the configuration names, with the key of its audit log."""
    storage, _, chain_key = _configured(config)
    run(what, storage, *arguments, chain_key=chain_key)


def run_change(what: str, config: Path | None, *arguments: Any) -> None:
    """The same for a command that changes something, which the audit log is told of, if one is wanted."""
    storage, audited, chain_key = _configured(config)
    run(what, storage, *arguments, audited=audited, chain_key=chain_key)


def _is_text(given: str) -> bool:
    """Whether what was typed was UTF-8: Python hands over other bytes as what no text can hold."""
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True


def _configured(config: Path | None) -> tuple[str | None, bool, str | None]:
    configured: Callable[[Path | None], tuple[str | None, bool, str | None]] = resolve_name(
        "aggregator.cli.runtime.setup:configured_storage"
    )
    return configured(config)
