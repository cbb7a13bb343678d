"""The transports to upstreams: one module for each. To add one, write it and add its line to `TRANSPORTS`.

Every transport opens a `Connection` (`upstream/connection.py`) as an asynchronous context, and ends it by itself.

Terms:
  connection: one open transport to one server
  duplex: one stream in each direction, over which a `wire.peer.Peer` runs: stdio, SSE, local
  rate limit: messages of a server that answer no request are read at a bounded rate
  notice: a message without an answer, sent over HTTP

Entry point: the `open_*` function of each module, by its name in `TRANSPORTS`.

Must not import: sessions, lists, health; tests/test_layers.py holds that.
"""

from collections.abc import Mapping
from typing import Final

# By name: the libraries of a transport are loaded when the first server needs them.
TRANSPORTS: Final[Mapping[str, str]] = {
    "stdio": "aggregator.upstream.transports.stdio:open_stdio",
    "http": "aggregator.upstream.transports.http:open_http",
    "sse": "aggregator.upstream.transports.sse:open_sse",
    "local": "aggregator.upstream.transports.local:open_local",
}
