"""Durations and sizes as people write them."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.durations import DURATION_PATTERN, SIZE_PATTERN, format_duration, parse_duration, parse_size


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (30, 30),
        (0.5, 0.5),
        ("30", 30),
        ("30s", 30),
        (" 30s ", 30),
        ("500ms", 0.5),
        ("5m", 300),
        ("1h", 3600),
        ("365d", 31_536_000),
        ("1d12h", 129_600),
        ("1m30s", 90),
        ("1.5h", 5400),
        ("1h1m1s1ms", 3661.001),
    ],
)
def test_a_duration_is_read(written: object, seconds: float) -> None:
    assert parse_duration(written) == pytest.approx(seconds)
    assert not isinstance(written, str) or re.search(DURATION_PATTERN, written)


@pytest.mark.parametrize(
    "written", ["", " ", "s", "30 s", "1s1m", "-1s", "1e3", "٣s", "30x", True, None, [], {}, 0, -1, "0s", 10**400]
)
def test_what_is_no_duration_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="expected a"):
        parse_duration(written)


def test_a_number_that_is_none_is_refused() -> None:
    for odd in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="above zero"):
            parse_duration(odd)


@given(st.integers(min_value=1, max_value=10**10))
def test_a_duration_goes_there_and_back(milliseconds: int) -> None:
    text = format_duration(milliseconds / 1000)
    assert parse_duration(text) == pytest.approx(milliseconds / 1000)
    assert re.search(DURATION_PATTERN, text)


@pytest.mark.parametrize(
    ("written", "size"),
    [(1, 1), ("4096", 4096), ("64KiB", 65536), ("4 MiB", 4 * 2**20), ("1gb", 10**9)],
)
def test_a_size_is_read(written: object, size: int) -> None:
    assert parse_size(written) == size
    assert not isinstance(written, str) or re.search(SIZE_PATTERN, written)


@pytest.mark.parametrize("written", ["", "MiB", "-1", "4 parsecs", True, None, 0, "0.1", float("nan"), 10**400])
def test_what_is_no_size_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="expected a"):
        parse_size(written)


@given(st.text())
def test_a_text_is_never_repeated_in_the_complaint(text: str) -> None:
    for parse in (parse_duration, parse_size):
        with pytest.raises(ValueError, match="expected a") as caught:
            parse(f"secret-{text}")
        assert "secret-" not in str(caught.value)
