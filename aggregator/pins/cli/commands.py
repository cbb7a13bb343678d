"""`aggregator pins`: the options of its commands and their help."""

from typing import Annotated

import typer

from aggregator.cli.runtime.run_command import AsJson, Config, run

pins_app = typer.Typer(
    help="Pinned definitions: the approved definitions of servers, and their changes.", no_args_is_help=True
)

Server = Annotated[str | None, typer.Argument(help="The server, as the configuration names it.", show_default=False)]


@pins_app.command("status")
def pins_status(server: Server = None, config: Config = None, as_json: AsJson = False) -> None:
    """Say what is pinned, and what waits for an approval. Exit 1 if anything waits or is held."""
    from aggregator.pins.cli.status import status

    run(status, config, server, as_json)


@pins_app.command("diff")
def pins_diff(
    server: Server = None,
    item: Annotated[
        str | None, typer.Argument(help="A tool, prompt, template or skill by its name or URI.", show_default=False)
    ] = None,
    config: Config = None,
) -> None:
    """Show what changed since it was approved, word by word."""
    from aggregator.pins.cli.difference import diff

    run(diff, config, server, item)


@pins_app.command("approve")
def pins_approve(
    server: Server = None,
    items: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names; `prompt:NAME`, `template:URI`, `skill:URI` or `instructions` for others.", show_default=False
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All that waits: of SERVER, or of every server.")] = False,
    digest: Annotated[
        str | None,
        typer.Option(help="Approve the item only if this is its digest, as `pins diff` shows it.", show_default=False),
    ] = None,
    config: Config = None,
) -> None:
    """Approve what a server says now, in the database and in the lock file."""
    from aggregator.pins.cli.approval import approve

    run(approve, config, server, items or [], every, digest)


@pins_app.command("reset")
def pins_reset(
    server: Annotated[str, typer.Argument(help="The server, as the configuration names it.")], config: Config = None
) -> None:
    """Forget the pins of a server: what it says next is approved."""
    from aggregator.pins.cli.approval import reset

    run(reset, config, server)


@pins_app.command("check")
def pins_check(
    servers: Annotated[
        list[str] | None, typer.Argument(help="Only these servers. Default: all that are enabled.", show_default=False)
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write the current definitions into the lock file.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Connect to the servers and compare what they say with the pins. Exit 1 if anything waits or is held, 2 if a
    server cannot be checked."""
    from aggregator.pins.cli.check import check

    run(check, config, servers or [], write, as_json)
