"""Telling hosts that the list of tools changed: once for a burst of changes, and only those who are listening."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from aggregator.domain.versions import META_SERVER_INFO, META_SUBSCRIPTION_ID
from aggregator.gateway.eras import SERVER_INFO
from aggregator.gateway.host import Host
from aggregator.wire.peer import Channel

# Servers tend to come up together: one notification for all of them.
COALESCE: Final = 0.1

TOOLS_CHANGED: Final = "notifications/tools/list_changed"


class Changes:
    """Handshake-era hosts hear on their session, 2026-07-28 ones on the `subscriptions/listen` they opened."""

    def __init__(self) -> None:
        self._hosts: set[Host] = set()
        self._streams: dict[object, Callable[[], None]] = {}
        self._closing = asyncio.Event()
        self._pending: asyncio.TimerHandle | None = None

    def attach(self, host: Host) -> None:
        """From now on `host` is told, once it has finished its handshake."""
        self._hosts.add(host)

    def detach(self, host: Host) -> None:
        self._hosts.discard(host)

    def announce(self) -> None:
        """The list changed."""
        if self._pending is None:
            self._pending = asyncio.get_running_loop().call_later(COALESCE, self._tell)

    def close(self) -> None:
        """End every open stream gracefully."""
        self._closing.set()
        if self._pending is not None:
            self._pending.cancel()

    async def listen(self, params: Mapping[str, Any], channel: Channel) -> dict[str, Any]:
        """`subscriptions/listen`: acknowledge what can be honoured, then tell until the host goes or we close."""
        wanted = params.get("notifications")
        honoured = {"toolsListChanged": True} if isinstance(wanted, dict) and wanted.get("toolsListChanged") else {}
        meta = {META_SUBSCRIPTION_ID: channel.request_id}
        channel.notify("notifications/subscriptions/acknowledged", {"notifications": honoured, "_meta": meta})
        if honoured:
            self._streams[channel] = lambda: channel.notify(TOOLS_CHANGED, {"_meta": meta})
        try:
            await self._closing.wait()
        finally:
            self._streams.pop(channel, None)
        return {"_meta": {**meta, META_SERVER_INFO: SERVER_INFO}}

    def _tell(self) -> None:
        self._pending = None
        for host in list(self._hosts):
            if host.initialized and host.notify is not None:
                host.notify(TOOLS_CHANGED, {})
        for tell in list(self._streams.values()):
            tell()
