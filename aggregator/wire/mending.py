"""Messages of an upstream that break the rules of JSON or JSON-RPC with an unambiguous meaning.

Law: nothing between the braces is guessed. An unreadable text is no message.
"""

import re
from typing import Any, Final, NamedTuple

from aggregator.wire.codec import TooDeep, decode_received, lenient_decoder
from aggregator.wire.values import TooManyValues

MARK: Final = b"\xef\xbb\xbf"
# The beginning of a message behind other text on its line.
_BEGINS: Final = re.compile(rb'\{\s*"(?:jsonrpc|id|result|error)"\s*:')
# White space in JSON (RFC 8259, section 2).
_SPACE: Final = re.compile(r"[ \t\r\n]*")
# Values that are read of one line.
_MOST: Final = 1_000
# The ids of answers that name no request.
NO_ID: Final = (None, "")
_ANSWER_MEMBERS: Final = frozenset({"jsonrpc", "id", "result", "error"})


class ReadMessages(NamedTuple):
    """The messages of one line, event or body.

    messages: the JSON values in order; a batch is one for each of its parts. fault: the fault of the text, in words of
    ours that follow "sends", or None.
    """

    messages: list[Any]
    fault: str | None


def read_messages(data: bytes, server: str, most: float) -> ReadMessages:
    """Return the messages that a text holds.

    Raises:
        ValueError: the text cannot be read; its words, which quote none of it, say why.
        TooDeep, TooManyValues: see `decode_received`.
    """
    try:
        return ReadMessages(parts_of(decode_received(data, server, most)), None)
    except (TooDeep, TooManyValues):
        raise
    except ValueError:
        return mended(data, server)


def parts_of(value: Any) -> list[Any]:
    """Return the parts of a batch; anything else is its own only part."""
    return value if isinstance(value, list) else [value]


def mended(data: bytes, server: str) -> ReadMessages:
    """Return the messages of a text that is not one JSON value as it stands.

    Raises:
        ValueError: it cannot be read.
        TooDeep: it nests too deeply.
    """
    faults: list[str] = []
    if data.startswith(MARK):
        data = data.removeprefix(MARK)
        faults.append("a byte order mark")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
        faults.append("bytes that are not UTF-8, which become U+FFFD")
    start, around = 0, False
    if data.lstrip()[:1] not in (b"{", b"["):
        begins = _BEGINS.search(data)
        if begins is None:
            raise ValueError("it is not JSON")
        start, around = len(data[: begins.start()].decode(errors="replace")), True
    try:
        values, rest = _values(text, start, server)
    except RecursionError:
        raise TooDeep("nested too deeply") from None
    if around or rest:
        faults.append("other text on the lines of messages")
    elif len(values) > 1:
        faults.append("several messages on one line")
    if not faults:
        faults.append("control characters in strings, which JSON does not allow")
    return ReadMessages([part for value in values for part in parts_of(value)], " and ".join(faults))


def _values(text: str, start: int, server: str) -> tuple[list[Any], bool]:
    """Return the JSON values that follow one another from `start`, and whether other text comes after them."""
    decoder, values = lenient_decoder(server), list[Any]()
    position = _after_space(text, start)
    while position < len(text):
        try:
            value, position = decoder.raw_decode(text, position)
        except ValueError as problem:
            if not values:
                said = getattr(problem, "msg", "a value cannot be read")
                raise ValueError(f"it is not JSON ({said}, character {getattr(problem, 'pos', 0)})") from None
            return values, True
        values.append(value)
        position = _after_space(text, position)
        if position < len(text) and (text[position] not in "{[" or len(values) >= _MOST):
            return values, True
    return values, False


def _after_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space is not None else position


def is_bare_answer(message: Any) -> bool:
    """Return True if a message has the members of a response and no others, be it without its version."""
    if not isinstance(message, dict):
        return False
    said = {name for name, value in message.items() if value is not None or name in _ANSWER_MEMBERS}
    return ("result" in said or "error" in said) and said <= _ANSWER_MEMBERS


def is_unnamed_answer(message: Any) -> bool:
    """Return True for an answer in JSON-RPC 2.0 whose `id` is missing, null or empty, as some servers write null."""
    return (
        isinstance(message, dict)
        and message.get("jsonrpc") == "2.0"
        and message.get("id") in NO_ID
        and "method" not in message
        and ("result" in message or "error" in message)
    )
