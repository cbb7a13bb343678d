"""Every command: its options and its help, and nothing that takes time to load."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from aggregator import __version__
from aggregator.cli.audit.commands import audit_app
from aggregator.cli.runtime.run_command import AsJson, Config
from aggregator.cli.runtime.run_command import run as _run
from aggregator.cli.runtime.run_command import run_change as _run_change
from aggregator.cli.runtime.run_command import run_stored as _run_stored
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


class NameArguments(StrEnum):
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


NamesOption = Annotated[
    NameArguments | None,
    typer.Option(
        help="canonical: server.tool; compatible: server__tool, for hosts that refuse dots.", show_default=False
    ),
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
    log_level: LogLevel = None,
    log_json: LogJson = False,
) -> None:
    """Serve hosts over Streamable HTTP and SSE."""
    _run("aggregator.cli.serve:run", config, host, port, names, log_level, log_json)


@app.command()
def stdio(
    config: Config = None,
    agent: Agent = None,
    names: NamesOption = None,
    log_level: LogLevel = None,
    log_json: LogJson = False,
) -> None:
    """Serve one host over stdin and stdout, as Claude Desktop starts it."""
    _run("aggregator.cli.stdio:run", config, agent, names, log_level, log_json)


@app.command()
def status(
    config: Config = None,
    url: Annotated[
        str | None,
        typer.Option(help="Where it listens. Default: the address in the configuration.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say how a running `aggregator serve` is, server by server. Exit 1 if something is not well, 69 if none runs."""
    _run("aggregator.cli.status:run", config, url, as_json)


@app.command()
def check(config: Config = None, as_json: AsJson = False) -> None:
    """Connect to every server and say how each is, what is wrong and how to mend it. Exit 1 if anything is."""
    _run("aggregator.cli.check:run", config, as_json)


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
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.", show_default=False)] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="As many whole tools as fit so many tokens.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the tools of every server, or search them; with --json, their whole definitions."""
    _run("aggregator.cli.tools:run", config, query, server, level, limit, max_tokens, as_json)


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
    agent: Agent = None,
) -> None:
    """Call one tool and print its result. Exit 1 if the tool reports an error."""
    _run("aggregator.cli.call:run", config, agent, name, arguments or [], json_arguments)


@app.command()
def trust(
    path: Annotated[
        Path | None, typer.Argument(help="A folder, or its aggregator.json. Default: this folder.", show_default=False)
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List what is trusted.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Trust it no more.")] = False,
) -> None:
    """Let the aggregator.json of a folder be used there without --config, as it is now; after an edit, not any more."""
    _run("aggregator.cli.trust:run", path, listed, remove)


keys_app = typer.Typer(help="API keys of agents: made, listed, ended.", no_args_is_help=True)
policy_app = typer.Typer(help="Policy files: checked, explained, tried out.", no_args_is_help=True)
approvals_app = typer.Typer(help="Calls that wait for a person.", no_args_is_help=True)
for name, group in (("keys", keys_app), ("policy", policy_app), ("approvals", approvals_app), ("audit", audit_app)):
    app.add_typer(group, name=name)

Connect = Annotated[bool, typer.Option("--connect", help="Compare with the tools the servers have now.")]


@keys_app.command("new")
def keys_new(
    agent: Annotated[str, typer.Argument(help="The agent the key stands for.")],
    label: Annotated[str, typer.Option(help="What it is for, for people.")] = "",
    expires: Annotated[
        str | None, typer.Option(help="When it ends: 90d, 12h, or a date such as 2027-01-31.", show_default=False)
    ] = None,
    print_hash: Annotated[
        bool, typer.Option("--print-hash", help="Keep nothing; print a line for a policy file too.")
    ] = False,
    config: Config = None,
) -> None:
    """Make a key. It is shown once."""
    _run_change("aggregator.cli.keys:new", config, agent, label, expires, print_hash)


@keys_app.command("list")
def keys_list(config: Config = None, as_json: AsJson = False) -> None:
    """List the keys; never what they are."""
    _run_stored("aggregator.cli.keys:listed", config, as_json)


@keys_app.command("revoke")
def keys_revoke(key_id: str, config: Config = None) -> None:
    """End a key now, everywhere within a second."""
    _run_change("aggregator.cli.keys:revoke", config, key_id)


@keys_app.command("expire")
def keys_expire(key_id: str, when: str, config: Config = None) -> None:
    """Set when a key ends: 90d, 12h, or a date."""
    _run_change("aggregator.cli.keys:expire", config, key_id, when)


@policy_app.command("check")
def policy_check(config: Config = None, connect: Connect = False, as_json: AsJson = False) -> None:
    """Say what is wrong with the policy files. Exit 1 if one has an error."""
    _run("aggregator.cli.policy.policy:check", config, connect, as_json)


@policy_app.command("explain")
def policy_explain(
    agent: Annotated[str | None, typer.Argument(show_default=False)] = None,
    tool: Annotated[str | None, typer.Argument(show_default=False)] = None,
    config: Config = None,
    connect: Connect = False,
) -> None:
    """Say why AGENT may or may not call TOOL; without TOOL, all it may."""
    _run("aggregator.cli.policy.policy:explain", config, agent, tool, connect)


@policy_app.command("test")
def policy_test(config: Config = None, connect: Connect = False) -> None:
    """Run the cases in policies/cases."""
    _run("aggregator.cli.policy.policy:run_cases", config, connect)


@policy_app.command("init")
def policy_init(config: Config = None) -> None:
    """Write a first policy file that allows what works today."""
    _run("aggregator.cli.policy.policy:init", config)


@policy_app.command("schema")
def policy_schema(cases: Annotated[bool, typer.Option("--cases", help="That of case files.")] = False) -> None:
    """Print the JSON Schema of policy files, for editors."""
    _run("aggregator.cli.policy.policy:print_schema", cases)


@approvals_app.command("list")
def approvals_list(
    status: Annotated[str, typer.Option(help="pending, granted, denied, used, expired, or all.")] = "pending",
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """List the calls that wait for a person."""
    _run_stored("aggregator.cli.approvals:listed", config, None if status == "all" else status, as_json)


@approvals_app.command("show")
def approvals_show(approval: str, config: Config = None, as_json: AsJson = False) -> None:
    """Show one of them in full."""
    _run_stored("aggregator.cli.approvals:show", config, approval, as_json)


@approvals_app.command("grant")
def approvals_grant(approval: str, config: Config = None) -> None:
    """Let a call through, once."""
    _run_change("aggregator.cli.approvals:grant", config, approval)


@approvals_app.command("deny")
def approvals_deny(
    approval: str,
    note: Annotated[str | None, typer.Option(help="Why, told to the agent.", show_default=False)] = None,
    config: Config = None,
) -> None:
    """Refuse a call, and the same call for an hour."""
    _run_change("aggregator.cli.approvals:deny", config, approval, note)


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
