"""The transports to upstreams: one module for each. To add one, write it and describe it in `TRANSPORTS`.

Every transport opens a `Connection` (`upstream/connection.py`) as an asynchronous context, and ends it by itself.

Terms:
  connection: one open transport to one server
  duplex: one stream in each direction, over which a `wire.peer.Peer` runs: stdio, SSE, local
  rate limit: messages of a server that answer no request are read at a bounded rate
  notice: a message without an answer, sent over HTTP

Entry point: `TRANSPORTS`, with the `open_*` function of each module.

Must not import: sessions, lists, health; tests/test_layers.py holds that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Transport:
    """The facts of a transport.

    `opener` names its `open_*` function: the libraries of a transport are loaded when the first server needs them.
    `cheap`: one more connection takes no process, so a host of a handshake era that answers questions gets its own;
    otherwise hosts share a connection, which declares the abilities of all.
    """

    opener: str
    cheap: bool


TRANSPORTS: Final[Mapping[str, Transport]] = {
    "stdio": Transport("aggregator.upstream.transports.stdio:open_stdio", cheap=False),
    "http": Transport("aggregator.upstream.transports.http:open_http", cheap=True),
    "sse": Transport("aggregator.upstream.transports.sse:open_sse", cheap=True),
    "local": Transport("aggregator.upstream.transports.local:open_local", cheap=False),
}
