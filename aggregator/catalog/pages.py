"""Records in the order they are shown, as pages of JSON. Frozen: another list is another object."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, Generic, Protocol, TypeVar

from aggregator.domain.errors import INVALID_PARAMS, HostError
from aggregator.domain.links import in_meta
from aggregator.domain.names import Style, spellings
from aggregator.wire.codec import Raw, encode

# One page fits clients that take no server-sent event above 1 MiB, with room for the envelope.
PAGE_BYTES: Final = 700_000
# Comparing names takes some 20 microseconds each: a miss must not hold up everybody else.
_COMPARED: Final = 2_000
_COMPARED_LENGTH: Final = 200


class Shown(Protocol):
    """A record of something that is listed; `rendered` keeps its JSON by spelling."""

    @property
    def prefix(self) -> str: ...
    @property
    def own_name(self) -> str: ...
    @property
    def definition(self) -> Mapping[str, Any]: ...
    @property
    def listed(self) -> Mapping[Style, str]: ...
    @property
    def rendered(self) -> dict[Style, bytes]: ...


R = TypeVar("R", bound=Shown)


class Pages(Generic[R]):
    """In config order of servers, then in each server's own order. `field` is what holds a record's name."""

    def __init__(self, records: Iterable[R] = (), field: str = "name") -> None:
        self.records = tuple(records)
        self._field = field
        self._pages: dict[Style, list[tuple[bytes, str | None]]] = {}

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.records)}>"

    def nearest(self, name: str, style: Style = "canonical") -> list[str]:
        """Up to three listed names that look like `name`, or whose own half equals it."""
        same = [record.listed[style] for record in self.records if record.own_name == name]
        if same:
            return same[:3]
        meant = {prefix for prefix, _ in spellings(name)}
        named = [record.listed[style] for record in self.records if record.prefix in meant]
        candidates = named or [record.listed[style] for record in self.records]
        return get_close_matches(name[:_COMPARED_LENGTH], candidates[:_COMPARED], n=3, cutoff=0.6)

    def page(self, style: Style, cursor: str | None) -> tuple[Raw, str | None]:
        """One page, as JSON bytes of an array, and the cursor of the next one.

        A cursor is the name of the last record shown, so it outlives changes of the list.

        Raises:
            HostError: the cursor is not one of ours, or its record is gone.
        """
        pages = self._pages.get(style)
        if pages is None:
            pages = self._pages[style] = self._render(style)
        if cursor is None:
            body, following = pages[0]
            return Raw(body), following
        start = next((at for at, record in enumerate(self.records) if record.listed[style] == cursor), None)
        if start is None:
            raise HostError(INVALID_PARAMS, "That cursor is not valid (any more); list again from the start.")
        for (body, following), (_, before) in zip(pages[1:], pages, strict=False):
            if before == cursor:
                return Raw(body), following
        # The list changed between two pages: go on behind the record that was last.
        return self._join(self.records[start + 1 :], style)

    def _render(self, style: Style) -> list[tuple[bytes, str | None]]:
        pages: list[tuple[bytes, str | None]] = []
        rest = self.records
        while rest or not pages:
            body, cursor = self._join(rest, style)
            pages.append((bytes(body), cursor))
            rest = () if cursor is None else rest[_index(rest, style, cursor) + 1 :]
        return pages

    def _join(self, records: tuple[R, ...], style: Style) -> tuple[Raw, str | None]:
        """As many of `records` as fit one page, at least one, and the cursor if some are left."""
        parts: list[bytes] = []
        size = 0
        for record in records:
            part = rendered(record, style, self._field)
            size += len(part)
            if parts and size > PAGE_BYTES:
                return Raw(b"[" + b",".join(parts) + b"]"), records[len(parts) - 1].listed[style]
            parts.append(part)
        return Raw(b"[" + b",".join(parts) + b"]"), None


def _index(records: tuple[R, ...], style: Style, listed: str) -> int:
    return next(at for at, record in enumerate(records) if record.listed[style] == listed)


def rendered(record: Shown, style: Style, field: str = "name") -> bytes:
    """The definition as hosts get it, made once."""
    known = record.rendered.get(style)
    if known is None:
        definition = in_meta(record.prefix, {**record.definition, field: record.listed[style]})
        known = record.rendered[style] = encode(definition)
    return known
