"""`aggregator import` and `aggregator install`: the options and help of the commands about other programs' files."""

from enum import StrEnum
from typing import Annotated

import typer

from aggregator.cli.runtime.run_command import AsJson, Config, run

hosts_app = typer.Typer(help="Hosts on this machine.", no_args_is_help=True)


class SecretsPlace(StrEnum):
    """Places for secrets that stand in the clear."""

    keep = "keep"
    keyring = "keyring"
    file = "file"


@hosts_app.command("import")
def import_(
    hosts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[HOST]...", help="Hosts, such as claude-desktop or cursor. Default: all.", show_default=False
        ),
    ] = None,
    config: Config = None,
    write: Annotated[bool, typer.Option("--write", "--yes", "-y", help="Write without a question.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Take this server alone; may be repeated.", metavar="NAME", show_default=False),
    ] = None,
    prefix_host: Annotated[
        bool,
        typer.Option(
            "--prefix-host", help="Where a name is taken, put the host before it instead of a number after it."
        ),
    ] = False,
    all_projects: Annotated[
        bool, typer.Option("--all-projects", help="Take in the servers of every project that Claude Code knows.")
    ] = False,
    secrets: Annotated[
        SecretsPlace | None,
        typer.Option(
            help="Secrets in the clear: keep them in the configuration, move them into the keyring, or into files.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take over the MCP servers that other programs on this machine have."""
    from aggregator.cli.hosts import import_hosts

    options = import_hosts.ImportOptions(
        write=write,
        as_json=as_json,
        only=only or (),
        prefix_host=prefix_host,
        all_projects=all_projects,
        secrets=None if secrets is None else secrets.value,
    )
    run(import_hosts.run, hosts or [], config, options)
