"""`aggregator audit`: the options of its commands and their help."""

from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.runtime.run_command import AsJson, Config, database_settings, run

audit_app = typer.Typer(help="The log of calls: read, count, export and verify it.", no_args_is_help=True)

Since = Annotated[
    str | None,
    typer.Option(
        help="Only since this time: 30m, 12h, 7d ago, today, yesterday, a date or time (UTC).", show_default=False
    ),
]
Until = Annotated[str | None, typer.Option(help="Only before this time, in the same forms.", show_default=False)]


@audit_app.command("tail")
def audit_tail(
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=1_000_000, help="How many.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl+C.")] = False,
    agent: Annotated[str | None, typer.Option(help="Only this agent's.", show_default=False)] = None,
    server: Annotated[str | None, typer.Option(help="Only this server's.", show_default=False)] = None,
    tool: Annotated[
        str | None, typer.Option(help="Only calls of this tool; * and ? match.", show_default=False)
    ] = None,
    status: Annotated[str | None, typer.Option(help="Only calls that ended so.", show_default=False)] = None,
    since: Since = None,
    until: Until = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Print the newest calls and events; with --json, one object per line."""
    wanted = (lines, follow, agent, server, tool, status, since, as_json)
    from aggregator.cli.audit.show import tail

    run(tail, database_settings(config).url, *wanted, until=until)


@audit_app.command("show")
def audit_show(
    row: Annotated[str, typer.Argument(help="A trace id or its beginning, or the number of a row.")],
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Print all facts about a call, about all calls of a trace, or about an event."""
    from aggregator.cli.audit.show import show

    run(show, database_settings(config).url, row, as_json)


@audit_app.command("export")
def audit_export(
    format: Annotated[str, typer.Option(help="jsonl or csv.")] = "jsonl",
    since: Since = None,
    until: Until = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write. Default: stdout.", show_default=False)
    ] = None,
    config: Config = None,
) -> None:
    """Write the log as JSON Lines or CSV."""
    from aggregator.cli.audit.show import export

    run(export, database_settings(config).url, format, since, until, output)


@audit_app.command("stats")
def audit_stats(
    by: Annotated[str | None, typer.Option(help="server, tool, agent or status.", show_default=False)] = None,
    since: Since = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Count calls: how they ended and how long they took."""
    from aggregator.cli.audit.show import stats

    run(stats, database_settings(config).url, by, since, as_json)


@audit_app.command("verify")
def audit_verify(
    expect: Annotated[
        str | None, typer.Option(help="A digest noted earlier, which must still be there.", show_default=False)
    ] = None,
    anchor: Annotated[
        Path | None,
        typer.Option(help="A file of `audit anchor`, whose rows must still be there.", show_default=False),
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Say whether any row was changed, added or removed. Exit 1 if so."""
    from aggregator.cli.audit.proof import verify

    database = database_settings(config)
    run(verify, database.url, expect, anchor, as_json, chain_key=database.chain_key)


@audit_app.command("anchor")
def audit_anchor(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file to add the line to.", show_default=False)
    ] = None,
    config: Config = None,
) -> None:
    """Print the number and the digest of the newest row, to be kept elsewhere for `audit verify --anchor`."""
    from aggregator.cli.audit.proof import anchor

    run(anchor, database_settings(config).url, output)
