"""Tools as text for a model: lines at level 1, compact JSON at levels 2 and 3, with a cursor for the rest.

Law: the same tools and arguments give the same bytes.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from aggregator.catalog.describe.levels import level1, level2, level3, shown_name
from aggregator.domain.records import Rendering, ToolRecord
from aggregator.domain.text.tokens import estimate, fit
from aggregator.gateway.views.finder import Finder
from aggregator.gateway.views.views import View
from aggregator.wire.codec import Raw, encode

# Tokens of the frame of an answer: the brackets, and the line with the cursor.
_FRAME: Final = 25
# What the tools behind those that fit have in common with the query.
_SHARES: Final = "more that only share a word"
# The function that writes one tool.
ToolText = Callable[[ToolRecord], str]


def rendered(finder: Finder, view: View, level: int, offset: int = 0) -> ToolText:
    """Return the function that writes one tool at a level, for this agent; at level 3 its description from `offset`."""
    if level == 1:
        return lambda tool: _kept(tool, "level 1", level1)
    if level == 2:
        return lambda tool: _kept(tool, "level 2", level2)
    return lambda tool: level3(
        tool,
        offset=offset,
        read_on="describe_tools with offset",
        annotations=finder.annotations(view, tool),
        source=finder.source(tool),
    )


def _kept(tool: ToolRecord, level: Rendering, write: ToolText) -> str:
    """Return the text of a tool, written once: searches show the same tools again and again."""
    known = tool.rendered.get(level)
    if known is None:
        known = tool.rendered[level] = write(tool).encode()
    return known.decode()


def answer(
    tools: Sequence[ToolRecord],
    level: int,
    render: ToolText,
    limit: int,
    max_tokens: int | None,
    notes: Sequence[str] = (),
    *,
    fitting: int | None = None,
) -> str:
    """Return the first `limit` tools, or as many of them as `max_tokens` allows; the rest is counted.

    `notes` are lines about the answer as a whole; `fitting`: how many of the tools, the first ones, fit a query.
    """
    items = [render(tool) for tool in tools[:limit]]
    if max_tokens is not None:
        items = list(fit(items, max(0, max_tokens - _FRAME)).items)
        if not items and tools:
            return _too_small(tools[0], render, max_tokens)
    more = len(tools) - len(items)
    cursor = shown_name(tools[len(items) - 1]) if more else None
    if level == 1:
        rest = "more" if fitting is None else "more fit less well" if len(items) < fitting else _SHARES
        return "\n".join([*items, *([f"+{more} {rest}, go on with cursor {cursor}"] if more else []), *notes])
    body: dict[str, Any] = {"tools": [Raw(item.encode()) for item in items]}
    if more:
        body |= {"more": more, "cursor": cursor}
    if notes:
        body["note"] = " ".join(notes)
    return encode(body).decode()


def still_indexing(tools: int) -> str:
    """Return the note for an answer in which so many tools may be missing."""
    what = "1 tool is" if tools == 1 else f"{tools} tools are"
    return f"{what} still being indexed and cannot be found by words yet: search again in a moment."


def not_searchable(servers: Iterable[str]) -> str:
    """Return the note for an answer that lacks the tools of these servers because of an error of ours."""
    return f"The tools of {', '.join(servers)} cannot be found by words now: search again without query."


def _too_small(tool: ToolRecord, render: ToolText, max_tokens: int) -> str:
    needed = estimate(render(tool)) + _FRAME
    name = shown_name(tool)
    return f"max_tokens {max_tokens} is too small: {name} alone takes {needed}. Give more, or take level 1."
