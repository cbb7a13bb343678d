"""`aggregator notify`: the options of its commands and their help."""

from typing import Annotated

import typer

from aggregator.cli.runtime.run_command import AsJson, Config, run

notify_app = typer.Typer(help="Receivers of notices about things that need a user.", no_args_is_help=True)


@notify_app.callback()
def notify() -> None:
    """Receivers of notices: `notify` in the configuration."""


@notify_app.command("test")
def notify_test(
    name: Annotated[
        str | None, typer.Argument(help="Only this receiver. Default: every one.", show_default=False)
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Send a trial to the receivers of the configuration and say what came back. Exit 1 if one did not take it."""
    from aggregator.notify.cli.trial import run as run_trial

    run(run_trial, config, name, as_json)
