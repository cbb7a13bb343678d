"""Every command: its options and its help, and nothing that takes time to load."""

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

import typer

from aggregator import __version__
from aggregator.domain.errors import AggregatorError

app = typer.Typer(
    name="aggregator",
    help="One MCP server in front of many.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Names(StrEnum):
    """How tools are listed."""

    canonical = "canonical"
    compatible = "compatible"


class Level(StrEnum):
    """The least serious events to log."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"aggregator {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """One MCP server in front of many."""


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="The configuration file. Default: aggregator.json here, then in the platform's config folder.",
        show_default=False,
    ),
]
NamesOption = Annotated[
    Names | None,
    typer.Option(
        help="canonical: server.tool; compatible: server__tool, for hosts that refuse dots.", show_default=False
    ),
]
LogLevel = Annotated[Level | None, typer.Option(help="The least serious events to log.", show_default=False)]
LogJson = Annotated[bool, typer.Option("--log-json", help="Log one JSON object per line.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def serve(
    config: Config = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.", show_default=False)] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.", show_default=False)
    ] = None,
    names: NamesOption = None,
    log_level: LogLevel = None,
    log_json: LogJson = False,
) -> None:
    """Serve hosts over Streamable HTTP and SSE."""
    _run("aggregator.cli.serve:run", config, host, port, names, log_level, log_json)


@app.command()
def stdio(
    config: Config = None, names: NamesOption = None, log_level: LogLevel = None, log_json: LogJson = False
) -> None:
    """Serve one host over stdin and stdout, as Claude Desktop starts it."""
    _run("aggregator.cli.stdio:run", config, names, log_level, log_json)


@app.command()
def check(config: Config = None, as_json: AsJson = False) -> None:
    """Connect to every server and say how each is, what is wrong and how to mend it. Exit 1 if anything is."""
    _run("aggregator.cli.check:run", config, as_json)


@app.command()
def tools(
    config: Config = None,
    server: Annotated[str | None, typer.Option(help="Only this server's tools.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """List the tools of every server; with --json, their whole definitions."""
    _run("aggregator.cli.tools:run", config, server, as_json)


@app.command()
def call(
    name: Annotated[str, typer.Argument(help="The tool, as `server.tool` or in any other spelling.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="key=value ...; a value is read as the tool's schema says.")
    ] = None,
    json_arguments: Annotated[
        str | None, typer.Option("--json", help="All arguments as one JSON object.", show_default=False)
    ] = None,
    config: Config = None,
) -> None:
    """Call one tool and print its result. Exit 1 if the tool reports an error."""
    _run("aggregator.cli.call:run", config, name, arguments or [], json_arguments)


@app.command()
def version() -> None:
    """Print the version."""
    _print_version(True)


def cli() -> int:
    """Run, and turn what an operator can mend into one line on stderr."""
    try:
        app()
    except AggregatorError as error:
        typer.echo(f"aggregator: {error}", err=True)
        return 2
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        sys.stderr.close()
    return 0


def _run(what: str, *arguments: Any) -> None:
    command: Callable[..., int] = resolve_name(what)
    status = command(*arguments)
    if status:
        raise typer.Exit(status)
