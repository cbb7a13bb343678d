"""The product's own patience, shortened for every test here."""

import pytest

from aggregator.upstream.lifecycle import backoff
from aggregator.upstream.process import process
from aggregator.upstream.sessions import negotiate
from aggregator.upstream.transports import http, stdio


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits that are seconds in the product are fractions of one here; the ratios stay."""
    monkeypatch.setattr(backoff, "FIRST", 0.02)
    monkeypatch.setattr(backoff, "CAP", 0.5)
    monkeypatch.setattr(backoff, "REFUSED_FIRST", 0.1)
    monkeypatch.setattr(backoff, "REFUSED_CAP", 0.5)
    monkeypatch.setattr(negotiate, "PROBE_TIMEOUT", 0.5)
    monkeypatch.setattr(process, "TERM_GRACE", 0.5)
    monkeypatch.setattr(http, "RETRY_DELAY", 0.02)
    monkeypatch.setattr(stdio, "NOISE_PAUSE", 0.02)
