"""Telling hosts that their list of tools changed: once for a burst of changes, and only those whose own list did."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aggregator.domain.names import Style
from aggregator.domain.records import ToolRecord
from aggregator.domain.versions import META_SUBSCRIPTION_ID
from aggregator.gateway.host import Host
from aggregator.wire.peer import Channel

# Servers tend to come up together: one notification for all of them.
COALESCE: Final = 0.1

TOOLS_CHANGED: Final = "notifications/tools/list_changed"

Seen = tuple[Style, tuple[ToolRecord, ...]]
"""A list as a host sees it: how names are spelled, and the tools."""


@dataclass(slots=True, eq=False)
class _Listener:
    """One who is told: `seen` is the list as it was when it was last told or last asked."""

    host: Host
    tell: Callable[[], None]
    seen: Seen


class Changes:
    """Handshake-era hosts hear on their session, 2026-07-28 ones on the `subscriptions/listen` they opened."""

    def __init__(self, seen_by: Callable[[Host], Seen]) -> None:
        self._seen_by = seen_by
        self._hosts: dict[Host, _Listener] = {}
        self._streams: set[_Listener] = set()
        self._closing = asyncio.Event()
        self._pending: asyncio.TimerHandle | None = None

    def attach(self, host: Host) -> None:
        """From now on `host` is told, once it has finished its handshake."""

        def tell() -> None:
            if host.initialized and host.notify is not None:
                host.notify(TOOLS_CHANGED, {})

        self._hosts[host] = _Listener(host, tell, self._seen_by(host))

    def detach(self, host: Host) -> None:
        self._hosts.pop(host, None)

    def told(self, host: Host, seen: Seen) -> None:
        """`host` has just been given this list."""
        listener = self._hosts.get(host)
        if listener is not None:
            listener.seen = seen

    def sessions(self) -> dict[str, int]:
        """How many hosts have one, by door."""
        return Counter(host.door for host in self._hosts)

    def announce(self) -> None:
        """Something changed that lists depend on."""
        if self._pending is None and not self._closing.is_set():
            self._pending = asyncio.get_running_loop().call_later(COALESCE, self._tell)

    def close(self) -> None:
        """End every open stream gracefully."""
        self._closing.set()
        if self._pending is not None:
            self._pending.cancel()

    async def listen(self, host: Host, params: Mapping[str, Any], channel: Channel) -> dict[str, Any]:
        """`subscriptions/listen`: acknowledge what can be honoured, then tell until the host goes or we close."""
        wanted = params.get("notifications")
        honoured = {"toolsListChanged": True} if isinstance(wanted, dict) and wanted.get("toolsListChanged") else {}
        meta = {META_SUBSCRIPTION_ID: channel.request_id}

        def tell() -> None:
            channel.notify(TOOLS_CHANGED, {"_meta": meta})

        listener = _Listener(host, tell, self._seen_by(host))
        channel.notify("notifications/subscriptions/acknowledged", {"notifications": honoured, "_meta": meta})
        if honoured:
            self._streams.add(listener)
        try:
            await self._closing.wait()
        finally:
            self._streams.discard(listener)
        return {"_meta": meta}

    def _tell(self) -> None:
        self._pending = None
        for listener in [*self._hosts.values(), *self._streams]:
            seen = self._seen_by(listener.host)
            if seen != listener.seen:
                listener.seen = seen
                listener.tell()
