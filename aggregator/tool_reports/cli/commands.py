"""`aggregator reports`: the options of its commands and their help."""

from typing import Annotated

import typer

from aggregator.cli.runtime.run_command import AsJson, Config, database_settings, run

reports_app = typer.Typer(help="Tools that agents reported as broken.", no_args_is_help=True)


@reports_app.callback()
def reports() -> None:
    """Tools that agents reported as broken, if the configuration has `report_tool: true`."""


@reports_app.command("list")
def reports_list(
    about: Annotated[
        str | None,
        typer.Argument(help="Only this server, or this tool as SERVER.TOOL. Default: all.", show_default=False),
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Print what agents reported, the latest first."""
    from aggregator.tool_reports.cli.reports import listed

    run(listed, database_settings(config).url, about, as_json)


@reports_app.command("clear")
def reports_clear(
    about: Annotated[str | None, typer.Argument(help="A server, or a tool as SERVER.TOOL.", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="All reports.")] = False,
    config: Config = None,
) -> None:
    """Remove the reports of a tool or a server, once it is mended. Exit 1 if there was none."""
    from aggregator.tool_reports.cli.reports import clear

    database = database_settings(config)
    run(clear, database.url, about, every=every, audited=database.audited, chain_key=database.chain_key)
