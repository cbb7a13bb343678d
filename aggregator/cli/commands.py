"""The commands with their options and help texts.

Law: this module imports nothing slow. Each command imports its implementation when it runs, so that `--help` does not
pay for the gateway.
"""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from aggregator import __version__
from aggregator.accounts.cli.commands import connect_app, connections_app
from aggregator.cli.audit.commands import audit_app
from aggregator.cli.command_group import CommandGroup
from aggregator.cli.doctor.commands import doctor_app
from aggregator.cli.first_run.commands import first_run_app
from aggregator.cli.hosts.commands import hosts_app
from aggregator.cli.policy.commands import policy_app
from aggregator.cli.runtime.run_command import AsJson, Config, database_settings, run
from aggregator.cli.runtime.writer import say
from aggregator.cli.secrets.commands import secrets_app
from aggregator.cli.servers.commands import servers_app
from aggregator.cli.store.commands import store_app
from aggregator.domain.text.error_text import error_text
from aggregator.flow.cli.commands import flow_app
from aggregator.notify.cli.commands import notify_app
from aggregator.pins.cli.commands import pins_app
from aggregator.tool_reports.cli.commands import reports_app

app = typer.Typer(
    name="aggregator",
    cls=CommandGroup,
    help="One MCP server in front of many.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class NameStyle(StrEnum):
    """Spellings of tool names in lists."""

    canonical = "canonical"
    compatible = "compatible"


class ListedTools(StrEnum):
    """How much of an agent's tools a host is listed (`config.settings.Expose`)."""

    all = "all"
    search = "search"
    auto = "auto"
    code = "code"


class Level(StrEnum):
    """The least serious events to log."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"aggregator {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """One MCP server in front of many."""
    if context.invoked_subcommand is None:
        from aggregator.cli.first_run.welcome import run as run_welcome

        run(run_welcome, lambda: say(context.get_help(), file=sys.stderr))


NamesOption = Annotated[
    NameStyle | None,
    typer.Option(
        help="canonical: server.tool; compatible: server__tool, for hosts that refuse dots.", show_default=False
    ),
]
ExposeOption = Annotated[
    ListedTools | None,
    typer.Option(help="How much is listed, in place of `stdio.expose` in the configuration.", show_default=False),
]
Agent = Annotated[
    str | None,
    typer.Option(help="The agent whose policy applies. Default: AGGREGATOR_AGENT, else `local`.", show_default=False),
]
LogLevel = Annotated[Level | None, typer.Option(help="The least serious events to log.", show_default=False)]
LogJson = Annotated[bool, typer.Option("--log-json", help="Log one JSON object per line.")]


@app.command()
def serve(
    config: Config = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.", show_default=False)] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.", show_default=False)
    ] = None,
    names: NamesOption = None,
    workers: Annotated[
        str | None,
        typer.Option(
            help="The number of processes that serve; auto: one for each core. SIGUSR2 replaces them one by one.",
            show_default=False,
        ),
    ] = None,
    log_level: LogLevel = None,
    log_json: LogJson = False,
) -> None:
    """Serve hosts over Streamable HTTP and SSE."""
    from aggregator.cli.workers import run as run_serve

    run(run_serve, config, host, port, names, workers, log_level, log_json)


@app.command()
def stop(
    config: Config = None,
    pid: Annotated[
        int | None, typer.Option("--pid", min=1, help="The process to end, if several serve.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="End every one of this user.")] = False,
    timeout: Annotated[
        str | None, typer.Option(help="How long to wait for the end. Default: 60s.", show_default=False)
    ] = None,
) -> None:
    """End a running `aggregator serve` as SIGTERM does. Exit 1 if it has not ended in time, 69 if none runs."""
    from aggregator.cli.stop import run as run_stop

    run(run_stop, config, pid, everything, timeout)


@app.command()
def stdio(
    config: Config = None,
    agent: Agent = None,
    names: NamesOption = None,
    expose: ExposeOption = None,
    log_level: LogLevel = None,
    log_json: LogJson = False,
) -> None:
    """Serve one host over stdin and stdout, as Claude Desktop starts it."""
    from aggregator.cli.stdio import run as run_stdio

    run(run_stdio, config, agent, names, expose, log_level, log_json)


@app.command()
def status(
    config: Config = None,
    url: Annotated[
        str | None,
        typer.Option(help="The address of the gateway. Default: the address in the configuration.", show_default=False),
    ] = None,
    as_json: AsJson = False,
    ready: Annotated[
        bool, typer.Option("--ready", help="Only print whether it accepts requests; exit 1 if not.")
    ] = False,
) -> None:
    """Show the state of a running `aggregator serve`, server by server.

    Exit 1 if there is a problem, 69 if none runs.
    """
    from aggregator.cli.status import run as run_status

    run(run_status, config, url, as_json, ready)


@app.command()
def console(
    config: Config = None,
    url: Annotated[
        str | None,
        typer.Option(help="The address of the gateway. Default: the address in the configuration.", show_default=False),
    ] = None,
    role: Annotated[str, typer.Option(help="viewer, approver or operator.")] = "operator",
    person: Annotated[
        str | None,
        typer.Option(
            "--as", help="The name that the audit records. Default: the name of this user.", show_default=False
        ),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the link in a browser.")] = True,
) -> None:
    """Sign in at the console of a running `aggregator serve`: print a link, and open it in the browser."""
    from aggregator.cli.console import run as run_console

    run(run_console, config, url, role, person, browser)


@app.command()
def check(config: Config = None, as_json: AsJson = False) -> None:
    """Connect to every server and show its state, its problems and their fixes. Exit 1 if there is a problem."""
    from aggregator.cli.check import run as run_check

    run(run_check, config, as_json)


@app.command()
def tools(
    query: Annotated[
        str | None, typer.Argument(help="Words: only the tools that fit them, best first.", show_default=False)
    ] = None,
    config: Config = None,
    server: Annotated[str | None, typer.Option(help="Only this server's tools.", show_default=False)] = None,
    level: Annotated[
        int, typer.Option(min=1, max=3, help="1: one line each; 2: main parameters; 3: the whole schema.")
    ] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="The most tools to print.", show_default=False)] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Print only as many whole tools as fit into this many tokens.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the tools of every server, or search them; with --json, their whole definitions."""
    from aggregator.cli.tools import run as run_tools

    run(run_tools, config, query, server, level, limit, max_tokens, as_json)


@app.command()
def call(
    name: Annotated[str, typer.Argument(help="The tool, as `server.tool` or in any other spelling.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="key=value ...; the tool's schema decides how a value is read. Or one JSON object."),
    ] = None,
    json_arguments: Annotated[
        str | None, typer.Option("--arguments", help="All arguments as one JSON object.", show_default=False)
    ] = None,
    config: Config = None,
    agent: Agent = None,
    as_json: AsJson = False,
) -> None:
    """Call one tool and print its result; with --json, the whole result. Exit 1 if the tool reports an error."""
    from aggregator.cli.call import run as run_call

    run(run_call, config, agent, name, arguments or [], json_arguments, as_json)


@app.command()
def trust(
    path: Annotated[
        Path | None, typer.Argument(help="A folder, or its aggregator.json. Default: this folder.", show_default=False)
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List what is trusted.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Trust it no more.")] = False,
) -> None:
    """Let the aggregator.json of a folder be used there without --config, as it is now; after an edit, not any more."""
    from aggregator.cli.trust import run as run_trust

    run(run_trust, path, listed, remove)


keys_app = typer.Typer(help="API keys of agents: make, list and end them.", no_args_is_help=True)
approvals_app = typer.Typer(help="Calls that wait for an approval.", no_args_is_help=True)
for name, group in (
    ("keys", keys_app),
    ("policy", policy_app),
    ("pins", pins_app),
    ("approvals", approvals_app),
    ("connections", connections_app),
    ("audit", audit_app),
    ("flow", flow_app),
    ("notify", notify_app),
    ("reports", reports_app),
    ("secrets", secrets_app),
):
    app.add_typer(group, name=name)
# Their commands stand beside `serve`.
for beside in (connect_app, first_run_app, hosts_app, servers_app, doctor_app, store_app):
    app.add_typer(beside)


@keys_app.command("new")
def keys_new(
    agent: Annotated[str, typer.Argument(help="The agent of the key.")],
    label: Annotated[str, typer.Option(help="What it is for, for people.")] = "",
    expires: Annotated[
        str | None, typer.Option(help="When it ends: 90d, 12h, or a date such as 2027-01-31.", show_default=False)
    ] = None,
    print_hash: Annotated[
        bool, typer.Option("--print-hash", help="Keep nothing; print a line for a policy file too.")
    ] = False,
    console: Annotated[
        str | None,
        typer.Option(help="What its holder may do at the console: viewer, approver, operator.", show_default=False),
    ] = None,
    config: Config = None,
) -> None:
    """Make a key. It is shown once."""
    from aggregator.cli.keys import new

    database = database_settings(config)
    shown = (agent, label, expires, print_hash, console)
    run(
        new,
        database.url,
        *shown,
        audited=database.audited,
        chain_key=database.chain_key,
        policies=database.policies,
    )


@keys_app.command("list")
def keys_list(config: Config = None, as_json: AsJson = False) -> None:
    """List the keys; never what they are."""
    from aggregator.cli.keys import listed

    run(listed, database_settings(config).url, as_json)


@keys_app.command("revoke")
def keys_revoke(key_id: str, config: Config = None) -> None:
    """End a key now, everywhere within a second."""
    from aggregator.cli.keys import revoke

    database = database_settings(config)
    run(revoke, database.url, key_id, audited=database.audited, chain_key=database.chain_key)


@keys_app.command("expire")
def keys_expire(key_id: str, when: str, config: Config = None) -> None:
    """Set when a key ends: 90d, 12h, or a date."""
    from aggregator.cli.keys import expire

    database = database_settings(config)
    run(expire, database.url, key_id, when, audited=database.audited, chain_key=database.chain_key)


@approvals_app.command("list")
def approvals_list(
    status: Annotated[str, typer.Option(help="pending, approved, denied, used, expired, or all.")] = "pending",
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """List the calls that wait for a person."""
    from aggregator.cli.approvals import listed

    run(listed, database_settings(config).url, None if status == "all" else status, as_json)


@approvals_app.command("show")
def approvals_show(approval: str, config: Config = None, as_json: AsJson = False) -> None:
    """Show one of them in full."""
    from aggregator.cli.approvals import show

    run(show, database_settings(config).url, approval, as_json)


class ApprovalDuration(StrEnum):
    """The times that a yes to these exact arguments may count."""

    hour = "1h"
    today = "today"
    week = "7d"


@approvals_app.command("approve")
def approvals_approve(
    approval: str,
    note: Annotated[str | None, typer.Option(help="Why, kept with the answer.", show_default=False)] = None,
    how_long: Annotated[
        ApprovalDuration | None,
        typer.Option("--for", help="Let every call with these arguments through for this long.", show_default=False),
    ] = None,
    config: Config = None,
) -> None:
    """Let a call through: once, or for a time."""
    from aggregator.cli.approvals import approve

    database = database_settings(config)
    validity: Any = how_long.value if how_long is not None else "once"
    audited, key = database.audited, database.chain_key
    run(approve, database.url, approval, note=note, validity=validity, audited=audited, chain_key=key)


@approvals_app.command("deny")
def approvals_deny(
    approval: str,
    note: Annotated[str | None, typer.Option(help="Why, told to the agent.", show_default=False)] = None,
    config: Config = None,
) -> None:
    """Refuse a call, and the same call for a day; or take a yes back."""
    from aggregator.cli.approvals import deny

    database = database_settings(config)
    run(deny, database.url, approval, note, audited=database.audited, chain_key=database.chain_key)


@app.command()
def version() -> None:
    """Print the version."""
    _print_version(True)


def cli() -> int:
    """Run the command line; print an error that the operator can mend as one line on stderr, and return 2."""
    try:
        app()
    except Exception as error:
        return report(error)
    return 0


def report(error: Exception) -> int:
    """Print an error that the operator can mend, and return the exit code; raise any other."""
    from aggregator.domain.errors import AggregatorError

    if isinstance(error, BrokenPipeError):
        # The reader of our output, such as `head`, has closed the pipe.
        sys.stderr.close()
        return 0
    if not isinstance(error, AggregatorError):
        raise error
    say(f"aggregator: {error_text(error)}", file=sys.stderr)
    return 2
