"""One file per transport. To add one: write it, and add its line to `TRANSPORTS` here."""

from collections.abc import Mapping
from typing import Final

# Named, not imported: a transport's libraries are loaded when the first server needs it.
TRANSPORTS: Final[Mapping[str, str]] = {
    "stdio": "aggregator.upstream.transports.stdio:open_stdio",
    "http": "aggregator.upstream.transports.http:open_http",
    "sse": "aggregator.upstream.transports.sse:open_sse",
    "local": "aggregator.upstream.transports.local:open_local",
}
