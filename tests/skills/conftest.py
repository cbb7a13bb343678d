"""Harnesses with servers that have skills."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.config.load import load
from aggregator.frontends.server import WebServer
from aggregator.gateway import constant_time as evenly
from aggregator.gateway.views import list_changed as changes
from aggregator.upstream.lists import lists
from tests.end_to_end.server_harness import ServerHarness, write_config
from tests.observability.observed_harness import calls_in
from tests.peers.serving import BackgroundLoop, closing_in_threads
from tests.peers.toolbox import Json
from tests.polling import until


class RecordingHarness(ServerHarness):
    """A harness that keeps a row of every call."""

    def __init__(self, background: BackgroundLoop, path: Path, policies: Path | None, storage: str) -> None:
        self._redactor = load(path, dict(os.environ)).redactor
        super().__init__(background, path, policies, storage)

    def build_app(self) -> tuple[App, WebServer]:
        app = build_app(self.config, self._policies, self._storage, keeps_records=True, redactor=self._redactor)
        return app, WebServer(app.gateway, self.config, app.access, app.report)

    async def rows(self, count: int) -> list[Json]:
        """Return the rows of calls in order, once there are so many."""
        assert self._storage is not None
        path = Path(self._storage.removeprefix("sqlite:///"))
        await until(lambda: len(calls_in(path)) >= count)
        return calls_in(path)


class OpenHarness(Protocol):
    """Open an aggregator for one test: with these servers, and policies if any."""

    def __call__(self, servers: Mapping[str, Json], policy: str | None = None, **settings: Any) -> RecordingHarness: ...


@pytest.fixture(scope="package", autouse=True)
def _impatient() -> Iterator[None]:
    """Shorten the pauses that collect several changes; the pauses have tests of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists, "REFRESH_PAUSE", 0.03)
        patch.setattr(changes, "COALESCE", 0.01)
        patch.setattr(evenly, "EVEN", 0.0)
        yield


@pytest.fixture(scope="package")
def closer() -> Iterator[Callable[[BackgroundLoop], None]]:
    """Close the loop of a test in a thread, while the next tests run."""
    with closing_in_threads() as close:
        yield close


@pytest.fixture
def open_harness(tmp_path: Path, closer: Callable[[BackgroundLoop], None]) -> Iterator[OpenHarness]:
    """Open a harness for one test, in a background loop of its own."""
    running = BackgroundLoop().__enter__()

    def opened(servers: Mapping[str, Json], policy: str | None = None, **settings: Any) -> RecordingHarness:
        folder = None
        if policy is not None:
            folder = tmp_path / "policies"
            folder.mkdir()
            (folder / "main.yaml").write_text(policy)
        storage, audit = f"sqlite:///{tmp_path / 'data.db'}", {"flush_interval": "10ms"}
        settings = {"audit": audit, **settings}
        # Skills come, and are got that no list has: what waits for an approval is tested with the pins.
        servers = {name: {"on_new": "show", **entry} for name, entry in servers.items()}
        return RecordingHarness(running, write_config(tmp_path, servers, **settings), folder, storage)

    yield opened
    closer(running)
