"""`aggregator secrets`: the options and help of its commands."""

from typing import Annotated

import typer

from aggregator.cli.runtime.run_command import AsJson, Config, run

secrets_app = typer.Typer(help="Secrets in the keyring of this user.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The name it is referred to by: ${keyring:NAME}.")]


# The parser's error would print a value that follows the name.
@secrets_app.command("set", context_settings={"allow_extra_args": True})
def secrets_set(context: typer.Context, name: Name, config: Config = None) -> None:
    """Store a secret: typed without echo, or read from stdin. Never an argument, which others could see."""
    from aggregator.cli.secrets.manage import set_secret

    run(set_secret, name, bool(context.args), config)


@secrets_app.command("list")
def secrets_list(config: Config = None, as_json: AsJson = False) -> None:
    """List the names of secrets and who refers to each; never what they are."""
    from aggregator.cli.secrets.manage import list_secrets

    run(list_secrets, config, as_json)


@secrets_app.command("delete")
def secrets_delete(name: Name, config: Config = None) -> None:
    """Delete a secret of the keyring."""
    from aggregator.cli.secrets.manage import delete_secret

    run(delete_secret, name, config)


@secrets_app.command("test")
def secrets_test(config: Config = None, as_json: AsJson = False) -> None:
    """Resolve every reference of the servers once and say which have no value. Exit 1 if one has none."""
    from aggregator.cli.secrets.trial import run as run_trial

    run(run_trial, config, as_json)
