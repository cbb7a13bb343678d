"""JSON in and out: whatever a peer may send comes back as it was, or is refused with `ValueError`."""

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aggregator.wire.codec import Raw, decode, decode_received, encode
from aggregator.wire.pieces import pieces

from .strategies import json_values

# Deeper than any interpreter reads or writes: 1,000 levels are too much for Python 3.11, 10,000 for 3.13.
DEPTH = 100_000


@given(json_values())
@example(123456789012345678901234567890)
@example({"\ud800": "\udfff", "n": [10**30, -(10**30)]})
@example({"": [None, True, 1.5, "\u2028\x00\x7f"]})
def test_any_json_comes_back_as_it_was(value: Any) -> None:
    """Proves: C6"""
    data = encode(value)
    assert decode(data) == value
    assert json.loads(data) == value
    assert b"\n" not in data
    assert b"\r" not in data


@given(json_values())
def test_whatever_python_writes_is_read(value: Any) -> None:
    for data in (json.dumps(value), json.dumps(value, indent=1)):
        assert decode(data.encode()) == value
        assert decode(bytearray(data.encode())) == value
        assert decode(memoryview(data.encode())) == value


def test_integers_and_fractions_stay_what_they_are() -> None:
    assert [type(n) for n in decode(b"[1, 1.0, 100000000000000000000, 1e3]")] == [int, float, int, float]


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e400", "9" * 5_000, "9" * 400 + ".5"])
def test_numbers_that_no_reader_takes(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """Some servers send them: they are null for hosts, and the log says so, once for a server. A host's are refused,
    since a call with null in their place would be another call."""
    data, server = b'{"n": %b}' % text.encode(), f"server-{len(text)}-{text:.20}"
    for _ in range(2):
        value = decode_received(data, server)["n"]
        assert not math.isfinite(value)
        assert encode({"n": value}) == b'{"n":null}'
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"{server} sends {text:.40}")
    with pytest.raises(ValueError, match=f"{text:.20}"):
        decode(data)


def test_numbers_that_are_none_are_null_beside_lone_surrogates_too() -> None:
    written = encode({"n": math.nan, "i": math.inf, "s": "\ud800"})
    assert json.loads(written, parse_constant=pytest.fail) == {"n": None, "i": None, "s": "\ud800"}


NOT_JSON = [b"", b" ", b"{", b'{"a":}', b"[1,]", b"nul", b'"\xff"', b"\xff\xfe", b"1 2", b"{'a':1}", b"\x00", b'"a\nb"']
TOO_MUCH = [b"9" * 5_000, b"[" * DEPTH, b"[" * DEPTH + b"]" * DEPTH, b'{"a":' * DEPTH + b"1" + b"}" * DEPTH]


@pytest.mark.parametrize("data", [*NOT_JSON, *TOO_MUCH, b'[NaN,{"a":' * DEPTH], ids=lambda data: repr(data[:12]))
def test_everything_else_is_refused_with_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(data)


@given(st.binary(max_size=30))
def test_any_bytes_are_a_value_or_a_value_error(data: bytes) -> None:
    with suppress(ValueError):
        decode(data)


@given(json_values(), json_values())
def test_raw_is_placed_as_it_is(inner: Any, beside: Any) -> None:
    raw = Raw(encode(inner))
    assert decode(encode({"tools": raw, "beside": beside})) == {"tools": inner, "beside": beside}


def test_raw_is_not_parsed_again() -> None:
    assert encode({"tools": Raw(b'[ 1.0, "\\u00e9" ]')}) == b'{"tools":[ 1.0, "\\u00e9" ]}'


def test_raw_survives_beside_lone_surrogates() -> None:
    assert decode(encode({"tools": Raw(b'{"n": 1}'), "s": "\udc00"})) == {"tools": {"n": 1}, "s": "\udc00"}


def test_what_is_not_json_is_a_bug_of_ours_and_says_so() -> None:
    with pytest.raises(TypeError):
        encode({"a": object()})


@pytest.mark.parametrize("inmost", [[], "\ud800", Raw(b"1")])
@pytest.mark.parametrize("depth", [600, 5_000, DEPTH])
def test_nesting_too_deep_to_write_is_a_value_error(inmost: Any, depth: int) -> None:
    value = inmost
    for _ in range(depth):
        value = [value]
    try:
        written = encode(value)
    except ValueError as error:
        assert "deep" in str(error)  # noqa: PT017
    else:
        assert depth < DEPTH
        assert written.startswith(b"[" * depth)


LONG: str = "x" * 300_000


@pytest.mark.parametrize(
    "value",
    [
        LONG * 4,
        [1, LONG, LONG],
        [LONG, LONG, 1],
        ["short"] * 100 + [LONG] * 2,
        {"a": 1, "b": LONG, "c": [LONG, LONG]},
        {"a": {"b": [0, {"c": LONG, "d": LONG}]}},
    ],
    ids=["text", "small-first", "small-last", "after-a-full-piece", "object", "deep"],
)
def test_no_piece_of_a_large_value_is_large(value: Any) -> None:
    """Wherever the long texts stand: other threads have their turn between two pieces."""
    parts = list(pieces(value))
    assert b"".join(parts) == encode(value)
    assert max(map(len, parts)) < len(LONG)
