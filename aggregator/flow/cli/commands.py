"""`aggregator flow`: the options of its commands and their help."""

from typing import Annotated

import typer

from aggregator.cli.runtime.run_command import AsJson, Config, database_settings, run

flow_app = typer.Typer(help="Flow labels: the kinds of data that conversations have read.", no_args_is_help=True)


@flow_app.callback()
def flow() -> None:
    """Flow labels: which kinds of data conversations have read, as flow rules of the policies speak of them."""


@flow_app.command("show")
def flow_show(
    agent: Annotated[str | None, typer.Argument(help="Only this agent. Default: all.", show_default=False)] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Print what each conversation has read: by which tool, when, and until when that counts."""
    from aggregator.flow.cli.labels import show

    run(show, database_settings(config).url, agent, as_json)


@flow_app.command("clear")
def flow_clear(
    agent: Annotated[str, typer.Argument(help="The agent whose labels go.")],
    scope: Annotated[
        str | None,
        typer.Option(help="Only this session, trace or key, as `flow show` names it.", show_default=False),
    ] = None,
    config: Config = None,
) -> None:
    """Forget what conversations of an agent have read. Running gateways heed it within a second. Exit 1 if there was
    nothing."""
    from aggregator.flow.cli.labels import clear

    database = database_settings(config)
    run(clear, database.url, agent, scope, audited=database.audited, chain_key=database.chain_key)
