"""A background loop for gateways that hosts connect to."""

from collections.abc import Iterator

import pytest

from tests.peers.serving import BackgroundLoop


@pytest.fixture
def background() -> Iterator[BackgroundLoop]:
    with BackgroundLoop() as running:
        yield running
