"""JSON with comments, trailing commas and repeated keys, as people write it and VS Code keeps it."""

import codecs
import json
import re
from collections import Counter
from pathlib import Path

from aggregator.config.errors import ConfigError
from aggregator.domain.ordinary_files import NotOrdinary, read_ordinary
from aggregator.domain.text.error_text import error_text

_LARGEST = 16 * 2**20
# The first line with content, after remarks and `---`, is a key with a colon.
_YAML = re.compile(
    r"""(?:\s*(?:#|---|%YAML)[^\n]*\n)*\s*(?:[\w.$-]{1,100}|"[^"\n]{1,100}"|'[^'\n]{1,100}')[ ]*:(?:\s|$)"""
)


class JsonObject(dict[str, object]):
    """A JSON object; `repeated` are the keys that were written more than once, of which the last counts."""

    repeated: tuple[str, ...] = ()


def read_object(path: Path, content: bytes | None = None) -> JsonObject:
    """Return the object in a file, whose content may be given. Raises ConfigError with line and column of a fault."""
    root = _parse(path, _text(path, read_bytes(path) if content is None else content))
    if not isinstance(root, JsonObject):
        raise ConfigError(f'{path}: expected an object at the root, such as {{"mcpServers": {{}}}}, got {kind(root)}.')
    return root


def kind(value: object) -> str:
    """Return the type of a JSON value in words, without its content."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    names: dict[type, str] = {dict: "an object", list: "a list", str: "a text"}
    return next((name for known, name in names.items() if isinstance(value, known)), "a number")


def read_bytes(path: Path) -> bytes:
    """Return the content of a file. Raises ConfigError when it cannot be read, or is larger than 16 MiB."""
    try:
        content = read_ordinary(path, _LARGEST + 1)
    except NotOrdinary as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}. Name the file itself.") from None
    except FileNotFoundError:
        raise ConfigError(f"There is no file {path}. Create it, or name another with --config.") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if len(content) > _LARGEST:
        raise ConfigError(f"{path} is larger than 16 MiB, which no configuration is.")
    return content


def _text(path: Path, content: bytes) -> str:
    try:
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return content.decode("utf-16")
        return content.decode("utf-8-sig")
    except ValueError:
        raise ConfigError(f"{path} is not UTF-8 text. Save it as UTF-8.") from None


def _parse(path: Path, text: str) -> object:
    try:
        try:
            return _loads(text)
        except json.JSONDecodeError:
            from aggregator.editing.json_scan import without_comments

            return _loads(without_comments(text))
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}, line {error.lineno}, column {error.colno}: {_sentence(error)}") from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply to be read.") from None
    except ValueError as error:
        raise ConfigError(f"{path} holds a number that cannot be used: {error_text(error)}.") from None


def _loads(text: str) -> object:
    return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)


def _object(pairs: list[tuple[str, object]]) -> JsonObject:
    made = JsonObject(pairs)
    if len(made) < len(pairs):
        made.repeated = tuple(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
    return made


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _sentence(error: json.JSONDecodeError) -> str:
    """Return the message of a parse error, with the fix."""
    if not error.doc.strip():
        return 'the file is empty. Write at least {"mcpServers": {}}.'
    if not error.doc[: error.pos].strip() and _YAML.match(error.doc):
        return 'this is YAML, and a configuration is JSON. Write it as JSON: {"mcpServers": {"NAME": {...}}}.'
    for start, fix in _FIXES.items():
        if error.msg.startswith(start):
            return fix
    return f"{error.msg[:1].lower()}{error.msg[1:]}. Correct the JSON there."


_FIXES = {
    "Expecting ',' delimiter": "this is not JSON. Put a comma before this place, or close the bracket that is open.",
    "Expecting ':' delimiter": "this is not JSON. Put a colon between the key and its value.",
    "Expecting property name": "this is not JSON. Write a key in double quotes here, or close the object with }.",
    "Expecting value": "this is not JSON. Write a value here: a text in double quotes, a number, true, false, [ or {.",
    "Unterminated string": "this is not JSON. The text that begins here has no closing double quote.",
    "Invalid \\escape": "this is not JSON. Write each backslash twice (C:\\\\Users), or use forward slashes.",
    "Invalid control character": "this is not JSON. A text must end on the line where it begins (\\n breaks it).",
    "Extra data": "this is not JSON. The file goes on after its last closing bracket; remove what follows.",
}
