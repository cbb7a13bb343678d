"""Shortened waiting times for every test of this folder, and both HTTP clients for those that want them."""

import pytest

from aggregator.upstream.lifecycle import backoff
from aggregator.upstream.process import process
from aggregator.upstream.sessions import negotiate
from aggregator.upstream.transports import http, stdio


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waiting times of the package; the ratios stay."""
    monkeypatch.setattr(backoff, "FIRST", 0.02)
    monkeypatch.setattr(backoff, "CAP", 0.5)
    monkeypatch.setattr(backoff, "REFUSED_FIRST", 0.1)
    monkeypatch.setattr(backoff, "REFUSED_CAP", 0.5)
    monkeypatch.setattr(negotiate, "PROBE_TIMEOUT", 0.5)
    monkeypatch.setattr(process, "TERM_GRACE", 0.5)
    monkeypatch.setattr(http, "RETRY_DELAY", 0.02)
    monkeypatch.setattr(stdio, "NOISE_PAUSE", 0.02)


@pytest.fixture(params=["plain", "aiohttp"])
def http_client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test once with the client that `http://` has, and once with that of everything else."""
    if request.param == "aiohttp":
        monkeypatch.setattr("aggregator.upstream.transports.web.plain_url", lambda server: None)
