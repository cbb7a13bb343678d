"""The pages for connecting at a socket of their own, which only this machine reaches."""

import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from aggregator.accounts.connect.pages import ConnectPages
from aggregator.accounts.connect.parts import CONNECT_PATH, ConnectingGrants, OutcomeSeen
from aggregator.config.settings import HttpConfig
from aggregator.frontends.http_server import Listener
from aggregator.frontends.web.connection_limits import BoundedConnection
from aggregator.frontends.web.host_guard import HostGuard
from aggregator.frontends.web.own_address import OwnAddress

# Seconds for a request to arrive, and for the last answers to be sent.
_ARRIVING: Final = 10.0
_LAST_BYTES: Final = 1


@asynccontextmanager
async def serving(bound: socket.socket, grants: ConnectingGrants, seen: OutcomeSeen | None) -> AsyncIterator[None]:
    """Serve the pages inside; there are no keys here, so that links for holders of keys are refused."""
    own = OwnAddress(HttpConfig())
    pages = ConnectPages(grants, own, seen=seen)

    guarded = HostGuard(partial(pages.serve, prefix=""), own, (), (CONNECT_PATH,))
    listener = Listener(guarded, partial(BoundedConnection, _ARRIVING, Counter(), None), _LAST_BYTES)
    async with listener.serving(bound, "the listener for connecting"):
        yield
