"""`aggregator doctor`: its options and help."""

from typing import Annotated

import typer

from aggregator.cli.runtime.run_command import AsJson, Config, run

doctor_app = typer.Typer(help="Find what keeps servers and hosts from working.", no_args_is_help=True)


@doctor_app.command("doctor")
def doctor(
    host: Annotated[
        str | None,
        typer.Option(
            help="Check as this host sees it, such as cursor. Default: all that start it.", show_default=False
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            help="Check as this agent sees it. Default: the agent that the host starts it as.", show_default=False
        ),
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Make the safe repairs, and print them.")] = False,
    config: Config = None,
    connect: Annotated[
        bool, typer.Option("--connect/--no-connect", help="Start the servers, and the program as the host does.")
    ] = True,
    url: Annotated[
        str | None,
        typer.Option(help="The address of the gateway. Default: the address in the configuration.", show_default=False),
    ] = None,
    timeout: Annotated[float, typer.Option(min=2, max=600, help="Seconds that all checks together may take.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Show the tools that a model gets through a host, and find problems. Exit 1 if there are any."""
    from aggregator.cli.doctor.doctor import run as run_doctor

    run(run_doctor, config, host, agent, fix, connect, url, timeout, as_json)
