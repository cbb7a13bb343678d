"""`aggregator add`, `remove`, `enable`, `disable`, `rename`: the options and help of the commands that edit servers."""

import typer

servers_app = typer.Typer(help="Servers in the configuration.", no_args_is_help=True)
