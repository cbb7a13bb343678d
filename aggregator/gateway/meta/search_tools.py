"""The meta tool `search_tools`: the tools that fit a query, or all of them, page by page."""

from typing import Final

from aggregator.catalog.describe.levels import shown_name
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.cut import quoted
from aggregator.gateway.meta.name_resolution import all_servers, is_every_server, no_server
from aggregator.gateway.meta.rendering import answer, not_searchable, rendered, still_indexing
from aggregator.gateway.meta.tool import MetaTool, MetaToolCall, meta_record
from aggregator.gateway.views.finder import MOST_FOUND
from aggregator.gateway.views.start_faults import left_out_sentence
from aggregator.pins.gateway.answers import held_note
from aggregator.skills.meta_tools import skill_lines

# Tools shown by default, by level.
_LIMITS: Final = {1: 10, 2: 5, 3: 3}

# Skills shown, beside the tools.
_SKILLS: Final = 5

_RECORD: Final = meta_record(
    "search_tools",
    "Find tools and skills by keywords, best first; without query: list all",
    {
        "query": {"type": "string", "description": "in English"},
        "level": {"enum": [1, 2, 3], "description": "1 line, 2 parameters, 3 schema"},
        "server": {"type": "string"},
        "limit": {"type": "integer"},
        "cursor": {"type": "string"},
    },
)
_UNLISTED: Final = {"limit": {"minimum": 1, "maximum": 100}, "max_tokens": {"type": "integer"}}


async def search_tools(asking: MetaToolCall) -> str:
    """Return lines (level 1) or compact JSON (levels 2 and 3) of tools that the agent may call, and lines of skills."""
    finder, view, given = asking.finder, asking.view, asking.arguments
    query, server, cursor = given.get("query", "").strip(), given.get("server") or None, given.get("cursor") or None
    level = given.get("level", 1)
    if server is not None and is_every_server(finder, view, server):
        server = None
    if server is not None:
        seen = finder.server_named(view, server)
        if seen is None:
            return no_server(finder, view, server)
        server = seen.config.id
    judged = None
    if query:
        found, judged = await finder.search_and_judge(view, query, MOST_FOUND, server)
    else:
        found = finder.of_server(view, server) if server is not None else list(finder.tools(view))
    missing = finder.not_indexed_of(view) if query else 0
    failed = finder.unsearchable_of(view) if query else []
    gaps = [*([still_indexing(missing)] if missing else []), *([not_searchable(failed)] if failed else [])]
    skills = [] if cursor is not None else await _skills(asking, query, server)
    if not found:
        if skills:
            return "\n".join([*gaps, *skills])
        nothing = await _nothing(asking, query, server)
        return "\n".join([nothing, *gaps])
    start = 0
    if cursor is not None:
        behind = _behind(found, cursor)
        if behind is None:
            return f"The cursor {quoted(cursor)} is not of this search (any more): search again without it."
        start = behind
    limit, max_tokens = given.get("limit", _LIMITS[level]), given.get("max_tokens")
    found = found[start:]
    fitting = None if judged is None else max(0, judged.fitting - start)
    if fitting is not None and 0 < fitting < limit:
        limit = fitting
    if not found:
        return "That was all."
    notes = [judged.weak] if judged is not None and judged.weak and not start else []
    away = finder.unreachable(found[:limit])
    notes += [f"{name} is away: calls of its tools are refused until it is back." for name in away]
    if finder.settled and not away:
        asking.keep()
    notes += gaps
    notes += skills
    return answer(found, level, rendered(finder, view, level), limit, max_tokens, notes, fitting=fitting)


async def _skills(asking: MetaToolCall, query: str, server: str | None) -> list[str]:
    """Return lines about the skills that fit."""
    max_tokens = asking.arguments.get("max_tokens")
    skills, left_out = await asking.finder.skills.search(asking.view, query, _SKILLS, server)
    return skill_lines(skills, left_out, None if max_tokens is None else max_tokens // 3)


def _behind(found: list[ToolRecord], cursor: str) -> int | None:
    """Return the index after the tool that was shown last."""
    return next((at + 1 for at, tool in enumerate(found) if shown_name(tool) == cursor), None)


async def _nothing(asking: MetaToolCall, query: str, server: str | None) -> str:
    """Return the text for an empty result: similar names, the servers, and those that cannot be searched now."""
    from aggregator.catalog.search.relevance import ENGLISH

    finder, view = asking.finder, asking.view
    servers = finder.servers(view)
    sentences = [f"No tool fits {quoted(query)}. {ENGLISH}" if query else "There are no tools."]
    nearest = await finder.nearest(view, query) if query else []
    if nearest:
        sentences.append(f"Names like it: {', '.join(nearest)}.")
    asked = [seen for seen in servers if server in (None, seen.config.id, seen.config.prefix)]
    away = [seen for seen in asked if not seen.tools and not seen.held]
    sentences += [f"{seen.name} is {seen.state}: its tools cannot be found now." for seen in away]
    sentences += [f"Of {seen.name}, {held_note(seen.held)}." for seen in asked if seen.held]
    sentences.append(left_out_sentence(finder.left_out(view)))
    if query:
        sentences.append(all_servers(servers))
    return " ".join(filter(None, sentences))


TOOL: Final = MetaTool(_RECORD, search_tools, _UNLISTED)
