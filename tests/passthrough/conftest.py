"""One house with a library behind every transport in every era, and houses of one's own for what disturbs."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aggregator.gateway import constant_time as evenly
from aggregator.gateway.reads import subscriptions
from aggregator.gateway.views import list_changed as changes
from aggregator.upstream.lifecycle import backoff
from aggregator.upstream.lists import lists
from tests.end_to_end.server_harness import ServerHarness, write_config
from tests.passthrough.upstreams import UPSTREAMS, entries
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json

OpenHarness = Callable[..., ServerHarness]


@pytest.fixture(scope="package", autouse=True)
def _impatient() -> Iterator[None]:
    """Whatever waits for more of the same waits less here: the pauses are a matter of their own tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists, "REFRESH_PAUSE", 0.03)
        patch.setattr(changes, "COALESCE", 0.01)
        patch.setattr(subscriptions, "COALESCE", 0.02)
        patch.setattr(backoff, "FIRST", 0.05)
        patch.setattr(evenly, "EVEN", 0.0)
        yield


@pytest.fixture(scope="package")
def background() -> Iterator[BackgroundLoop]:
    with BackgroundLoop() as running:
        yield running


@pytest.fixture(scope="package")
def harness(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> ServerHarness:
    """For tests that add to it nothing but what is known by its name."""
    made = ServerHarness(background, write_config(tmp_path_factory.mktemp("house"), entries(background)))
    assert {name: link.state for name, link in made.app.upstreams.items()} == dict.fromkeys(UPSTREAMS, "ready")
    # A host on stdio that leaves ends the whole program, and nobody hears any more; here the others stay.
    made.app.gateway.list_changes.close = lambda: None  # type: ignore[method-assign]
    return made


@pytest.fixture(scope="package")
def closer() -> Iterator[Callable[[BackgroundLoop], None]]:
    """Closes what one test opened while the next ones run: its web server takes a fifth of a second to stop."""
    with ThreadPoolExecutor() as threads:
        closing = []
        yield lambda running: closing.append(threads.submit(running.__exit__, None, None, None))
        for one in closing:
            one.result()


@pytest.fixture
def open_harness(tmp_path: Path, closer: Callable[[BackgroundLoop], None]) -> Iterator[OpenHarness]:
    """Opens a house of its own for one test, in a background of its own."""
    running = BackgroundLoop().__enter__()

    def opened(servers: Mapping[str, Json], **settings: Any) -> ServerHarness:
        return ServerHarness(running, write_config(tmp_path, servers, **settings))

    yield opened
    closer(running)
