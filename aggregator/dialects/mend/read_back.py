"""Arguments in the form of a mended schema, turned into those that the original schema means.

Law: only what the mended form alone can say is changed: a renamed member, null for a member that is left out, JSON in a
text that stands for an object. Every other value stays as it came.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from aggregator.wire.codec import decode_from_host

_TEXT_LIMIT: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Reader:
    """The way back of one value.

    members: of an object, the own name and the way back by the name that the mended schema has. dropped: those that
    are left out if they are null; kept: those whose null means null. items: of the items of an array. text: a text is
    JSON, of an object or of any value.
    """

    members: Mapping[str, tuple[str, "Reader | None"]] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    items: "Reader | None" = None
    text: Literal["object", "any"] | None = None

    @property
    def does_nothing(self) -> bool:
        """True if every value stays as it is."""
        return not self.dropped and self.items is None and self.text is None and not self.members

    def read(self, value: Any) -> Any:
        """Return the value that the original schema means."""
        if isinstance(value, dict):
            return self._object(value) if self.members or self.dropped else value
        if isinstance(value, list):
            return value if self.items is None else [self.items.read(one) for one in value]
        if isinstance(value, str) and self.text is not None and len(value) <= _TEXT_LIMIT:
            try:
                meant = decode_from_host(value.encode("utf-8", "surrogatepass"))
            except ValueError:
                return value
            return meant if self.text == "any" or isinstance(meant, dict) else value
        return value

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        meant: dict[str, Any] = {}
        for name, part in value.items():
            if part is None and name in self.dropped:
                continue
            own, reader = self.members.get(name, (name, None))
            if own != name and own in value:
                # The host knows the original name: what has it is meant by it.
                own = name
            meant[own] = part if reader is None else reader.read(part)
        return meant


def merged(readers: Iterable[Reader | None]) -> Reader | None:
    """Return the way back of a value that may fit any of several schemas."""
    found = [reader for reader in readers if reader is not None]
    if len(found) < 2:
        return found[0] if found else None
    members: dict[str, tuple[str, Reader | None]] = {}
    for reader in found:
        for name, (own, inside) in reader.members.items():
            before = members.get(name)
            members[name] = (own, inside if before is None else merged((before[1], inside)))
    kept = frozenset().union(*(reader.kept for reader in found))
    return Reader(
        members,
        frozenset().union(*(reader.dropped for reader in found)) - kept,
        kept,
        merged(reader.items for reader in found),
        next((reader.text for reader in found if reader.text is not None), None),
    )
