"""Fixtures that open a harness with policies and keys, and configurations for a harness without frontends."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from aggregator.config.model import Config
from tests.access.gateway_harness import make_config
from tests.access.secured_harness import OpenHarness, SecuredHarness
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json

MakeConfig = Callable[..., Config]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at files twenty times a second, and refuse without delay: the even timing has a test of its own."""
    monkeypatch.setattr("aggregator.app.reload.policy_reload.EVERY", 0.05)
    monkeypatch.setattr("aggregator.app.reload.policy_reload.STILL", 0.01)
    monkeypatch.setattr("aggregator.gateway.constant_time.EVEN", 0.0)


@pytest.fixture
def open_harness(tmp_path: Path) -> Iterator[OpenHarness]:
    """Open a harness for one test, in a background loop of its own."""
    with BackgroundLoop() as running:

        def opened(
            servers: Mapping[str, Json], policies: object, agents: Iterable[str] = ("one", "two"), **more: Any
        ) -> SecuredHarness:
            return SecuredHarness(running, tmp_path, servers, policies, agents, **more)

        yield opened


@pytest.fixture
def config(tmp_path: Path) -> MakeConfig:
    """A configuration for a `GatewayHarness`: servers by name, with fields of their own."""

    def made(*names: str, **fields: Any) -> Config:
        return make_config(tmp_path, {name: {"command": "played", **fields} for name in names}, startup_wait=0.1)

    return made


@pytest.fixture
def storage(tmp_path: Path) -> str:
    """The URL of a database that does not exist yet."""
    return f"sqlite+aiosqlite:///{tmp_path}/kept.db"
