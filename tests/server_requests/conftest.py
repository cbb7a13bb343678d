"""One house with an asker behind every transport in every era, and houses of one's own for what disturbs."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.end_to_end.server_harness import ServerHarness, write_config
from tests.peers.serving import BackgroundLoop, serving
from tests.peers.toolbox import Json
from tests.server_requests.asking_server_web import AskingWebServer
from tests.server_requests.entries import stdio_entry

OpenHarness = Callable[..., ServerHarness]

_numbers: Final = itertools.count(1)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who only wants to be asked again is, at once; what ended comes back, and rules are read, in a moment."""
    for pause in ("_PAUSE", "_LONGEST_PAUSE"):
        monkeypatch.setattr(f"aggregator.gateway.ask.input_required.{pause}", 0.001)
    monkeypatch.setattr("aggregator.app.policy_reload.EVERY", 0.05)
    monkeypatch.setattr("aggregator.upstream.lifecycle.backoff.FIRST", 0.05)


@pytest.fixture(scope="package")
def background() -> Iterator[BackgroundLoop]:
    with BackgroundLoop() as running:
        yield running


@pytest.fixture(scope="package")
def harness(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> ServerHarness:
    """Nothing in it is ever changed, and no two hosts use it at once."""
    modern, legacy = (background.open(serving(AskingWebServer(era))) for era in ("modern", "legacy"))
    servers = {
        "stdio_modern": stdio_entry("modern"),
        "stdio_legacy": stdio_entry("legacy"),
        "http_modern": {"type": "http", "url": f"{modern}/mcp"},
        "http_legacy": {"type": "http", "url": f"{legacy}/mcp"},
        "sse": {"type": "sse", "url": f"{legacy}/sse"},
        # No call of it is ever given up: after that it could not be told for a while whose a question aside is.
        "calm": {"type": "http", "url": f"{legacy}/mcp"},
    }
    made = ServerHarness(background, write_config(tmp_path_factory.mktemp("house"), servers))
    assert {link.state for link in made.app.upstreams.values()} == {"ready"}
    return made


@pytest.fixture(scope="package")
def closer() -> Iterator[Callable[[BackgroundLoop], None]]:
    """Closes what one test opened while the next ones run: a web server takes a fifth of a second to stop."""
    with ThreadPoolExecutor() as threads:
        closing: list[Future[None]] = []
        yield lambda running: closing.append(threads.submit(running.__exit__, None, None, None))
        for one in closing:
            one.result()


@pytest.fixture
def own_background(closer: Callable[[BackgroundLoop], None]) -> Iterator[BackgroundLoop]:
    """One that a test has for itself."""
    running = BackgroundLoop().__enter__()
    yield running
    closer(running)


@pytest.fixture
def open_harness(tmp_path: Path, own_background: BackgroundLoop) -> OpenHarness:
    """Opens a house of its own for one test, in a background of its own."""

    def opened(servers: Mapping[str, Json], **settings: Any) -> ServerHarness:
        return ServerHarness(own_background, write_config(tmp_path, servers, **settings))

    return opened


@pytest.fixture
def key() -> str:
    """A name no other call has, for askers that many tests share."""
    return f"key-{next(_numbers)}"
