"""How long an approval is valid."""

from datetime import datetime

import pytest

from aggregator.storage.validity import Validity, valid_until

NOON = datetime(2026, 3, 1, 12, 30).timestamp()


@pytest.mark.parametrize(
    ("validity", "end"),
    [
        ("once", None),
        ("1h", NOON + 3_600),
        ("7d", NOON + 7 * 86_400),
        ("today", datetime(2026, 3, 2).timestamp()),
    ],
)
def test_the_end_of_an_approval(validity: Validity, end: float | None) -> None:
    """D4: at midnight, or after a time."""
    assert valid_until(validity, NOON) == end
