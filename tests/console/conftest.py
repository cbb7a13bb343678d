"""One running console for the tests of a module."""

from collections.abc import Iterator

import pytest

from tests.console.console_harness import ConsoleHarness
from tests.peers.serving import BackgroundLoop


@pytest.fixture(scope="module")
def background() -> Iterator[BackgroundLoop]:
    """A background loop for the gateway of a module."""
    with BackgroundLoop() as running:
        yield running


@pytest.fixture(scope="module")
def console(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> ConsoleHarness:
    """A gateway with a shop, two agents and the console."""
    return ConsoleHarness(background, tmp_path_factory.mktemp("console"))
