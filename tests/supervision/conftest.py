"""Shortened waiting times as in `tests/faults`, and a moderate number of Hypothesis examples."""

import pytest
from hypothesis import settings

from aggregator.upstream.lifecycle import backoff
from aggregator.upstream.lifecycle import idle as rest
from aggregator.upstream.process import process
from tests.laws import examples

settings.register_profile("supervision", deadline=None, max_examples=examples(60), stateful_step_count=40)
settings.load_profile("supervision")


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Shorten waits that are seconds in the product to fractions of one, but for modules that are `PATIENT`."""
    if getattr(request.module, "PATIENT", False):
        return
    monkeypatch.setattr(backoff, "FIRST", 0.02)
    monkeypatch.setattr(backoff, "CAP", 0.2)
    monkeypatch.setattr(rest, "LAZY_FROM", 0.0)
    monkeypatch.setattr(rest, "LAZY_TO", 0.05)
    monkeypatch.setattr(process, "TERM_GRACE", 0.5)
