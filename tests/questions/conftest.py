"""One house with an asker behind every transport in every era, and houses of one's own for what disturbs."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.journeys.house import House, written
from tests.peers.serving import Background, serving
from tests.peers.toolbox import Json
from tests.questions.asker_web import WebAsker
from tests.questions.entries import stdio_asker

OpenHouse = Callable[..., House]

_numbers: Final = itertools.count(1)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who only wants to be asked again is, at once; what ended comes back, and rules are read, in a moment."""
    for pause in ("_PAUSE", "_LONGEST_PAUSE"):
        monkeypatch.setattr(f"aggregator.gateway.ask.input_required.{pause}", 0.001)
    monkeypatch.setattr("aggregator.app.policy_reload.EVERY", 0.05)
    monkeypatch.setattr("aggregator.upstream.lifecycle.backoff.FIRST", 0.05)


@pytest.fixture(scope="package")
def background() -> Iterator[Background]:
    with Background() as running:
        yield running


@pytest.fixture(scope="package")
def house(background: Background, tmp_path_factory: pytest.TempPathFactory) -> House:
    """Nothing in it is ever changed, and no two hosts use it at once."""
    modern, legacy = (background.open(serving(WebAsker(era))) for era in ("modern", "legacy"))
    servers = {
        "stdio_modern": stdio_asker("modern"),
        "stdio_legacy": stdio_asker("legacy"),
        "http_modern": {"type": "http", "url": f"{modern}/mcp"},
        "http_legacy": {"type": "http", "url": f"{legacy}/mcp"},
        "sse": {"type": "sse", "url": f"{legacy}/sse"},
        # No call of it is ever given up: after that it could not be told for a while whose a question aside is.
        "calm": {"type": "http", "url": f"{legacy}/mcp"},
    }
    made = House(background, written(tmp_path_factory.mktemp("house"), servers))
    assert {link.state for link in made.app.links.values()} == {"ready"}
    return made


@pytest.fixture(scope="package")
def closer() -> Iterator[Callable[[Background], None]]:
    """Closes what one test opened while the next ones run: a web server takes a fifth of a second to stop."""
    with ThreadPoolExecutor() as threads:
        closing: list[Future[None]] = []
        yield lambda running: closing.append(threads.submit(running.__exit__, None, None, None))
        for one in closing:
            one.result()


@pytest.fixture
def own_background(closer: Callable[[Background], None]) -> Iterator[Background]:
    """One that a test has for itself."""
    running = Background().__enter__()
    yield running
    closer(running)


@pytest.fixture
def open_house(tmp_path: Path, own_background: Background) -> OpenHouse:
    """Opens a house of its own for one test, in a background of its own."""

    def opened(servers: Mapping[str, Json], **settings: Any) -> House:
        return House(own_background, written(tmp_path, servers, **settings))

    return opened


@pytest.fixture
def key() -> str:
    """A name no other call has, for askers that many tests share."""
    return f"key-{next(_numbers)}"
