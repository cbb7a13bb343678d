"""The end of a connection to a server in the same process."""

import asyncio
import logging
from typing import Any

import pytest

from aggregator.config.server_config import ServerConfig
from aggregator.upstream.caller import RunningCall
from aggregator.upstream.connection import InboundHandlers
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.transports.local import open_local


async def test_words_that_come_too_late_are_not_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """Proves: C4. What was said just before the connection closed is dropped, and nothing is logged."""

    async def asked(method: str, params: dict[str, Any], origin: RunningCall | None) -> dict[str, Any]:
        raise AssertionError("the server asks nothing")

    server = ServerConfig.model_validate(
        {
            "id": "peer",
            "key": "peer",
            "prefix": "peer",
            "type": "local",
            "target": "tests.peers.sdk:build",
            "description": "",
        }
    )
    async with (
        asyncio.timeout(20),
        open_local(server, InboundHandlers(asked, lambda method, params, origin: None), Reaper()) as peer,
    ):
        assert "serverInfo" in await peer.request(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
        )
        await peer.notify("notifications/initialized")
    assert peer.ended.result() == "closed"
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
