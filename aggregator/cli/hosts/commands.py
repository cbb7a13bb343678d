"""`aggregator import` and `aggregator install`: the options and help of the commands about other programs' files."""

import typer

hosts_app = typer.Typer(help="Hosts on this machine.", no_args_is_help=True)
