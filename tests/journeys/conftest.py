"""One house with every kind of upstream for the whole run of a worker, and houses of one's own for what disturbs."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.journeys.house import House, local_peer, raw_peer, stdio_peer, written
from tests.peers.sdk import LegacyOnly, http_app, sse_app
from tests.peers.serving import Background, serving
from tests.peers.toolbox import Json

_numbers: Final = itertools.count(1)

OpenHouse = Callable[..., House]


@pytest.fixture(scope="session")
def background() -> Iterator[Background]:
    with Background() as running:
        yield running


@pytest.fixture(scope="session")
def house(background: Background, tmp_path_factory: pytest.TempPathFactory) -> House:
    """Every transport in every era it has; `auto` ones find out, the others are told."""
    http = f"{background.open(serving(http_app()))}/mcp"
    older = f"{background.open(serving(LegacyOnly(http_app())))}/mcp"
    sse = f"{background.open(serving(sse_app()))}/sse"
    servers = {
        "stdio_modern": stdio_peer(),
        "stdio_legacy": stdio_peer(protocol="legacy"),
        "raw_2024": raw_peer("--version", "2024-11-05", "--noise"),
        "raw_2025": raw_peer("--version", "2025-06-18", "--dies-on-discover"),
        "raw_2026": raw_peer("--version", "2026-07-28"),
        "http_modern": {"url": http},
        "http_legacy": {"type": "http", "url": older},
        "sse": {"type": "sse", "url": sse},
        "local_modern": local_peer(),
        "local_legacy": local_peer(protocol="legacy"),
    }
    return House(background, written(tmp_path_factory.mktemp("house"), servers))


@pytest.fixture
def open_house(tmp_path: Path) -> Iterator[OpenHouse]:
    """Opens a house of its own for one test, in a background of its own."""
    with Background() as running:

        def opened(servers: Mapping[str, Json], **settings: Any) -> House:
            return House(running, written(tmp_path, servers, **settings))

        yield opened


@pytest.fixture
def key() -> str:
    """A name no other call has, for peers that many tests share."""
    return f"key-{next(_numbers)}"
