"""Tools in the order they are shown, as pages of JSON. A listing is frozen: another list is another listing."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from aggregator.domain.errors import INVALID_PARAMS, HostError
from aggregator.domain.names import Style, spellings
from aggregator.domain.records import ToolRecord
from aggregator.wire.codec import Raw, encode

# One page fits clients that take no server-sent event above 1 MiB, with room for the envelope.
PAGE_BYTES: Final = 700_000
# Comparing names takes some 20 microseconds each: a miss must not hold up everybody else.
_COMPARED: Final = 2_000
_COMPARED_LENGTH: Final = 200


class Listing:
    """In config order of servers, then in each server's own order."""

    def __init__(self, tools: Iterable[ToolRecord] = ()) -> None:
        self.tools = tuple(tools)
        self._pages: dict[Style, list[tuple[bytes, str | None]]] = {}

    def __len__(self) -> int:
        return len(self.tools)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self.tools)} tools>"

    def nearest(self, name: str, style: Style = "canonical") -> list[str]:
        """Up to three listed names that look like `name`, or whose own half equals it."""
        same = [tool.listed[style] for tool in self.tools if tool.own_name == name]
        if same:
            return same[:3]
        meant = {prefix for prefix, _ in spellings(name)}
        named = [tool.listed[style] for tool in self.tools if tool.prefix in meant]
        candidates = named or [tool.listed[style] for tool in self.tools]
        return get_close_matches(name[:_COMPARED_LENGTH], candidates[:_COMPARED], n=3, cutoff=0.6)

    def page(self, style: Style, cursor: str | None) -> tuple[Raw, str | None]:
        """One page, as JSON bytes of an array, and the cursor of the next one.

        A cursor is the name of the last tool shown, so it outlives changes of the list.

        Raises:
            HostError: the cursor is not one of ours, or its tool is gone.
        """
        pages = self._pages.get(style)
        if pages is None:
            pages = self._pages[style] = self._render(style)
        if cursor is None:
            body, following = pages[0]
            return Raw(body), following
        start = next((at for at, tool in enumerate(self.tools) if tool.listed[style] == cursor), None)
        if start is None:
            raise HostError(INVALID_PARAMS, "That cursor is not valid (any more); list again from the start.")
        for (body, following), (_, before) in zip(pages[1:], pages, strict=False):
            if before == cursor:
                return Raw(body), following
        # The list changed between two pages: go on behind the tool that was last.
        return _join(self.tools[start + 1 :], style)

    def _render(self, style: Style) -> list[tuple[bytes, str | None]]:
        pages: list[tuple[bytes, str | None]] = []
        rest = self.tools
        while rest or not pages:
            body, cursor = _join(rest, style)
            pages.append((bytes(body), cursor))
            rest = () if cursor is None else rest[_index(rest, style, cursor) + 1 :]
        return pages


def _join(tools: tuple[ToolRecord, ...], style: Style) -> tuple[Raw, str | None]:
    """As many of `tools` as fit one page, at least one, and the cursor if some are left."""
    parts: list[bytes] = []
    size = 0
    for tool in tools:
        part = rendered(tool, style)
        size += len(part)
        if parts and size > PAGE_BYTES:
            return Raw(b"[" + b",".join(parts) + b"]"), tools[len(parts) - 1].listed[style]
        parts.append(part)
    return Raw(b"[" + b",".join(parts) + b"]"), None


def _index(tools: tuple[ToolRecord, ...], style: Style, listed: str) -> int:
    return next(at for at, tool in enumerate(tools) if tool.listed[style] == listed)


def rendered(tool: ToolRecord, style: Style) -> bytes:
    """The definition as hosts get it, made once."""
    known = tool.rendered.get(style)
    if known is None:
        definition: Mapping[str, object] = {**tool.definition, "name": tool.listed[style]}
        known = tool.rendered[style] = encode(definition)
    return known
