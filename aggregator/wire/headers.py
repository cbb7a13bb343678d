"""The HTTP headers of revision 2026-07-28 (SEP-2243): safe values, and arguments mirrored in `Mcp-Param-*`."""

import base64
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from aggregator.domain.schema_walk import Path, positions

VERSION: Final = "mcp-protocol-version"
METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
SESSION: Final = "mcp-session-id"
LAST_EVENT: Final = "last-event-id"
PARAM_PREFIX: Final = "mcp-param-"

# The params key that `Mcp-Name` repeats, by method.
NAMED_BY: Final[Mapping[str, str]] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

_ANNOTATION: Final = "x-mcp-header"
_WRAPPED: Final = re.compile(r"=\?base64\?(.*)\?=")
_PLAIN: Final = re.compile(r"[\x20-\x7e]*")
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,400}(\.0+)?")
_MIRRORED_TYPES: Final = ("string", "integer", "boolean")


class ParamHeader(NamedTuple):
    """The header that mirrors one argument.

    name: in lower case.
    whole: the argument is an integer, and compared as a number; others are compared as text.
    """

    name: str
    whole: bool


def encode_value(value: str) -> str:
    """Return a header value: the text itself, or `=?base64?...?=` where HTTP would not carry it whole."""
    if _PLAIN.fullmatch(value) and value == value.strip() and not _WRAPPED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="


def decode_value(value: str) -> str | None:
    """Return the text passed to `encode_value`; None for a wrapper without canonical base64 of UTF-8."""
    wrapped = _WRAPPED.fullmatch(value)
    if wrapped is None:
        return value
    try:
        raw = base64.b64decode(wrapped[1], validate=True)
        return raw.decode() if base64.b64encode(raw).decode() == wrapped[1] else None
    except ValueError:
        return None


def param_headers(schema: object) -> dict[Path, ParamHeader]:
    """Return the headers of the annotated properties of an input schema, by their path of `properties` keys.

    Raises:
        ValueError: an annotation that the spec does not allow (SH, Custom Headers); clients must leave the tool out.
    """
    found: dict[Path, ParamHeader] = {}
    for path, position in positions(schema):
        if _ANNOTATION not in position:
            continue
        token = position[_ANNOTATION]
        where = ".".join(path or ())
        if not path:
            raise ValueError(f"{_ANNOTATION} stands where no plain chain of properties leads")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise ValueError(f"{_ANNOTATION} of {where!r:.80} is not an HTTP token")
        if position.get("type") not in _MIRRORED_TYPES:
            raise ValueError(f"{_ANNOTATION} of {where!r:.80} is not on a string, integer or boolean")
        name = PARAM_PREFIX + token.lower()
        if any(header.name == name for header in found.values()):
            raise ValueError(f"{_ANNOTATION} {token!r:.80} stands twice")
        found[path] = ParamHeader(name, position["type"] == "integer")
    return found


def mirror(headers: Mapping[Path, ParamHeader], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the `Mcp-Param-*` headers of one call; absent and null arguments have none."""
    mirrored = {}
    for path, header in headers.items():
        text = _rendered(_value_at(arguments, path))
        if text is not None:
            mirrored[header.name] = encode_value(text)
    return mirrored


def mismatch(
    headers: Mapping[Path, ParamHeader], arguments: Mapping[str, Any], sent: Mapping[str, list[str]]
) -> str | None:
    """Return the first fault of the `Mcp-Param-*` headers `sent` (lower-case name to all values), or None."""
    for path, header in headers.items():
        values = sent.get(header.name, [])
        argument = _value_at(arguments, path)
        expected = _rendered(argument)
        if len(values) > 1:
            return f"header {header.name} stands more than once"
        if expected is None:
            if values:
                return f"header {header.name} is present but the argument {'.'.join(path)!r} is not"
        elif not values:
            return f"header {header.name} is missing but the argument {'.'.join(path)!r} is present"
        elif not _agrees(decode_value(values[0]), expected, argument, header.whole):
            return f"header {header.name} does not match the argument {'.'.join(path)!r}"
    return None


def _agrees(decoded: str | None, expected: str, argument: Any, whole: bool) -> bool:
    if decoded == expected:
        return True
    # 42 and 42.0 are one integer (SH, Server Validation).
    if not whole or decoded is None or isinstance(argument, bool) or not isinstance(argument, int | float):
        return False
    integral = isinstance(argument, int) or argument.is_integer()
    return integral and bool(_DECIMAL.fullmatch(decoded)) and int(decoded.partition(".")[0]) == int(argument)


def _rendered(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def _value_at(arguments: Mapping[str, Any], path: Path) -> Any:
    node: Any = arguments
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node
