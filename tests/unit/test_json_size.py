"""How many values a JSON text holds, told before it is read."""

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.server_config import ServerConfig
from aggregator.wire.codec import decode, decode_received
from aggregator.wire.values import VALUES_AT_MOST, TooManyValues, check_count

TEXTS = st.text(alphabet=st.sampled_from('a,[{"\\:é\n'), max_size=8)
JSON = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=60,
)


def values_in(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(values_in, inside))


def empties_in(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return (not value) + sum(map(empties_in, value.values() if isinstance(value, dict) else value))


@given(JSON, st.integers(1, 60), st.sampled_from([None, 1]))
def test_no_more_is_read_than_may_be_and_no_less(value: Any, most: int, indent: int | None) -> None:
    """Whatever stands in strings counts as the string it is."""
    data = json.dumps(value, ensure_ascii=False, indent=indent).encode()
    try:
        check_count(data, most)
    except TooManyValues:
        assert values_in(value) + empties_in(value) > most
    else:
        assert values_in(value) <= max(most, len(data) / 2 + 1)
        assert values_in(value) <= most or len(data) <= 2 * most


@pytest.mark.parametrize("item", [b"{}", b"[]", b"1", b'""', b'{"":0}', b" [ ] ", b"null", b"[[]]", b'"\\""'])
@pytest.mark.parametrize("read", [decode, partial(decode_received, server="srv")], ids=["decode", "decode_received"])
def test_a_flood_is_refused_before_it_is_read(item: bytes, read: Any) -> None:
    flood = b'{"content": [' + b",".join([item] * (VALUES_AT_MOST + 2)) + b"]}"
    with pytest.raises(TooManyValues, match="more than 250,000 values"):
        read(flood)
    # It is refused without being read: there is no end to what would be found wrong with it.
    with pytest.raises(TooManyValues):
        read(flood[:-2] + b"}")


@pytest.mark.parametrize(
    "text", ["a,b,[c],{d}," * 100_000, '"' * 400_000, "\\" * 400_000, '\\",' * 200_000, "x" * 900_000]
)
def test_a_long_text_is_one_value(text: str) -> None:
    data = json.dumps({"content": [{"type": "text", "text": text}]}).encode()
    assert decode(data)["content"][0]["text"] == text
    check_count(data, 100)


def test_the_default_is_the_same_on_both_sides() -> None:
    assert ServerConfig.model_fields["max_message_values"].default == VALUES_AT_MOST
