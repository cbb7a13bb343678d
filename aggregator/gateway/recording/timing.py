"""The steps of a call, timed into its record while it runs, and the tool that it turned out to mean."""

import asyncio
from time import perf_counter
from types import TracebackType
from typing import Final

from aggregator.domain.call_record import Attempt, CallRecord, Stage, current_call
from aggregator.domain.errors import AggregatorError, UpstreamRpcError
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.error_text import error_text
from aggregator.redaction.arguments import without_arguments

# Characters of the sentence about a failed attempt, and recorded attempts of one call.
_FAILURE: Final = 300
_ATTEMPTS: Final = 20


class timed:
    """Times what runs inside as one stage of a call."""

    __slots__ = ("_began", "_name", "_record")

    def __init__(self, record: CallRecord, name: str, began: float | None = None) -> None:
        """Time a stage; one that `began` earlier, by the clock of durations, from then on."""
        self._record = record
        self._name = name
        self._began = began

    def __enter__(self) -> None:
        if self._began is None:
            self._began = perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        record, began = self._record, self._began
        assert began is not None, "a stage is entered once"
        # Quicker than its constructor, which is written in Python.
        record.steps.append(tuple.__new__(Stage, (self._name, began - record.began, perf_counter() - began)))


class attempted(timed):
    """Times one attempt to answer a call, and records its server and the reason of its failure, if informative."""

    __slots__ = ("_server",)

    def __init__(self, record: CallRecord, server: str, began: float | None = None) -> None:
        """Time an attempt of `server`; one that `began` earlier, by the clock of durations, from then on."""
        super().__init__(record, "upstream", began)
        self._server = server

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        record = self._record
        if (error is not None or record.attempts) and len(record.attempts) < _ATTEMPTS:
            record.attempts += (Attempt(len(record.steps), self._server, _why(error, record)),)
        super().__exit__(kind, error, trace)


def enter_tool(record: CallRecord, tool: ToolRecord) -> None:
    """Record the resolved tool."""
    record.server, record.tool, record.own_name = tool.server, tool.name, tool.own_name
    record.schema_version = tool.version


def name_tool(record: CallRecord, tool: ToolRecord) -> None:
    """Record the resolved tool of the running task's call, and note it for the log."""
    enter_tool(record, tool)
    context = current_call.get()
    if context is not None:
        context.server, context.tool = tool.server, tool.name


def _why(error: BaseException | None, record: CallRecord) -> str | None:
    """Return in one sentence why an attempt failed; None if it did not."""
    if error is None:
        return None
    if isinstance(error, UpstreamRpcError):
        said = f"It answered with the error {error.code}: {without_arguments(error.message, record.arguments)}"
    elif isinstance(error, asyncio.CancelledError):
        said = "The call was cancelled."
    else:
        said = error_text(error) if isinstance(error, AggregatorError) else type(error).__name__
    return said if len(said) <= _FAILURE else said[: _FAILURE - 1] + "…"
