"""`aggregator import` and `aggregator install`: the options and help of the commands about other programs' files."""

from enum import StrEnum
from pathlib import Path
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
        typer.Option(help="Import only this server; may be repeated.", metavar="NAME", show_default=False),
    ] = None,
    prefix_host: Annotated[
        bool,
        typer.Option("--prefix-host", help="If a name is taken, put the host before it instead of a number after it."),
    ] = False,
    all_projects: Annotated[
        bool, typer.Option("--all-projects", help="Import the servers of every project that Claude Code knows.")
    ] = False,
    this_folder: Annotated[
        bool,
        typer.Option(
            "--this-folder", help="With --write: also servers in files of this folder, which anyone may have made."
        ),
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
    """Import the MCP servers of other programs on this machine."""
    from aggregator.cli.hosts import import_hosts

    options = import_hosts.ImportOptions(
        write=write,
        as_json=as_json,
        only=only or (),
        prefix_host=prefix_host,
        all_projects=all_projects,
        this_folder=this_folder,
        secrets=None if secrets is None else secrets.value,
    )
    run(import_hosts.run, hosts or [], config, options)


@hosts_app.command("install")
def install_into_host(
    host: Annotated[
        str | None, typer.Argument(help="The host, such as cursor. Default: list them.", show_default=False)
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="The agent whose policy applies to this host.", show_default=False)
    ] = None,
    scope: Annotated[
        str | None, typer.Option(help="user, project or local. Default: user.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="The file to write, if the host has several.", show_default=False)
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The name of our entry. Default: aggregator.", show_default=False)
    ] = None,
    http: Annotated[
        bool, typer.Option("--http/--stdio", help="Connect to `aggregator serve`, or start `aggregator stdio`.")
    ] = False,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="With --http and --agent: make an API key and write it into the file.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Move the host's own servers into our configuration.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an entry of this name that points elsewhere.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Restore the files as they were before the install.")] = False,
    only_entry: Annotated[
        bool,
        typer.Option("--only-entry", help="With --undo: remove only our entry."),
    ] = False,
    while_running: Annotated[
        bool, typer.Option("--while-running", help="Write even while the host runs and may overwrite the change.")
    ] = False,
    write: Annotated[bool, typer.Option("--write", "--yes", "-y", help="Write without asking.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Write our entry into a host's own file, after a preview; --undo restores it. Without HOST, list the hosts."""
    from aggregator.cli.hosts.install.command import run as run_install
    from aggregator.cli.hosts.install.options import InstallOptions

    options = InstallOptions(
        host=host,
        config=config,
        agent=agent,
        scope=scope,
        file=file,
        name=name,
        http=http,
        new_key=new_key,
        take_over=take_over,
        replace=replace,
        undo=undo,
        only_entry=only_entry,
        while_running=while_running,
        write=write,
        as_json=as_json,
    )
    run(run_install, options)
