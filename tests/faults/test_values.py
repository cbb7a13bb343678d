"""Values that JSON hardly has, or has too much of, on their way through (C8, C10, C12)."""

import json
import math
from typing import Any

import pytest

from aggregator.wire.codec import encode

from .app_harness import Json, raw_stdio, running_app, text_of


async def through(value: str, **server: Any) -> Json:
    """The result that a host reads from the wire when the upstream's `structuredContent` is this JSON text."""
    line = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":{"value":$V}}}'.replace("$V", value)
    async with running_app(raw_stdio("s", timeout=2, **server)) as harness:
        result = await harness.call("s.raw", lines=[line])
        await harness.check_echo("s.echo")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    read: Json = json.loads(encode({"result": result}), parse_constant=refuse)["result"]
    assert not read.get("isError"), read
    return read


@pytest.mark.parametrize(
    "value",
    [
        "123456789012345678901234567890",
        "-123456789012345678901234567890",
        "18446744073709551616",
        "9007199254740993",
        '"\\ud800"',
        '{"\\udfff":["\\ud800x"]}',
        '"\\ud83d\\ude00 😀 \\u0000 \\u2028"',
        "[1.0,-0.0,1e300,0.1]",
        '{"a":{"":[null,true,false,{}]}}',
        '["a\\u0085b\\rc"]',
    ],
)
async def test_values_pass_as_they_are(value: str) -> None:
    """C8, C10: integers of any size, lone surrogates, every character."""
    read = await through(value)
    expected = json.loads(value)
    assert read["structuredContent"]["value"] == expected
    assert type(read["structuredContent"]["value"]) is type(expected)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_what_json_does_not_have_becomes_null(value: str) -> None:
    """C8: servers in Python send NaN; hosts could not read it."""
    assert (await through(value))["structuredContent"]["value"] is None


async def test_both_at_once() -> None:
    """C8: NaN beside a lone surrogate is still JSON."""
    read = await through('[NaN,"\\ud800"]')
    assert read["structuredContent"]["value"] == [None, "\ud800"]


async def test_an_integer_of_5000_digits() -> None:
    """C8: Python refuses to read it by default; the call must still end well before its time-out."""
    read = await through("1" * 5000)
    value = read["structuredContent"]["value"]
    assert value is None or math.log10(value) > 4998


@pytest.mark.parametrize("depth", [100, 500, 800])
async def test_deep_results_pass(depth: int) -> None:
    """C8: as deep as they can be read."""
    text = "[" * depth + "]" * depth
    assert json.dumps((await through(text))["structuredContent"]["value"], separators=(",", ":")) == text


async def test_bytes_that_are_not_utf_8() -> None:
    """C8: the answer that they stand in is used, with a sign in their place."""
    async with running_app(raw_stdio("s", timeout=2)) as harness:
        broken = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"a\udc80b"}]}}'
        assert text_of(await harness.call("s.raw", lines=[broken])).strip("\ufffd") == "a\ufffd\ufffd\ufffdb"
        await harness.check_echo("s.echo")
