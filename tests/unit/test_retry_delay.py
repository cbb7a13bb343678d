"""When a broken stream is opened again: as its server asks, but never at once and for ever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.upstream.transports.web import LEAST_DELAY, RETRY_DELAY, retry_delay


@pytest.mark.parametrize(
    ("asked", "seconds"), [(None, RETRY_DELAY), (500, 0.5), (86_400_000, 86_400), (0, LEAST_DELAY)]
)
def test_as_the_server_asks(asked: int | None, seconds: float) -> None:
    """C11: a `retry` field counts milliseconds; without one, it is our own time."""
    assert retry_delay(asked, RETRY_DELAY) == seconds


@given(st.integers(0, 10**9))
def test_no_server_keeps_us_busy(asked: int) -> None:
    """D3: streams that end at once are opened ten times a second at most."""
    assert retry_delay(asked, 0) >= LEAST_DELAY > 0
