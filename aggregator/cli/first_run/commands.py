"""`aggregator init` and `aggregator completion`: the options and help of the first steps."""

import typer

first_run_app = typer.Typer(help="First steps.", no_args_is_help=True)
