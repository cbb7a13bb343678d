"""Rooms, and desks for what needs no door."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from aggregator.config.model import Config
from tests.access.desk import configured
from tests.access.rooms import OpenRoom, Room
from tests.peers.serving import Background
from tests.peers.toolbox import Json

Configured = Callable[..., Config]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at twenty times a second, and what is not there is said at once: that has a test of its own."""
    monkeypatch.setattr("aggregator.app.policy_reload.EVERY", 0.05)
    monkeypatch.setattr("aggregator.app.policy_reload.STILL", 0.01)
    monkeypatch.setattr("aggregator.gateway.constant_time.EVEN", 0.0)


@pytest.fixture
def open_room(tmp_path: Path) -> Iterator[OpenRoom]:
    """Opens a room for one test, in a background of its own."""
    with Background() as running:

        def opened(
            servers: Mapping[str, Json], policies: object, agents: Iterable[str] = ("one", "two"), **more: Any
        ) -> Room:
            return Room(running, tmp_path, servers, policies, agents, **more)

        yield opened


@pytest.fixture
def config(tmp_path: Path) -> Configured:
    """A configuration for a desk: servers by name, with fields of their own."""

    def made(*names: str, **fields: Any) -> Config:
        return configured(tmp_path, {name: {"command": "played", **fields} for name in names}, startup_wait=0.1)

    return made


@pytest.fixture
def storage(tmp_path: Path) -> str:
    """A database that is not there yet."""
    return f"sqlite+aiosqlite:///{tmp_path}/kept.db"
