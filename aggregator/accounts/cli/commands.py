"""`aggregator connect` and `aggregator connections`: their options and help texts. Nothing slow is imported here."""

from typing import Annotated

import typer

from aggregator.cli.runtime.run_command import AsJson, Config, run

connect_app = typer.Typer()
connections_app = typer.Typer(help="Accounts at servers: list and revoke them.", no_args_is_help=True)

Agent = Annotated[
    str | None,
    typer.Option(help="The agent whose account it is. Default: as `auth` of the server says.", show_default=False),
]


@connect_app.command("connect")
def connect(
    server: Annotated[str, typer.Argument(help="The server, by its name in the configuration.")],
    agent: Agent = None,
    browser: Annotated[bool, typer.Option(help="Open the link in a browser.")] = True,
    paste: Annotated[
        bool, typer.Option("--paste", help="The browser is on another machine: paste the address that it ends at.")
    ] = False,
    device: Annotated[
        bool, typer.Option("--device", help="Enter a code at another device, if the server's issuer offers that.")
    ] = False,
    config: Config = None,
) -> None:
    """Connect an account at a server that asks for one, in your browser. Exit 1 if it was not connected."""
    from aggregator.accounts.cli.connect import run as run_connect

    run(run_connect, config, server, agent, browser, paste, device)


@connections_app.command("list")
def connections_list(config: Config = None, as_json: AsJson = False) -> None:
    """List the connected accounts; never their tokens."""
    from aggregator.accounts.cli.accounts import listed

    run(listed, config, as_json)


@connections_app.command("revoke")
def connections_revoke(
    server: Annotated[str, typer.Argument(help="The server, by its name in the configuration.")],
    agent: Annotated[str | None, typer.Option(help="The account of this agent.", show_default=False)] = None,
    owner: Annotated[
        str | None, typer.Option(help="The account of this owner, as `connections list` names it.", show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All accounts at this server.")] = False,
    config: Config = None,
) -> None:
    """End the use of an account now, everywhere within a second, and at its issuer if that is offered."""
    from aggregator.accounts.cli.accounts import revoke

    run(revoke, config, server, agent, owner, every)
