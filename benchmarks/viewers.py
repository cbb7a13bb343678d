"""People who look at the live page: streams of events that are read and dropped.

Run as `python -m benchmarks.viewers HOST:PORT COOKIE TARGET`. For each line `N` on stdin it opens or closes streams
until there are N, and answers `{"open", "bytes"}`: how many there are, and what came since the last line.
"""

import asyncio
import json
import sys
from dataclasses import dataclass, field


class Viewer(asyncio.Protocol):
    """One stream, whose bytes are counted."""

    def __init__(self, opened: asyncio.Future[None]) -> None:
        self.count = 0
        self.transport: asyncio.Transport | None = None
        self._opened = opened

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.count += len(data)
        if not self._opened.done():
            status = data[9:12]
            if status == b"200":
                self._opened.set_result(None)
            else:
                self._opened.set_exception(RuntimeError(f"the live page answered {data[:200]!r}"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._opened.done():
            self._opened.set_exception(RuntimeError("the gateway closed a stream"))


@dataclass(slots=True)
class Streams:
    """All streams of this process."""

    address: tuple[str, int]
    request: bytes
    viewers: list[Viewer] = field(default_factory=list)

    async def resize(self, count: int) -> dict[str, int]:
        """Open or close streams until there are `count`; returns what came meanwhile."""
        came = sum(viewer.count for viewer in self.viewers)
        for viewer in self.viewers:
            viewer.count = 0
        while len(self.viewers) > count:
            viewer = self.viewers.pop()
            assert viewer.transport is not None
            viewer.transport.abort()
        loop = asyncio.get_running_loop()
        while len(self.viewers) < count:
            opened: asyncio.Future[None] = loop.create_future()
            transport, viewer = await loop.create_connection(lambda opened=opened: Viewer(opened), *self.address)  # type: ignore[misc]
            transport.write(self.request)
            await asyncio.wait_for(opened, 20)
            self.viewers.append(viewer)
        return {"open": len(self.viewers), "bytes": came}


async def main() -> None:
    """Serve the lines of stdin."""
    place, cookie, target = sys.argv[1:]
    host, _, port = place.partition(":")
    lines = (f"GET {target} HTTP/1.1", f"Host: {place}", f"Cookie: {cookie}", "Accept: text/event-stream", "", "")
    streams = Streams((host, int(port)), "\r\n".join(lines).encode())
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await streams.resize(int(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
