"""The command line. A command's signature lives in `commands.py`; what it does is loaded when it runs."""

import sys


def main() -> None:
    """Run the command line and exit with its status."""
    from aggregator.cli.commands import cli

    sys.exit(cli())
