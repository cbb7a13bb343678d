"""Records in the order they are shown, as pages of JSON. Frozen: another list is another object."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher
from functools import cached_property
from heapq import nlargest
from itertools import chain, islice
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from aggregator.domain.bounds.slices import Steps, at_once
from aggregator.domain.errors import INVALID_PARAMS, HostError
from aggregator.domain.names import Style, spellings
from aggregator.domain.records import Rendering
from aggregator.domain.uris.links import in_meta
from aggregator.wire.codec import Raw, encode

# One page fits clients that take no server-sent event above 1 MiB, with space for the envelope.
PAGE_BYTES: Final = 700_000
# Comparing names takes some 20 microseconds each: a miss must not delay other requests.
_COMPARED: Final = 2_000
_COMPARED_LENGTH: Final = 200
_NEAREST: Final = 3
_ALIKE: Final = 0.6


class PageItem(Protocol):
    """A record that can be listed; `rendered` keeps its JSON by style of names, among others."""

    @property
    def server(self) -> str: ...
    @property
    def prefix(self) -> str: ...
    @property
    def own_name(self) -> str: ...
    @property
    def definition(self) -> Mapping[str, Any]: ...
    @property
    def listed(self) -> Mapping[Style, str]: ...
    @property
    def rendered(self) -> dict[Rendering, bytes]: ...


# Returns a definition of the server of this prefix with the URIs in it as hosts see them.
ExposeWithin = Callable[[str, dict[str, Any]], dict[str, Any]]


R = TypeVar("R", bound=PageItem)


class _NameIndex(NamedTuple, Generic[R]):
    """Records by own name, and by the prefix of their server."""

    own_names: dict[str, list[R]]
    prefixes: dict[str, list[R]]


class Pages(Generic[R]):
    """Records in config order of servers, then in each server's own order. `field` is the field of a record's name,
    `within` puts the other URIs of a definition as hosts see them.
    """

    def __init__(self, records: Iterable[R] = (), field: str = "name", within: ExposeWithin = in_meta) -> None:
        self.records = tuple(records)
        self._field = field
        self._within = within
        self._pages: dict[Style, list[tuple[bytes, str | None]]] = {}
        self._name_index: _NameIndex[R] | None = None

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.records)}>"

    @cached_property
    def by_server(self) -> Mapping[str, int]:
        """The number of records of each server."""
        return Counter(record.server for record in self.records)

    def nearest(self, name: str, style: Style = "canonical") -> list[str]:
        """Return up to three listed names that look like `name`, or whose own name equals it."""
        return at_once(self.nearest_steps(name, style))

    def nearest_steps(self, name: str, style: Style = "canonical") -> Steps[list[str]]:
        """Return the result of `nearest`, looking at one name in a step."""
        index = yield from self._name_index_steps()
        same = [record.listed[style] for record in index.own_names.get(name, ())[:_NEAREST]]
        if same:
            return same
        prefixes = dict.fromkeys(prefix for prefix, _ in spellings(name))
        of_server = chain.from_iterable(index.prefixes.get(prefix, ()) for prefix in prefixes)
        named = [(record.listed[style], record.listed[style]) for record in islice(of_server, _COMPARED)]
        candidates = named
        if not named:
            first = self.records[: _COMPARED // 2]
            # A name without a server is compared with own names too.
            own = [(record.own_name, record.listed[style]) for record in first] if not prefixes else []
            candidates = [(record.listed[style], record.listed[style]) for record in first] + own
        # Like `difflib.get_close_matches`, one name in a step.
        matcher = SequenceMatcher[str]()
        matcher.set_seq2(name[:_COMPARED_LENGTH])
        similar: dict[str, float] = {}
        for compared, candidate in candidates:
            yield
            matcher.set_seq1(compared)
            if matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE:
                ratio = matcher.ratio()
                if ratio >= _ALIKE:
                    similar[candidate] = max(ratio, similar.get(candidate, 0.0))
        return [candidate for _, candidate in nlargest(_NEAREST, ((ratio, one) for one, ratio in similar.items()))]

    def _name_index_steps(self) -> "Steps[_NameIndex[R]]":
        """Return the records by their names, one in a step; built at the first use and kept."""
        if self._name_index is None:
            index = _NameIndex[R]({}, {})
            for record in self.records:
                yield
                index.own_names.setdefault(record.own_name, []).append(record)
                index.prefixes.setdefault(record.prefix, []).append(record)
            self._name_index = index
        return self._name_index

    def page(self, style: Style, cursor: str | None) -> tuple[Raw, str | None]:
        """Return one page, as JSON bytes of an array, and the cursor of the next one.

        A cursor is the name of the last record shown, so it outlives changes of the list.

        Raises:
            HostError: the cursor is not one of ours, or its record is gone.
        """
        pages = self._pages.get(style)
        if pages is None:
            pages = at_once(self.page_steps(style))
        if cursor is None:
            body, following = pages[0]
            return Raw(body), following
        for (body, following), (_, before) in zip(pages[1:], pages, strict=False):
            if before == cursor:
                return Raw(body), following
        # The list changed between two pages: continue after the record that was last.
        start = next((at for at, record in enumerate(self.records) if record.listed[style] == cursor), None)
        if start is None:
            raise HostError(INVALID_PARAMS, "That cursor is not valid (any more); list again from the start.")
        return self._join(self.records[start + 1 :], style)

    def page_steps(self, style: Style) -> Steps[list[tuple[bytes, str | None]]]:
        """Build all pages with names in this style, one record in a step. Pages are kept."""
        if style in self._pages:
            return self._pages[style]
        pages: list[tuple[bytes, str | None]] = []
        parts: list[bytes] = []
        size = 0
        before: str | None = None
        for record in self.records:
            yield
            part = render(record, style, self._field, self._within)
            size += len(part)
            if parts and size > PAGE_BYTES:
                pages.append((_array(parts), before))
                parts, size = [], len(part)
            parts.append(part)
            before = record.listed[style]
        pages.append((_array(parts), None))
        self._pages[style] = pages
        return pages

    def _join(self, records: tuple[R, ...], style: Style) -> tuple[Raw, str | None]:
        """Join as many of `records` as fit one page, at least one, and return the cursor if some are left."""
        parts: list[bytes] = []
        size = 0
        for record in records:
            part = render(record, style, self._field, self._within)
            size += len(part)
            if parts and size > PAGE_BYTES:
                return Raw(_array(parts)), records[len(parts) - 1].listed[style]
            parts.append(part)
        return Raw(_array(parts)), None


def _array(parts: list[bytes]) -> bytes:
    return b"[" + b",".join(parts) + b"]"


def render(record: PageItem, style: Style, field: str = "name", within: ExposeWithin = in_meta) -> bytes:
    """Return the definition as hosts get it, encoded once."""
    known = record.rendered.get(style)
    if known is None:
        definition = within(record.prefix, {**record.definition, field: record.listed[style]})
        known = record.rendered[style] = encode(definition)
    return known
