"""One harness with an asking server on every transport and era, and separate ones for tests that disturb it."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.end_to_end.server_harness import ServerHarness, write_config
from tests.peers.serving import BackgroundLoop, closing_in_threads, serving
from tests.peers.toolbox import Json
from tests.server_requests.asking_server_web import AskingWebServer
from tests.server_requests.entries import stdio_entry

OpenHarness = Callable[..., ServerHarness]

_numbers: Final = itertools.count(1)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses before repeated requests, reconnects and reloads."""
    for pause in ("_PAUSE", "_LONGEST_PAUSE"):
        monkeypatch.setattr(f"aggregator.gateway.calls.relay.{pause}", 0.001)
    monkeypatch.setattr("aggregator.app.reload.policy_reload.EVERY", 0.05)
    monkeypatch.setattr("aggregator.upstream.lifecycle.backoff.FIRST", 0.05)


@pytest.fixture(scope="package")
def background() -> Iterator[BackgroundLoop]:
    with BackgroundLoop() as running:
        yield running


@pytest.fixture(scope="package")
def harness(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> ServerHarness:
    """A shared harness that no test changes, and that only one host uses at a time."""
    modern, legacy = (background.open(serving(AskingWebServer(era))) for era in ("modern", "legacy"))
    servers = {
        "stdio_modern": stdio_entry("modern"),
        "stdio_legacy": stdio_entry("legacy"),
        "http_modern": {"type": "http", "url": f"{modern}/mcp"},
        "http_legacy": {"type": "http", "url": f"{legacy}/mcp"},
        "sse": {"type": "sse", "url": f"{legacy}/sse"},
        # No call of it is ever cancelled: afterwards a request beside a call could not be attributed for a while.
        "calm": {"type": "http", "url": f"{legacy}/mcp"},
    }
    made = ServerHarness(background, write_config(tmp_path_factory.mktemp("house"), servers))
    assert {upstream.state for upstream in made.app.upstreams.values()} == {"ready"}
    return made


@pytest.fixture(scope="package")
def closer() -> Iterator[Callable[[BackgroundLoop], None]]:
    """Close the loop of a test in a thread, while the next tests run."""
    with closing_in_threads() as close:
        yield close


@pytest.fixture
def own_background(closer: Callable[[BackgroundLoop], None]) -> Iterator[BackgroundLoop]:
    """A background loop for one test."""
    running = BackgroundLoop().__enter__()
    yield running
    closer(running)


@pytest.fixture
def open_harness(tmp_path: Path, own_background: BackgroundLoop) -> OpenHarness:
    """Open a harness for one test, in a background loop of its own."""

    def opened(servers: Mapping[str, Json], **settings: Any) -> ServerHarness:
        return ServerHarness(own_background, write_config(tmp_path, servers, **settings))

    return opened


@pytest.fixture
def key() -> str:
    """A name that no other call has, for servers that many tests share."""
    return f"key-{next(_numbers)}"
