"""`aggregator init` and `aggregator completion`: the options and help of the first steps."""

from typing import Annotated

import typer

from aggregator.cli.runtime.run_command import Config, run

first_run_app = typer.Typer(help="First steps.", no_args_is_help=True)


@first_run_app.command()
def init(
    hosts: Annotated[
        str | None,
        typer.Option("--import", help="The hosts to import from, separated by commas, `all` or `none`."),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option("--agent", help="Write a first policy file and make a key for this agent; `none` for neither."),
    ] = None,
    install: Annotated[
        str | None,
        typer.Option("--install", help="The hosts to write our entry into, separated by commas, or `none`."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Ask nothing: import from all hosts, unless the options say otherwise.")
    ] = False,
    config: Config = None,
) -> None:
    """Set up in three questions: the hosts to import from, a key and a policy, and the host to install into."""
    from aggregator.cli.first_run.init import InitAnswers
    from aggregator.cli.first_run.init import run as run_init

    run(run_init, config, InitAnswers(hosts, agent, install), yes)


@first_run_app.command()
def completion(
    shell: Annotated[
        str | None, typer.Argument(help="bash, zsh or fish. Default: the one SHELL names.", show_default=False)
    ] = None,
    install: Annotated[bool, typer.Option("--install", help="Write the script where the shell looks for it.")] = False,
) -> None:
    """Print the script with which a shell completes our commands, options and names."""
    from aggregator.cli.first_run.completion import run as run_completion

    run(run_completion, shell, install)
