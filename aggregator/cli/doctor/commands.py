"""`aggregator doctor`: its options and help."""

import typer

doctor_app = typer.Typer(help="What is in the way.", no_args_is_help=True)
