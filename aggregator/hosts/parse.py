"""The values of a host file, of any format, within size limits.

Law: an error names the place of a fault, never the text there.
"""

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
    if not content.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n\0"):
        return {}
    try:
        if format == "json":
            return read_object(path, content)
        text = content.decode("utf-8-sig")
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
