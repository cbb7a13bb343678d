"""One house with a library behind every transport in every era, and houses of one's own for what disturbs."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from aggregator.gateway import changes, subscriptions
from aggregator.upstream import backoff, lists
from tests.journeys.house import House, written
from tests.passing.shelves import UPSTREAMS, entries
from tests.peers.serving import Background
from tests.peers.toolbox import Json

OpenHouse = Callable[..., House]


@pytest.fixture(scope="session", autouse=True)
def _impatient() -> Iterator[None]:
    """Whatever waits for more of the same waits less here: the pauses are a matter of their own tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists, "REFRESH_PAUSE", 0.05)
        patch.setattr(changes, "COALESCE", 0.02)
        patch.setattr(subscriptions, "COALESCE", 0.02)
        patch.setattr(backoff, "FIRST", 0.05)
        yield


@pytest.fixture(scope="session")
def background() -> Iterator[Background]:
    with Background() as running:
        yield running


@pytest.fixture(scope="session")
def house(background: Background, tmp_path_factory: pytest.TempPathFactory) -> House:
    """Nothing in it is ever changed."""
    made = House(background, written(tmp_path_factory.mktemp("house"), entries(background)))
    assert {name: link.state for name, link in made.app.links.items()} == dict.fromkeys(UPSTREAMS, "ready")
    return made


@pytest.fixture(scope="session")
def restless(background: Background, tmp_path_factory: pytest.TempPathFactory) -> House:
    """One for tests that add to it, each what no other does."""
    return House(background, written(tmp_path_factory.mktemp("restless"), entries(background)))


@pytest.fixture
def open_house(tmp_path: Path) -> Iterator[OpenHouse]:
    """Opens a house of its own for one test, in a background of its own."""
    with Background() as running:

        def opened(servers: Mapping[str, Json], **settings: Any) -> House:
            return House(running, written(tmp_path, servers, **settings))

        yield opened
