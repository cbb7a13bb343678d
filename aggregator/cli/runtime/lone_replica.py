"""A process that is a replica only because some of its servers may run once: `aggregator stdio`, one for each host.

Rule: loaded only then, since the listener takes a while to import, and hosts wait for the first answer.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aggregator.app.app import App
from aggregator.frontends.hops.listener import HopListener, address_of, listen_at
from aggregator.frontends.hops.servers import ServerHops
from aggregator.frontends.server import listening_socket
from aggregator.upstream.relaying.relay import ServerRelay

log = logging.getLogger(__name__)


@asynccontextmanager
async def as_lone_replica(app: App) -> AsyncIterator[None]:
    """Enter the group and answer the other replicas inside. The port is a free one: a fixed one is that of `serve`.

    Raises:
        OperatorError: the address cannot be used.
    """
    listener = HopListener(app.replication.hops, app.config.http.max_body_bytes)
    listener.add("servers", ServerHops(ServerRelay(app.supervisor)))
    with listening_socket(*listen_at(None, app.config.http.host)) as bound:
        app.replication.membership.address = address_of(bound, None)
        await app.replication.start()
        async with listener.serving(bound):
            yield
