"""Messages out of bytes cut anywhere, the ids of those that are too large to keep, and JSON cut to a depth."""

import json
from typing import Any

import pytest

from aggregator.config.server_config import ServerConfig
from aggregator.upstream.redaction import server_redaction
from aggregator.wire.codec import TooDeep, decode, decode_cut, decode_received
from aggregator.wire.lines import LineReader, answered_by, asked_by

LARGE = {"rows": [{"id": 4, "x": 'a "id":5} \\'}] * 30}


class Reader(LineReader):
    def __init__(self) -> None:
        super().__init__(200)
        self.heard: list[Any] = []

    def take_line(self, line: bytes) -> None:
        if b"poison" in line:
            raise MemoryError
        self.heard.append(line)

    def fail_line(self, head: bytes, tail: bytes, error: Exception) -> None:
        self.heard.append((answered_by(head, tail), asked_by(head, tail), type(error).__name__))

    def take_oversized(self, head: bytes, tail: bytes, *, ended: bool) -> None:
        self.heard.append((answered_by(head, tail), asked_by(head, tail), ended))


@pytest.mark.parametrize("size", [1, 30, 10_000])
def test_a_line_that_cannot_be_taken_costs_itself_alone(size: int) -> None:
    reader = Reader()
    lines = [
        b"before",
        b'{"jsonrpc":"2.0","id":7,"result":"poison"}',
        b'{"method":"poison","jsonrpc":"2.0","id":8}',
        b"poison",
        b"after",
    ]
    data = b"\n".join(lines) + b"\n"
    for start in range(0, len(data), size):
        reader.take(data[start : start + size])
    failed = [(7, None, "MemoryError"), (None, 8, "MemoryError"), (None, None, "MemoryError")]
    assert reader.heard == [b"before", *failed, b"after"]


@pytest.mark.parametrize(
    ("message", "answered", "asked"),
    [
        ({"jsonrpc": "2.0", "id": 7, "result": LARGE}, 7, None),
        ({"id": "7", "jsonrpc": "2.0", "error": LARGE}, "7", None),
        ({"result": LARGE, "jsonrpc": "2.0", "id": 7}, 7, None),
        ({"jsonrpc": "2.0", "result": LARGE, "id": 7}, 7, None),
        ({"jsonrpc": "2.0", "id": 7, "method": "x", "params": LARGE}, None, 7),
        ({"method": "x", "params": LARGE, "jsonrpc": "2.0", "id": 'a"b'}, None, 'a"b'),
        ({"method": "x", "id": 7, "params": LARGE}, None, 7),
        ({"jsonrpc": "2.0", "method": "x", "params": LARGE}, None, None),
        ({"jsonrpc": "2.0", "result": LARGE}, None, None),
        ({"level": 30, "id": 7, "result": LARGE}, None, None),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 150, 10_000])
@pytest.mark.parametrize("tight", [True, False])
def test_an_oversized_message_is_known_by_its_own_id(
    message: Any, answered: Any, asked: Any, size: int, tight: bool
) -> None:
    text = json.dumps(message, separators=(",", ":")).encode() if tight else b" \t" + json.dumps(message).encode()
    data = b"before\n" + text + b"\n\nafter\nrest"
    reader = Reader()
    for start in range(0, len(data), size):
        reader.take(data[start : start + size])
    first, grown, ended, last = reader.heard
    assert (first, last) == (b"before", b"after")
    assert grown in ((answered, asked, False), (None, None, False))
    assert ended == (answered, asked, True)


def test_depths_are_cut_and_the_rest_stays() -> None:
    deep = b"[" * 50_000 + b'"]"' + b"]" * 50_000
    text = b'{"a":[1,"}\\"{"],"b":%b,"c":{"d":[]}}' % deep
    with pytest.raises(TooDeep):
        decode(text)
    cut = decode_cut(text, 3, "srv")
    assert cut == {"a": [1, '}"{'], "b": [[None]], "c": {"d": []}}
    for broken in (b'"' + b'\\"' * 100_000, b"[" * 1_000_000, b"]" * 1_000):
        with pytest.raises(ValueError, match=r".*"):
            decode_cut(broken, 3, "srv")


def test_an_integer_beyond_all_readers_is_infinite() -> None:
    assert decode_received(b"[%b, -%b, 12]" % (b"1" * 5000, b"1" * 5000), "srv") == [float("inf"), float("-inf"), 12]
    with pytest.raises(ValueError, match="Expecting"):
        decode_received(b"{oops", "srv")


def test_what_the_config_holds_is_not_told() -> None:
    config = ServerConfig(
        id="s",
        key="s",
        prefix="s",
        type="http",
        url="https://u:pa55word@h/?api_key=abcd1234",
        headers={"authorization": "Bearer tok-1"},
        env={"API_KEY": "sk-77", "DEBUG": "verbose"},
    )
    told = server_redaction(config)("pa55word abcd1234 tok-1 sk-77 verbose")
    assert told == "[redacted] [redacted] [redacted] [redacted] verbose"
