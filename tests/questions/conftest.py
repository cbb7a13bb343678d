"""One house with an asker behind every transport in every era, and houses of one's own for what disturbs."""

import itertools
from collections.abc import Callable, Iterator, Mapping
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


@pytest.fixture(scope="session")
def background() -> Iterator[Background]:
    with Background() as running:
        yield running


@pytest.fixture(scope="session")
def house(background: Background, tmp_path_factory: pytest.TempPathFactory) -> House:
    """Nothing in it is ever changed, and no two hosts use it at once."""
    modern, legacy = (background.open(serving(WebAsker(era))) for era in ("modern", "legacy"))
    servers = {
        "stdio_modern": stdio_asker("modern"),
        "stdio_legacy": stdio_asker("legacy"),
        "http_modern": {"type": "http", "url": f"{modern}/mcp"},
        "http_legacy": {"type": "http", "url": f"{legacy}/mcp"},
        "sse": {"type": "sse", "url": f"{legacy}/sse"},
    }
    made = House(background, written(tmp_path_factory.mktemp("house"), servers))
    assert {link.state for link in made.app.links.values()} == {"ready"}
    return made


@pytest.fixture
def open_house(tmp_path: Path) -> Iterator[OpenHouse]:
    """Opens a house of its own for one test, in a background of its own."""
    with Background() as running:

        def opened(servers: Mapping[str, Json], **settings: Any) -> House:
            return House(running, written(tmp_path, servers, **settings))

        yield opened


@pytest.fixture
def key() -> str:
    """A name no other call has, for askers that many tests share."""
    return f"key-{next(_numbers)}"
