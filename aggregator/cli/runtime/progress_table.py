"""The live table of servers that start, with the log above it. Loaded only where stderr is a terminal."""

import io
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from rich.live import Live
from rich.table import Table
from rich.text import Text

from aggregator.app.app import App
from aggregator.cli.runtime.screen import Screen
from aggregator.cli.runtime.tables import one_line
from aggregator.redaction.redactor import Redactor
from aggregator.upstream.upstream import Upstream

_PER_SECOND: Final = 8
_COLOURS: Final = {"ready": "green", "starting": "yellow", "disabled": "dim", "stopped": "dim"}
_LONGEST: Final = 200


@contextmanager
def live_table(app: App, redact: Redactor, *, keep: bool) -> Iterator[None]:
    """Show the table inside; a terminal that cannot move its cursor is left alone."""
    console = Screen(stderr=True, markup=False)
    if not console.is_interactive or not app.upstreams:
        yield
        return
    began = time.monotonic()
    live = Live(
        console=console,
        refresh_per_second=_PER_SECOND,
        transient=not keep,
        redirect_stdout=False,
        redirect_stderr=False,
        get_renderable=lambda: _table(app, redact, time.monotonic() - began),
    )
    handlers: list[logging.StreamHandler[Any]] = [
        one
        for one in logging.getLogger().handlers
        if isinstance(one, logging.StreamHandler) and one.stream is sys.stderr
    ]
    above = _AboveTable(console)
    with live:
        for handler in handlers:
            handler.setStream(above)
        try:
            yield
        finally:
            for handler in handlers:
                handler.setStream(sys.stderr)


class _AboveTable(io.TextIOBase):
    """A stream whose lines are written above the table, unbroken."""

    def __init__(self, console: Screen) -> None:
        self._console = console
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._console.print(Text(line), soft_wrap=True)
        return len(text)


def _table(app: App, redact: Redactor, seconds: float) -> Table:
    upstreams = list(app.upstreams.values())
    waiting = sum(one.state == "starting" for one in upstreams)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for one in upstreams:
        table.add_row(one.config.id, Text(one.state, _COLOURS.get(one.state, "red")), _said(one, redact, seconds))
    if waiting:
        table.caption = f"{waiting} of {len(upstreams)} still start"
        table.caption_justify = "left"
    return table


def _said(upstream: Upstream, redact: Redactor, seconds: float) -> str:
    if upstream.state == "ready":
        took = upstream.connect_seconds
        return f"{len(upstream.definitions)} tools{f', {took:.1f} s' if took is not None else ''}"
    if upstream.state == "starting":
        return f"{seconds:.0f} s"
    return one_line(redact(upstream.lifecycle.current.operator_text))[:_LONGEST]
