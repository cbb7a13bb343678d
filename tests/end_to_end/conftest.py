"""One harness with every kind of upstream for a whole test run, and separate ones for tests that disturb it."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.end_to_end.server_harness import ServerHarness, local_entry, raw_stdio_entry, sdk_stdio_entry, write_config
from tests.peers.sdk import LegacyOnly, http_app, sse_app
from tests.peers.serving import BackgroundLoop, serving
from tests.peers.toolbox import Json

_numbers: Final = itertools.count(1)

OpenHarness = Callable[..., ServerHarness]


@pytest.fixture(scope="session")
def background() -> Iterator[BackgroundLoop]:
    with BackgroundLoop() as running:
        yield running


@pytest.fixture(scope="session")
def harness(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> ServerHarness:
    """A running aggregator with an upstream of every transport and era, negotiated or configured."""
    http = f"{background.open(serving(http_app()))}/mcp"
    older = f"{background.open(serving(LegacyOnly(http_app())))}/mcp"
    sse = f"{background.open(serving(sse_app()))}/sse"
    servers = {
        "stdio_modern": sdk_stdio_entry(),
        "stdio_legacy": sdk_stdio_entry(protocol="legacy"),
        "raw_2024": raw_stdio_entry("--version", "2024-11-05", "--noise"),
        "raw_2025": raw_stdio_entry("--version", "2025-06-18", "--dies-on-discover"),
        "raw_2026": raw_stdio_entry("--version", "2026-07-28"),
        "http_modern": {"url": http},
        "http_legacy": {"type": "http", "url": older},
        "sse": {"type": "sse", "url": sse},
        "local_modern": local_entry(),
        "local_legacy": local_entry(protocol="legacy"),
    }
    return ServerHarness(background, write_config(tmp_path_factory.mktemp("house"), servers))


@pytest.fixture
def open_harness(tmp_path: Path) -> Iterator[OpenHarness]:
    """Open a harness for one test, in a background loop of its own."""
    with BackgroundLoop() as running:

        def opened(servers: Mapping[str, Json], **settings: Any) -> ServerHarness:
            return ServerHarness(running, write_config(tmp_path, servers, **settings))

        yield opened


@pytest.fixture
def key() -> str:
    """A name that no other call has, for upstreams that many tests share."""
    return f"key-{next(_numbers)}"
