"""The values of a host file, of any format, within size limits.

Law: an error names the place of a fault, never the text there.
"""

import codecs
import json
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aggregator.config.errors import ConfigError
from aggregator.config.files.jsonfile import JsonObject, read_bytes, read_object
from aggregator.domain.text.error_text import error_text
from aggregator.editing.document import Format

# The YAML parser takes about ten seconds for this much; no user writes more.
_MOST_YAML: Final = 2**20


class UnreadableFile(Exception):
    """A host file that cannot be read; the message is one sentence that names the file, and the fix."""


def parse_file(path: Path, format: Format) -> Mapping[str, Any]:
    """Return the object in a file, an empty one if the file is empty. Raises UnreadableFile."""
    content = _content(path)
    if not content.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n\0") or content in (
        codecs.BOM_UTF16_LE,
        codecs.BOM_UTF16_BE,
    ):
        return {}
    try:
        if format == "json":
            return read_object(path, content)
        text = _decoded(content)
        root = _toml(path, text) if format == "toml" else _yaml(path, text)
    except ConfigError as error:
        raise UnreadableFile(str(error)) from None
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path} is not UTF-8 text. Save it as UTF-8.") from None
    except RecursionError:
        raise UnreadableFile(f"{path} is nested too deeply to be read.") from None
    if not isinstance(root, Mapping):
        raise UnreadableFile(f"{path}: expected an object at the root. Compare it with the documentation of its host.")
    return root


def _decoded(content: bytes) -> str:
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if is_utf16 else "utf-8-sig")


def plain_json_fault(content: bytes) -> str | None:
    """Return what plain JSON in UTF-8 does not have, with its place; None if a file is that, or is empty.

    A byte order mark is no fault: some programs take it away first.
    """
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "it is in UTF-16"
    try:
        text = content.decode("utf-8-sig")
        if text.strip(" \t\r\n"):
            json.loads(text, parse_constant=_no_constant)
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: this is not plain JSON"
    except (ValueError, RecursionError):
        return "it holds a number that is not JSON, or is nested too deeply"
    return None


def _no_constant(name: str) -> None:
    raise ValueError(name)


def is_there(path: Path) -> bool:
    """Return whether there is a file, or a link, at a path."""
    try:
        return os.path.lexists(path)
    except ValueError:  # a name with a null character
        return False


def repeated_names(root: Mapping[str, Any], servers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that are there twice in the object of servers, of which the last counts."""
    for key in servers:
        inner = root.get(key)
        if not isinstance(inner, Mapping):
            return ()
        root = inner
    return root.repeated if isinstance(root, JsonObject) else ()


def _content(path: Path) -> bytes:
    try:
        # A pipe or a device could block without end.
        if not stat.S_ISREG(os.stat(path).st_mode) and not path.is_dir():
            raise UnreadableFile(f"{path} is not an ordinary file.")
        return read_bytes(path)
    except (OSError, ValueError) as error:
        raise UnreadableFile(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'no such name'}.") from None
    except ConfigError as error:
        raise UnreadableFile(str(error)) from None


def _toml(path: Path, text: str) -> object:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError, ArithmeticError) as error:
        place = re.search(r"\(at (line \d+, column \d+)\)|\(at (end of document)\)", error_text(error))
        where = f", {place[1] or place[2]}" if place else ""
        raise UnreadableFile(f"{path}{where}: this is not TOML. Correct it there.") from None


def _yaml(path: Path, text: str) -> object:
    if len(text) > _MOST_YAML:
        raise UnreadableFile(f"{path} is larger than 1 MiB, which no file of servers in YAML is.")
    # It loads PyYAML, which the first answer of `stdio` would wait for.
    from aggregator.hosts.yaml_values import NotYaml, load_yaml

    try:
        return load_yaml(text)
    except NotYaml as error:
        where = f", line {error.line}, column {error.column}" if error.line else ""
        raise UnreadableFile(f"{path}{where}{error}") from None
