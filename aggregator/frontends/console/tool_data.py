"""Data of tools for pages, as plain values: links, choices of agent and level, bounded texts."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from aggregator.catalog.search.explain import HitReasons
from aggregator.domain.principal import Principal
from aggregator.domain.shell import foreign_word, json_word
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.view import BadInput, ConsoleRequest
from aggregator.gateway.browse import LEVELS, Level
from aggregator.gateway.views.views import View

# Rows of one page.
ROWS: Final = 50
# Agents that are offered by name; others are typed.
_OFFERED: Final = 200
_REASONS: Final = 4
# Characters of the note about a left-out rest, and of the longest rest that is shown all the same.
_NOTE: Final = 32
_LITTLE: Final = 200
_LAST_PAGE: Final = 100_000


def link(*parts: str) -> str:
    """Return a path below the console's, each part as one segment; `.json` at the end is not taken for a suffix."""
    path = "".join("/" + quote(part, safe="", errors="replace") for part in parts)
    return f"{path}/" if path.endswith(".json") else path


def pin_link(server: str, kind: str, name: str) -> str:
    """Return the path to the pinned definition of an item."""
    return f"{link('pins', server).rstrip('/')}/item?{urlencode({'kind': kind, 'item': name}, errors='replace')}"


def chosen_agent(parts: ConsoleParts, request: ConsoleRequest, given: Mapping[str, str]) -> Principal | None:
    """Return the agent that a request names by `as`; None for all there is.

    Raises:
        BadInput: there is no such agent.
    """
    name = given.get("as", "").strip()
    if not name:
        return None
    principal = parts.browser.principal(name)
    if principal is None:
        raise BadInput("as", f"There is no agent {name[:64]!r}: take one of the policies, or leave it empty.")
    return principal


def chosen_level(request: ConsoleRequest, usual: Level) -> Level:
    """Return the level that a request asks for.

    Raises:
        BadInput: there is no such level.
    """
    text = request.query.get("level", "")
    if not text:
        return usual
    for level in LEVELS:
        if text == str(level):
            return level
    raise BadInput("level", "`level` is 1, 2 or 3.")


def chosen_page(request: ConsoleRequest) -> int:
    """Return the number of the page that a request asks for, from 1.

    Raises:
        BadInput: it is no number.
    """
    text = request.query.get("page", "") or "1"
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text[:9]) <= _LAST_PAGE:
        raise BadInput("page", "`page` is a number from 1.")
    return int(text)


def view_of(parts: ConsoleParts, principal: Principal | None) -> View:
    """Return an agent's view; for None, the view of everything."""
    return parts.browser.view(principal)


def offered_agents(parts: ConsoleParts) -> list[str]:
    """Return the first agents by name, to choose from."""
    return list(parts.browser.agents()[:_OFFERED])


def why(found: HitReasons | None) -> list[dict[str, Any]]:
    """Return the strongest reasons for a hit: one for each word and way, with all its fields."""
    if found is None:
        return []
    joined: dict[tuple[str, str], dict[str, Any]] = {}
    for one in found.matched:
        known = joined.setdefault(
            (one.asked, one.match),
            {"asked": one.asked[:80], "match": one.match, "found": [], "fields": [], "points": one.points},
        )
        _add(known["found"], (word for word in one.found if word != one.asked.lower()))
        _add(known["fields"], (one.field,))
    return list(joined.values())[:_REASONS]


def _add(to: list[str], more: Iterable[str]) -> None:
    for one in more:
        if one not in to and len(to) < _REASONS:
            to.append(one)


def cut_at(text: str, most: int) -> int:
    """Return how many characters of a text are shown: all if the note in place of the rest would take as much room."""
    return len(text) if len(text) <= most + min(max(_NOTE, most // 4), _LITTLE) else most


def bounded(text: str, most: int) -> str:
    """Return the text, or its beginning and how much is left out."""
    end = cut_at(text, most)
    return text if len(text) == end else f"{text[:end]}… ({len(text) - end:,} more characters)"


def pretty(value: Any, most: int) -> str:
    """Return a JSON value on several lines, or its beginning; of any size, in a time that grows with `most` only."""
    pieces: list[str] = []
    size = 0
    try:
        for piece in json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(value):
            pieces.append(piece[: most - size])
            size += len(piece)
            if size > most:
                return "".join(pieces) + "… (the rest is left out)"
    except (RecursionError, ValueError):
        return "".join(pieces) + "… (nested too deeply)"
    return "".join(pieces)


def call_line(tool: str, arguments: Mapping[str, Any], agent: str | None) -> str:
    """Return the command line that makes a call."""
    as_agent = f" --agent {foreign_word(agent)}" if agent is not None else ""
    return f"aggregator call{as_agent} {foreign_word(tool)} --arguments {json_word(arguments)}"
