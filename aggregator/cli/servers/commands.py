"""`aggregator add`, `remove`, `enable`, `disable`, `rename`: the options and help of the commands that edit servers."""

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from aggregator.cli.runtime.run_command import AsJson, Config, run

servers_app = typer.Typer(help="Servers in the configuration.", no_args_is_help=True)


class AddCommand(TyperCommand):
    """`add`, which says where options of the server's program belong."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the words and options. An option that is not known is one of the program, if there is one."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # typer exports no class of its own for it
            if getattr(error, "option_name", None) is not None and "--" not in args:
                told: Any = error
                told.message += (
                    ". Options of a server's program stand after `--`: aggregator add NAME -- COMMAND ARGS..."
                )
            raise


@servers_app.command(
    cls=AddCommand,
    epilog="aggregator add time -- uvx mcp-server-time | aggregator add docs https://mcp.example.com/mcp | "
    "aggregator add --from npm:@modelcontextprotocol/server-everything",
)
def add(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME] [-- COMMAND ARGS... | URL]",
            help="The server's name, and its command after `--`, or its address. With --from: more arguments.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="A server.json file, a bundle (FILE.mcpb), npm:PACKAGE, pypi:PACKAGE, oci:IMAGE, nuget:PACKAGE, or a "
            "name in the MCP Registry.",
            show_default=False,
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(help="K=V: an environment variable of the program; K alone takes ours.", show_default=False),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="'K: V' or K=V: sent to the address.", show_default=False)
    ] = None,
    answer: Annotated[
        list[str] | None, typer.Option("--set", help="K=V: a value that the source asks for.", show_default=False)
    ] = None,
    transport: Annotated[
        str | None, typer.Option("--type", help="The transport of the address: http, sse or auto.", show_default=False)
    ] = None,
    per: Annotated[
        str | None,
        typer.Option(
            help="The account for calls, if the server asks for a login (OAuth): shared, agent or user.",
            show_default=False,
        ),
    ] = None,
    use: Annotated[
        str | None,
        typer.Option(
            help="The entry of a server.json to use: npm, pypi, oci, nuget, mcpb or remote.", show_default=False
        ),
    ] = None,
    cwd: Annotated[str | None, typer.Option(help="The folder the program runs in.", show_default=False)] = None,
    config: Config = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", "--write", help="Start it and write the entry without asking.")
    ] = False,
    no_connect: Annotated[bool, typer.Option("--no-connect", help="Write the entry without trying it.")] = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="Write the entry even if it does not connect.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a server of the same name.")] = False,
    disabled: Annotated[bool, typer.Option("--disabled", help="Write it switched off.")] = False,
    timeout: Annotated[
        str | None,
        typer.Option(help="How long the trial may take. Default: 30s, or 3m if a download may come first."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add a server: connect to it once, show its tools and their cost, and write the entry. Exit 1 if not written.

    Values may be references such as ${NAME}; the gateway resolves them when it starts.
    """
    from aggregator.cli.servers.adding import add as adding
    from aggregator.cli.servers.adding.request import (
        AddRequest,
        read_pairs,
        read_per,
        read_seconds,
        read_type,
        read_words,
    )

    name, rest, url = read_words(words or [], source)
    request = AddRequest(
        name,
        command=rest if source is None else (),
        url=url,
        source=source,
        more=rest if source is not None else (),
        type=read_type(transport),
        per=read_per(per),
        env=read_pairs(env or (), "variable"),
        headers=read_pairs(header or (), "header", headers=True),
        answers=read_pairs(answer or (), "value"),
        use=use,
        cwd=cwd,
        config=config,
        yes=yes,
        connect=not no_connect,
        anyway=anyway,
        replace=replace,
        disabled=disabled,
        as_json=as_json,
        seconds=read_seconds(timeout),
    )
    run(adding.run, request)


Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Servers, by their names in the configuration.")]


@servers_app.command()
def remove(names: Names, config: Config = None) -> None:
    """Remove servers from the configuration; list the settings that still name them, with file and line."""
    from aggregator.cli.servers.change import remove as run_remove

    run(run_remove, config, names)


@servers_app.command()
def enable(names: Names, config: Config = None) -> None:
    """Switch servers of the configuration on."""
    from aggregator.cli.servers.change import switch

    run(switch, config, names, on=True)


@servers_app.command()
def disable(names: Names, config: Config = None) -> None:
    """Switch servers of the configuration off: their entries stay, and they are not connected."""
    from aggregator.cli.servers.change import switch

    run(switch, config, names, on=False)


@servers_app.command()
def rename(
    old: Annotated[str, typer.Argument(help="The server's name in the configuration.")],
    new: Annotated[str, typer.Argument(help="Its new name.")],
    policies: Annotated[
        bool, typer.Option("--policies", help="Rename it in the policy files and their test cases too.")
    ] = False,
    config: Config = None,
) -> None:
    """Rename a server in the configuration, with the fallbacks that name it. Its tools get new names."""
    from aggregator.cli.servers.change import rename as run_rename

    run(run_rename, config, old, new, policies=policies)
