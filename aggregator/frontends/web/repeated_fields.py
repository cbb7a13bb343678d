"""The header fields of a connection, and what follows from them: most requests of a connection repeat them.

Rule 1: only what is a function of the fields, the protocol version and the addresses of the connection is remembered.
What depends on the path is kept with the path, what depends on the keys is checked again (`Access.repeated`).
Rule 2: a field more, a field less or another value, and nothing is remembered; `Content-Length` alone may differ.
"""

from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from aggregator.gateway.access import Authentication
from aggregator.identity.source import ClientSource

# The memory of the connection, in the scope of each of its requests.
MEMORY: Final = "aggregator.memory"

_LENGTH: Final = b"content-length"
_NOTHING: Final[list[tuple[bytes, bytes]]] = []
_NO_SOURCE: Final = ClientSource()


class FieldMemory:
    """The fields of the last request of one connection that named an accepted host, was of no page, and had no field
    twice.

    lines: the fields as they came; fields: the same by name; headers: the same as text, None until that is needed.
    source: the source of the request. endpoint: path and query of the last one that was authenticated.
    """

    __slots__ = (
        "_length_at", "_post", "_version", "authentication", "endpoint", "fields", "headers", "lines", "source"
    )  # fmt: skip

    def __init__(self) -> None:
        self.lines = _NOTHING
        self.fields: Mapping[bytes, bytes] = {}
        self.headers: dict[str, list[str]] | None = None
        self.source = _NO_SOURCE
        self.endpoint: tuple[str, bytes] | None = None
        self.authentication: Authentication | None = None
        self._post: tuple[object, object] | None = None
        self._length_at = -1
        self._version = ""

    def keep(self, scope: MutableMapping[str, Any], fields: Mapping[bytes, bytes], source: ClientSource) -> None:
        """Take the fields of a request in place of those before; `fields` are its lines by name, none of them twice."""
        self.lines, self.fields, self.source = scope["headers"], fields, source
        self.headers = self.endpoint = self.authentication = None
        self._version = scope["http_version"]
        self._length_at = next((at for at, line in enumerate(self.lines) if line[0] == _LENGTH), -1)

    def is_repeated(self, scope: MutableMapping[str, Any]) -> bool:
        """Return whether a request has the fields of the one before; its own length is taken over."""
        lines, before, at = scope["headers"], self.lines, self._length_at
        if len(lines) != len(before) or not lines or scope["http_version"] != self._version:
            return False
        # Not in constant time: but bytes are compared many at a time, so that no part of a key can be tried out alone.
        if lines != before:
            if at < 0 or lines[at][0] != _LENGTH or lines[:at] != before[:at] or lines[at + 1 :] != before[at + 1 :]:
                return False
            length = lines[at][1]
            self.fields = {**self.fields, _LENGTH: length}
            if self.headers is not None:
                self.headers = {**self.headers, "content-length": [length.decode("latin-1").strip(" \t")]}
        self.lines = lines
        return True

    def note_post(self, post: object) -> None:
        """Note the call that the last request is, since later ones may be like it."""
        self._post = self.lines, post

    def take_post(self, scope: MutableMapping[str, Any]) -> object:
        """Return the call that was noted for a request, once; None for a call of any other request."""
        noted, self._post = self._post, None
        return noted[1] if noted is not None and noted[0] is scope["headers"] else None


def memory_of(scope: MutableMapping[str, Any]) -> FieldMemory | None:
    """Return the memory of the connection, if it is about this request."""
    memory: FieldMemory | None = scope.get(MEMORY)
    return memory if memory is not None and memory.lines is scope["headers"] else None
