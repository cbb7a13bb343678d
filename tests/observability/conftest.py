"""One background loop for the harnesses of a module, and a receiver of spans."""

import os
from collections.abc import Iterator

import pytest

from tests.peers.serving import BackgroundLoop
from tests.telemetry.receiver import Receiver, receiving

# Room for the spans of every call of a test: what is dropped under load is another matter.
_EXPORT_SETTINGS = {"OTEL_BSP_MAX_QUEUE_SIZE": "100000", "OTEL_BSP_SCHEDULE_DELAY": "20"}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """An OTLP receiver that the environment variables of this process name."""
    with receiving() as found, pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("OTEL_"):
                patch.delenv(name)
        for name, value in {
            **_EXPORT_SETTINGS,
            "OTEL_EXPORTER_OTLP_ENDPOINT": found.url,
            "NO_PROXY": "127.0.0.1",
        }.items():
            patch.setenv(name, value)
        yield found


@pytest.fixture(scope="module")
def background(receiver: Receiver) -> Iterator[BackgroundLoop]:
    """A background loop that ends before its receiver, so that its last spans arrive."""
    with BackgroundLoop() as running:
        yield running
