"""The aggregator in process as `aggregator stdio` runs it: one host on two pipes, and servers that wait for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aggregator.app.app import App
from aggregator.app.build import build_app
from tests.end_to_end.server_harness import ServerHarness


class StdioHarness(ServerHarness):
    """A harness with the stdio frontend only, for one host."""

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[tuple[str, App]]:
        app = build_app(self.config)
        app.supervisor.clients.expect_one()
        async with app.running():
            yield "", app
