"""How many values a JSON text holds, told before it is read."""

import json
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.server_parts import LimitsConfig
from aggregator.wire import codec
from aggregator.wire.codec import decode, decode_from_host, decode_received
from aggregator.wire.values import NAMES_AT_MOST, VALUES_AT_MOST, TooManyValues, check_count

TEXTS = st.text(alphabet=st.sampled_from('a,[{"\\:é\n'), max_size=8)
JSON = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=60,
)


def values_in(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(values_in, inside))


def names_in(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (len(value) if isinstance(value, dict) else 0) + sum(map(names_in, inside))


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


@given(JSON, st.integers(1, 20), st.sampled_from([None, 1]), st.sampled_from([2, 3, 7, 64]))
def test_no_more_names_are_read_than_may_be(value: Any, most: int, indent: int | None, block: int) -> None:
    """Names are counted exactly, wherever the blocks of the text end: in a string, in an escape, in a name."""
    data = json.dumps(value, ensure_ascii=False, indent=indent).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aggregator.wire.values._BLOCK", block)
        if names_in(value) > most:
            with pytest.raises(TooManyValues, match=f"more than {most} names of fields"):
                check_count(data, inf, most)
        else:
            check_count(data, inf, most)


NAMES = {
    "one object": lambda many: {f"n{at}": 0 for at in range(many)},
    "of objects": lambda many: [{"n": 0}] * many,
    "nested": lambda many: [{"a": {"b": {"c": 0}}}] * (many // 3) + [{"n": 0}] * (many % 3),
    "signs": lambda many: [{':",{': ':",{\\'}] * many,
}


@pytest.mark.parametrize("made", NAMES.values(), ids=NAMES)
def test_names_of_a_host_are_counted_before_they_are_read(made: Any) -> None:
    """One that is unlike others takes far longer to read than a number. Servers and our texts have no such bound."""
    data = json.dumps(made(NAMES_AT_MOST), separators=(",", ":")).encode()
    assert decode_from_host(data) == made(NAMES_AT_MOST)
    data = json.dumps(made(NAMES_AT_MOST + 1)).encode()
    for text in (data, data[:-1] + b"+"):
        with pytest.raises(TooManyValues, match="more than 50,000 names of fields"):
            decode_from_host(text)
    assert decode(data) == decode_received(data, "srv") == made(NAMES_AT_MOST + 1)


def test_colons_in_texts_are_no_names() -> None:
    value = {"text": ":" * 300_000, "log": '12:30:11 "a": 1 \\\n' * 60_000}
    assert decode_from_host(json.dumps(value).encode()) == value


@pytest.mark.parametrize("odd", ['"\\ud83d"', "1e999", "+"])
def test_what_the_slower_reader_alone_takes_is_small(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It calls Python for each value: a host's text of many is not read a second time to find what is wrong with it."""
    read: list[int] = []

    def counted(data: bytes, refused: Any) -> Any:
        read.append(len(data))
        return slowly(data, refused)

    slowly = codec._decode_slowly
    monkeypatch.setattr(codec, "_decode_slowly", counted)
    few, many = (f'[{"0," * count}{{"a": {odd}}}]'.encode() for count in (19_000, 21_000))
    with suppress(ValueError):
        decode_from_host(few)
    assert read == [len(few)]
    names = "{" + "".join(f'"{at}":0,' for at in range(21_000)) + f'"a": {odd}}}'
    for text in (many, names.encode()):
        with pytest.raises(ValueError, match=r"more than 20,000 .* is not plain JSON"):
            decode_from_host(text)
    assert read == [len(few)]


@pytest.mark.parametrize("item", [b"{}", b"[]", b"1", b'""', b'{"":0}', b" [ ] ", b"null", b"[[]]", b'"\\""'])
@pytest.mark.parametrize(
    "read",
    [decode, decode_from_host, partial(decode_received, server="srv")],
    ids=["decode", "decode_from_host", "decode_received"],
)
def test_a_flood_is_refused_before_it_is_read(item: bytes, read: Any) -> None:
    flood = b'{"content": [' + b",".join([item] * (VALUES_AT_MOST + 2)) + b"]}"
    with pytest.raises(TooManyValues, match=r"more than (250,000 values|50,000 names of fields)"):
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
    assert LimitsConfig.model_fields["max_message_values"].default == VALUES_AT_MOST
