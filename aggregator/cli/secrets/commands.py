"""`aggregator secrets`: the options and help of its commands."""

import typer

secrets_app = typer.Typer(help="Secrets in the keyring of this user.", no_args_is_help=True)
