"""One harness with a library server on every transport and era, and separate ones for tests that disturb it."""

from collections.abc import Callable, Iterator, Mapping
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
from tests.peers.serving import BackgroundLoop, closing_in_threads
from tests.peers.toolbox import Json

OpenHarness = Callable[..., ServerHarness]


@pytest.fixture(scope="package", autouse=True)
def _impatient() -> Iterator[None]:
    """Shorten the pauses that collect several changes; the pauses have tests of their own."""
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
    """A shared harness, for tests whose additions have names of their own."""
    folder = tmp_path_factory.mktemp("house")
    path = write_config(folder, entries(background))
    made = ServerHarness(background, path, storage=f"sqlite+aiosqlite:///{folder}/kept.db")
    assert {name: upstream.state for name, upstream in made.app.upstreams.items()} == dict.fromkeys(UPSTREAMS, "ready")
    # A stdio host that leaves ends the whole program and its notifications; here the other hosts go on.
    made.app.gateway.list_changes.close = lambda: None  # type: ignore[method-assign]
    return made


@pytest.fixture(scope="package")
def closer() -> Iterator[Callable[[BackgroundLoop], None]]:
    """Close the loop of a test in a thread, while the next tests run."""
    with closing_in_threads() as close:
        yield close


@pytest.fixture
def open_harness(tmp_path: Path, closer: Callable[[BackgroundLoop], None]) -> Iterator[OpenHarness]:
    """Open a harness for one test, in a background loop of its own."""
    running = BackgroundLoop().__enter__()

    def opened(servers: Mapping[str, Json], **settings: Any) -> ServerHarness:
        return ServerHarness(running, write_config(tmp_path, servers, **settings))

    yield opened
    closer(running)
