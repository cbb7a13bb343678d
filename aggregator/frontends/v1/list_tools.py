"""Render tools for `GET /v1/tools`: texts for a prompt or definitions for a model API, as many as fit."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from aggregator.catalog.describe.levels import LABELS, level1, level2, level3, shown_name
from aggregator.domain.names import Style
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.tokens import estimate
from aggregator.frontends.v1.definitions import NotPortable, anthropic, mcp, openai, short, short_whole
from aggregator.frontends.v1.parse_query import ToolsQuery
from aggregator.intent.match.intent import IntentMatch, snippet
from aggregator.wire.codec import Raw, encode

# Rendering a tool takes up to half a millisecond; after so many, other tasks have a turn.
_AT_A_TIME: Final = 10
# Renders a tool: the text that a model would read, and the item for the answer's list.
ToolWriter = Callable[[ToolRecord], tuple[str, Any]]
# A function that returns the kind of server that a tool is from.
SourceLookup = Callable[[ToolRecord], Literal["local", "mcp"]]


async def tools_body(
    query: ToolsQuery,
    tools: Sequence[ToolRecord],
    style: Style,
    source: SourceLookup,
    match: IntentMatch | None = None,
    weak: str = "",
) -> dict[str, Any]:
    """Return the body with as many whole tools as fit, their cost in tokens, and how many were left out.

    `style` is the spelling of names in MCP definitions, `source` returns the kind of server of a tool, `match` is
    how a message led to the tools, and `weak` says why even the best tool hardly fits the search.
    """
    write = _writer(query, style, source)
    items: list[Any] = []
    unfit: list[dict[str, str]] = []
    tokens = 0
    for at, tool in enumerate(tools):
        if at % _AT_A_TIME == _AT_A_TIME - 1:
            await asyncio.sleep(0)
        try:
            text, item = write(tool)
        except NotPortable as problem:
            unfit.append({"name": shown_name(tool), "reason": str(problem)})
            continue
        # One more token for the line break between two.
        cost = estimate(text) + (1 if items else 0)
        if query.max_tokens is not None and tokens + cost > query.max_tokens:
            break
        tokens += cost
        items.append(item)
    kind = {"level": query.level} if query.texts else {"format": query.format}
    matched = _matched(match) if match is not None else {"weak": weak} if weak else {}
    body = {**matched, **kind, "tools": items, "tokens": tokens, "left_out": len(tools) - len(items) - len(unfit)}
    return {**body, "unfit": unfit} if unfit else body


def intent_body(match: IntentMatch) -> dict[str, Any]:
    """Return the body about one message; the snippet is empty if the message asks for no tool."""
    text = snippet(match) if match.tools else ""
    names = [shown_name(tool) for tool in match.tools]
    return {**_matched(match), "tools": names, "snippet": text, "tokens": estimate(text)}


def _matched(match: IntentMatch) -> dict[str, Any]:
    return {"intent": match.intent, "rule": match.rule, "matched": match.matched, "server": match.server}


def _writer(query: ToolsQuery, style: Style, source: SourceLookup) -> ToolWriter:
    if query.texts:
        return _text_writer(query, source)
    match query.format:
        case "openai":
            return _defined(openai)
        case "anthropic":
            return _defined(anthropic)
        case "seed":
            return _defined(short_whole if query.level == 3 else lambda tool: short(tool, query.language))
    return _defined(lambda tool: mcp(tool, style))


def _defined(define: Callable[[ToolRecord], Mapping[str, Any]]) -> ToolWriter:
    def write(tool: ToolRecord) -> tuple[str, Any]:
        data = encode(define(tool))
        return data.decode("utf-8", "replace"), Raw(data)

    return write


def _text_writer(query: ToolsQuery, source: SourceLookup) -> ToolWriter:
    label = query.label or (LABELS[query.language] if query.format is not None else "")
    render: Mapping[int, Callable[[ToolRecord], str]] = {
        1: lambda tool: level1(tool, label=label, language=query.language),
        2: lambda tool: level2(tool, language=query.language),
        3: lambda tool: level3(tool, source=source(tool)),
    }

    def write(tool: ToolRecord) -> tuple[str, Any]:
        text = render[query.level](tool)
        return text, {"name": shown_name(tool), "server": tool.server, "text": text}

    return write
