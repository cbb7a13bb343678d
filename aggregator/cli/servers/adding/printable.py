"""An entry in the form for display: the program or address, without plain-text secrets."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from aggregator.config.servers.secret_places import secret_places
from aggregator.config.servers.secrets import secrets_in
from aggregator.packages.plan import AskedValue
from aggregator.redaction.field_names import is_opaque
from aggregator.redaction.redactor import Redactor

_REFERENCE: Final = re.compile(r"\$\{[^{}]*(\{[^{}]*\}[^{}]*)*\}")
# What may stand before a reference without being a secret: `Bearer`, `token=`.
_SCHEME: Final = re.compile(r"[A-Za-z_-]*[\s:=]*")
_SHORTEST: Final = 3
# A variable of so many random-looking characters counts as a secret under any name. Arguments do not: users have to see
# the command.
_LONG: Final = 16


class ClearSecret(NamedTuple):
    """A plain-text secret: its place, and a name to store it by."""

    label: str
    name: str


class PrintableEntry:
    """An entry without its secrets. `clear` are those that stand in it in the clear.

    `declared` are values that its source calls secret, by the names it gives them.
    """

    def __init__(self, entry: Mapping[str, Any], declared: Mapping[str, str]) -> None:
        self._entry = entry
        self.secrets = frozenset(_secrets(entry)) | frozenset(declared.values())
        self._redact = Redactor(self.secrets, _SHORTEST)
        self.clear = tuple(_clear(entry, declared))

    def __repr__(self) -> str:
        return f"<PrintableEntry {sorted(self._entry)}>"

    def data(self) -> Any:
        """Return the entry as plain JSON values, without secrets."""
        return self._without(self._entry)

    def text(self) -> str:
        """Return the entry as JSON for display, one field a line."""
        fields = ((json.dumps(key), json.dumps(value, ensure_ascii=False)) for key, value in self.data().items())
        lines = [f"  {key}: {_plain(value)}" for key, value in fields]
        return "{\n" + ",\n".join(lines) + "\n}"

    def action(self) -> str:
        """Return in a line the program that the entry starts, in shell syntax, or the address it reaches."""
        entry = _unescaped(self.data())
        program = entry if "command" in entry else entry.get("launch")
        started = ""
        if isinstance(program, dict):
            started = f"starts: {_plain(shlex.join([str(program['command']), *map(str, program.get('args', []))]))}"
        reached = f"connects to: {_plain(str(entry['url']))}" if "url" in entry else ""
        return ", then ".join(part for part in (started, reached) if part)

    def _without(self, value: Any) -> Any:
        if isinstance(value, str):
            return "[redacted]" if value in self.secrets else self._redact(value)
        if isinstance(value, Mapping):
            return {key: self._without(item) for key, item in value.items()}
        return [self._without(item) for item in value] if isinstance(value, list | tuple) else value


def _clear(entry: Mapping[str, Any], declared: Mapping[str, str]) -> Iterator[ClearSecret]:
    told = set()
    for place in (*secret_places(entry), *secret_places(entry.get("launch") or {})):
        told.add(place.secret)
        yield ClearSecret(place.label, place.name)
    yield from (ClearSecret(key, AskedValue(key, key).variable) for key, value in declared.items() if value not in told)


def _secrets(entry: Mapping[str, Any]) -> Iterator[str]:
    for found in secrets_in(entry):
        if not _SCHEME.fullmatch(_REFERENCE.sub("", found)) or ("${" not in found and found):
            yield found
    for part in (entry, entry.get("launch") or {}):
        values = (part.get("env") or {}).values()
        yield from (value for value in values if isinstance(value, str) and len(value) >= _LONG and is_opaque(value))


def _unescaped(value: Any) -> Any:
    """Return a value with its texts as a program gets them, but for references."""
    if isinstance(value, str):
        return value.replace("${$}", "$")
    if isinstance(value, Mapping):
        return {key: _unescaped(item) for key, item in value.items()}
    return [_unescaped(item) for item in value] if isinstance(value, list) else value


def _plain(text: str) -> str:
    """Return a text without characters that a terminal would act on."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
