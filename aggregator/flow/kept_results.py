"""The flow labels of kept results: reading one counts as reading its source."""

from typing import Final

from aggregator.domain.call_record import CallRecord, TraceContext
from aggregator.flow.decide.decide_flow import NO_FLOW
from aggregator.flow.gateway.guard import FlowGuard
from aggregator.gateway.host import Host
from aggregator.gateway.views.current import CurrentCatalog
from aggregator.gateway.views.views import View
from aggregator.results.gateway.keeper import KeptResult

# The source of a label, if the tool of a kept result is unknown.
_PROGRAM: Final = "run_code"


class KeptFlow:
    """The labels of kept results: their own, and the current ones of their tools."""

    def __init__(self, guard: FlowGuard, current: CurrentCatalog) -> None:
        self._guard = guard
        self._current = current

    async def note(
        self, view: View, host: Host, record: CallRecord, within: TraceContext | None, kept: KeptResult
    ) -> None:
        """Record the labels that a kept result brings to the reading conversation, before the host gets it.

        Raises:
            NotRecorded: as of `FlowGuard.bring`.
        """
        if view.rulebook is None or not view.rulebook.has_flow:
            return
        tool = self._current.tools.of_server(*kept.source) if kept.source is not None else None
        flow = view.ruling(tool).flow if tool is not None else NO_FLOW
        call = self._guard.begin(
            view.rulebook, flow, host, record.trace, tool.name if tool is not None else _PROGRAM, within
        )
        await self._guard.bring(call, flow.labels.union(kept.labels), record)
