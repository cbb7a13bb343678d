"""Reads of kept results, before the host gets them."""

from aggregator.domain.call_record import CallRecord, TraceContext
from aggregator.gateway.hooks import CallHooks, KeptRead
from aggregator.gateway.host import Host
from aggregator.gateway.views.current import CurrentCatalog
from aggregator.gateway.views.views import View
from aggregator.results.gateway.keeper import KeptResult


class KeptReads:
    """Tells the hooks of reads of kept results."""

    def __init__(self, hooks: CallHooks, current: CurrentCatalog) -> None:
        self._hooks = hooks
        self._current = current

    async def note(
        self, view: View, host: Host, record: CallRecord, within: TraceContext | None, kept: KeptResult
    ) -> None:
        """Have the hooks note that a kept result is read, before the host gets it.

        Raises:
            CallRefused: the host must not get it.
        """
        tool = self._current.tools.of_server(*kept.source) if kept.source is not None else None
        await self._hooks.read_kept(KeptRead(view, host, record, within, tool, frozenset(kept.labels)))
