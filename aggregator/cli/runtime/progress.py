"""Progress while servers start: a live table where stderr is a terminal, nothing elsewhere but the log."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aggregator.app.app import App
from aggregator.redaction.redactor import Redactor


@asynccontextmanager
async def shown_starting(app: App, redact: Redactor, *, keep: bool = False) -> AsyncIterator[None]:
    """Show the servers of an app and their states inside; with `keep`, the last picture stays on the terminal.

    The log continues above the table. If stderr is no terminal, nothing happens and nothing is loaded.
    """
    if not sys.stderr.isatty():
        yield
        return
    from aggregator.cli.runtime.progress_table import live_table

    with live_table(app, redact, keep=keep):
        yield


async def show_start(app: App, redact: Redactor) -> None:
    """Show the servers of an app until each has been tried once."""
    async with shown_starting(app, redact, keep=True):
        await app.supervisor.wait_all_tried()
